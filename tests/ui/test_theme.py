"""The look: two appearances, readable contrasts, recoloured icons, and PySide's reference counts."""

from __future__ import annotations

import sys
from importlib.resources import files

import pytest
from PySide6.QtCore import QByteArray, Qt
from PySide6.QtGui import QColor, QImage, QPixmapCache
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication, QLabel

from mblt_desktop.stylesheet import stylesheet
from mblt_desktop.theme import DARK, LIGHT, apply_theme, current_theme, font, icon
from mblt_desktop.tokens import Theme
from mblt_desktop.widgets import IconButton


def luminance(colour: str) -> float:
    """Relative luminance as WCAG 2 defines it."""
    parts = [QColor(colour).redF(), QColor(colour).greenF(), QColor(colour).blueF()]
    linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
    return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]


def contrast(a: str, b: str) -> float:
    high, low = sorted((luminance(a), luminance(b)), reverse=True)
    return (high + 0.05) / (low + 0.05)


@pytest.mark.parametrize("theme", [LIGHT, DARK], ids=["light", "dark"])
def test_words_can_be_read_on_every_background_they_stand_on(theme: Theme):
    for background in (theme.bg, theme.surface, theme.raised, theme.accent_soft, theme.code):
        assert contrast(theme.text, background) >= 7
    for background in (theme.bg, theme.surface, theme.raised):
        assert contrast(theme.muted, background) >= 4.5
    assert contrast(theme.on_accent, theme.accent) >= 4.3
    for tone in (theme.bad, theme.warn, theme.ok):
        assert contrast(tone, theme.surface) >= 4


def test_modes_and_the_unknown_scheme(qapp: QApplication):
    manager = apply_theme(qapp, "dark")
    assert current_theme() is DARK
    assert qapp.palette().window().color() == QColor(DARK.bg)
    assert apply_theme(qapp, "light") is manager
    assert current_theme() is LIGHT
    apply_theme(qapp, "system")
    assert qapp.styleHints().colorScheme() in (Qt.ColorScheme.Unknown, Qt.ColorScheme.Light)
    assert current_theme() is LIGHT


def test_icons_follow_the_theme(qapp: QApplication, qtbot):
    button = IconButton("stop", "Stop")
    qtbot.addWidget(button)
    before = most_common_colour(button.icon().pixmap(24, 24).toImage())
    apply_theme(qapp, "dark")
    assert before == QColor(LIGHT.muted)
    assert most_common_colour(button.icon().pixmap(24, 24).toImage()) == QColor(DARK.muted)


def most_common_colour(image: QImage) -> QColor:
    counts: dict[int, int] = {}
    for y in range(image.height()):
        for x in range(image.width()):
            if image.pixelColor(x, y).alpha() == 255:
                counts[image.pixel(x, y)] = counts.get(image.pixel(x, y), 0) + 1
    return QColor.fromRgb(max(counts, key=counts.__getitem__))


def test_every_icon_is_drawn(qapp: QApplication):
    folder = files("resources") / "icons"
    names = [entry.name[:-4] for entry in folder.iterdir() if entry.name.endswith(".svg")]
    assert len(names) >= 30
    for name in names:
        image = icon(name).pixmap(24, 24).toImage()
        assert any(image.pixelColor(x, y).alpha() for x in range(24) for y in range(24)), name


def test_tabular_digits_have_one_width(qapp: QApplication):
    from PySide6.QtGui import QFontMetricsF

    metrics = QFontMetricsF(font("small", tabular=True))
    assert len({metrics.horizontalAdvance(digit) for digit in "0123456789"}) == 1


def test_void_calls_keep_their_reference_to_none(qapp: QApplication, qtbot):
    """Some PySide6 builds lose one reference to None per void call and abort the process in the end."""
    label = QLabel()
    qtbot.addWidget(label)
    before = sys.getrefcount(None)
    for number in range(300):
        label.setIndent(number)
    assert sys.getrefcount(None) > before - 50


@pytest.mark.parametrize("folder", ["plain", "with space", "모델 폴더 é 🚀", "-x", "it's (1)"])
def test_the_stylesheet_can_be_read_wherever_its_pictures_lie(
    qapp: QApplication, qtbot, tmp_path, folder: str
):
    (tmp_path / folder).mkdir()
    images = {name: str(tmp_path / folder / f"{name}.svg") for name in ("up", "down", "right", "check")}
    label = QLabel()
    qtbot.addWidget(label)
    # Qt warns about a stylesheet that it cannot parse, and a warning fails the test.
    label.setStyleSheet(stylesheet(LIGHT, images))
    label.ensurePolished()
    assert "$" not in stylesheet(LIGHT, images)


def test_an_icon_is_drawn_once_for_each_colour(monkeypatch: pytest.MonkeyPatch) -> None:
    QPixmapCache.clear()
    drawn: list[QByteArray] = []

    class Counted(QSvgRenderer):
        def __init__(self, svg: QByteArray) -> None:
            super().__init__(svg)
            drawn.append(svg)

    monkeypatch.setattr("mblt_desktop.theme.QSvgRenderer", Counted)
    first = icon("close").pixmap(16).toImage()
    once = len(drawn)
    assert once
    assert icon("close").pixmap(16).toImage() == first
    assert len(drawn) == once
    assert icon("close", "bad").pixmap(16).toImage() != first
    assert len(drawn) > once
