"""Fit, zoom, drag: where a point of the picture is on the screen."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QPointF, QSize, Qt
from PySide6.QtGui import QColor, QImage, QWheelEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from mblt_desktop.image.loading import Preview
from mblt_desktop.image.preview import LARGEST, MARGIN, PreviewView


def picture(width: int, height: int, colour: str = "red") -> Preview:
    image = QImage(width, height, QImage.Format.Format_RGB32)
    image.fill(QColor(colour))
    return Preview(QSize(width, height), (image,))


@pytest.fixture
def view(qtbot: QtBot) -> PreviewView:
    view = PreviewView()
    qtbot.addWidget(view)
    view.resize(640, 440)
    view.show()
    return view


def colour_at(view: PreviewView, x: int, y: int) -> str:
    return view.grab().toImage().pixelColor(x, y).name()


def test_a_large_picture_is_fitted_and_follows_the_size(view: PreviewView) -> None:
    view.show_pictures([picture(1200, 400)])
    assert view.zoom == pytest.approx(600 / 1200)
    assert colour_at(view, MARGIN + 2, 220) == "#ff0000"
    assert colour_at(view, MARGIN - 4, 220) != "#ff0000"
    view.resize(340, 440)
    assert view.fitted
    assert view.zoom == pytest.approx(300 / 1200)


def test_a_small_picture_is_not_enlarged(view: PreviewView) -> None:
    view.show_pictures([picture(10, 10)])
    assert view.zoom == 1.0
    assert colour_at(view, 320, 220) == "#ff0000"
    assert colour_at(view, 330, 220) != "#ff0000"


def test_two_pictures_stand_side_by_side(view: PreviewView) -> None:
    view.show_pictures([picture(400, 400, "red"), picture(400, 200, "blue")])
    assert colour_at(view, 200, 220) == "#ff0000"
    assert colour_at(view, 440, 220) == "#0000ff"
    assert colour_at(view, 440, 90) not in ("#ff0000", "#0000ff"), "centred, not stretched"


def wheel(view: PreviewView, at: QPoint, turns: int) -> None:
    event = QWheelEvent(
        QPointF(at),
        QPointF(view.mapToGlobal(at)),
        QPoint(),
        QPoint(0, 120 * turns),
        Qt.MouseButton.NoButton,
        Qt.KeyboardModifier.NoModifier,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(view, event)


def test_the_wheel_zooms_around_the_pointer(view: PreviewView) -> None:
    image = QImage(1200, 800, QImage.Format.Format_RGB32)
    image.fill(QColor("white"))
    for x in range(300, 320):
        for y in range(200, 220):
            image.setPixelColor(x, y, QColor("red"))
    view.show_pictures([Preview(image.size(), (image,))])
    corner = view._places()[0].topLeft()
    spot = (corner + QPointF(310, 210) * view.zoom).toPoint()
    for _ in range(6):
        wheel(view, spot, 1)
        assert colour_at(view, spot.x(), spot.y()) == "#ff0000"
    assert not view.fitted
    for _ in range(60):
        wheel(view, spot, 1)
    assert view.zoom == LARGEST


def test_keys_zoom_fit_and_show_actual_size(view: PreviewView, qtbot: QtBot) -> None:
    view.show_pictures([picture(1200, 800)])
    fitted = view.zoom
    qtbot.keyClick(view, Qt.Key.Key_Plus)
    assert view.zoom == pytest.approx(fitted * 1.25)
    qtbot.keyClick(view, Qt.Key.Key_1)
    assert view.zoom == 1.0
    qtbot.keyClick(view, Qt.Key.Key_Minus)
    assert view.zoom == pytest.approx(0.8)
    qtbot.keyClick(view, Qt.Key.Key_0)
    assert view.fitted
    assert view.zoom == fitted


def test_dragging_never_loses_the_picture(view: PreviewView, qtbot: QtBot) -> None:
    view.show_pictures([picture(1200, 800)])
    qtbot.keyClick(view, Qt.Key.Key_1)
    qtbot.mousePress(view, Qt.MouseButton.LeftButton, pos=QPoint(320, 220))
    qtbot.mouseMove(view, QPoint(5000, 5000))
    qtbot.mouseRelease(view, Qt.MouseButton.LeftButton)
    place = view._places()[0]
    assert (place.left(), place.top()) == pytest.approx((MARGIN, MARGIN))


def test_double_click_toggles_actual_size(view: PreviewView, qtbot: QtBot) -> None:
    view.show_pictures([picture(1200, 800)])
    qtbot.mouseDClick(view, Qt.MouseButton.LeftButton)
    assert view.zoom == 1.0
    qtbot.mouseDClick(view, Qt.MouseButton.LeftButton)
    assert view.fitted


def test_nothing_to_show_is_fine(view: PreviewView, qtbot: QtBot) -> None:
    view.show_pictures([])
    qtbot.keyClick(view, Qt.Key.Key_Plus)
    view.grab()
    assert view.zoom == 1.0
