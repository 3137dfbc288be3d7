"""The list of pictures follows the store and keeps the selection."""

from __future__ import annotations

import pytest
from PySide6.QtCore import Qt
from PySide6.QtGui import QColor, QImage
from PySide6.QtTest import QAbstractItemModelTester
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.image.gallery import RECORD, GalleryModel, GalleryView
from mblt_desktop.store.records import ImageRecord


def record(name: str, created_at: float) -> ImageRecord:
    return ImageRecord(f"/media/{name}", name, 640, 480, created_at)


@pytest.fixture
def model(qtbot: QtBot, context: AppContext) -> GalleryModel:
    for number in range(3):
        context.store.images.add(record(f"{number}.png", float(number)))
    return GalleryModel(context.store.images)


def names(model: GalleryModel) -> list[str]:
    return [model.index(row).data() for row in range(model.rowCount())]


def test_the_newest_comes_first_and_changes_are_followed(model: GalleryModel, context: AppContext) -> None:
    QAbstractItemModelTester(model, QAbstractItemModelTester.FailureReportingMode.Fatal, model)
    images = context.store.images
    assert names(model) == ["2.png", "1.png", "0.png"]
    images.add(record("new.png", 9.0))
    middle = images.list()[2]
    images.delete(middle.id)
    assert names(model) == ["new.png", "2.png", "0.png"]
    images.restore(middle.id)
    assert names(model) == ["new.png", "2.png", "1.png", "0.png"]


def test_the_selection_survives_other_rows(qtbot: QtBot, model: GalleryModel, context: AppContext) -> None:
    view = GalleryView(model)
    qtbot.addWidget(view)
    view.setCurrentIndex(model.index(1))
    context.store.images.add(record("new.png", 9.0))
    context.store.images.delete(context.store.images.list()[-1].id)
    assert [chosen.name for chosen in view.records()] == ["1.png"]


def test_a_thumbnail_is_asked_for_once_when_first_needed(qtbot: QtBot, model: GalleryModel) -> None:
    wanted: list[ImageRecord] = []
    model.thumbnail_wanted.connect(wanted.append)
    index = model.index(0)
    assert index.data(Qt.ItemDataRole.DecorationRole) is None
    assert index.data(Qt.ItemDataRole.DecorationRole) is None
    assert [one.name for one in wanted] == ["2.png"]
    image = QImage(4, 4, QImage.Format.Format_RGB32)
    image.fill(QColor("red"))
    with qtbot.waitSignal(model.dataChanged):
        model.set_thumbnail(wanted[0].id, image)
    assert index.data(Qt.ItemDataRole.DecorationRole) == image


def test_only_visible_rows_are_decoded(qtbot: QtBot, model: GalleryModel, context: AppContext) -> None:
    for number in range(200):
        context.store.images.add(record(f"more {number}", 100.0 + number))
    wanted: list[ImageRecord] = []
    model.thumbnail_wanted.connect(wanted.append)
    view = GalleryView(model)
    qtbot.addWidget(view)
    view.resize(260, 400)
    view.show()
    view.grab()
    assert 4 <= len(wanted) <= 10


def test_delete_asks_for_removal(qtbot: QtBot, model: GalleryModel) -> None:
    view = GalleryView(model)
    qtbot.addWidget(view)
    with qtbot.waitSignal(view.remove_requested):
        qtbot.keyClick(view, Qt.Key.Key_Delete)


def test_rows_are_named_for_screen_readers(model: GalleryModel) -> None:
    index = model.index(0)
    assert index.data(Qt.ItemDataRole.AccessibleTextRole) == "2.png, 640 × 480"
    assert index.data(RECORD).name == "2.png"
    assert not model.index_of("nobody").isValid()
