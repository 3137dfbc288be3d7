"""The look at run time: the appearance in use, fonts, and icons drawn in its colours.

Widgets never name a colour. They set a dynamic property that the stylesheet knows (`kind`, `tone`, `role`),
or read `current_theme()` when they paint themselves and repaint on `ThemeManager.changed`.
"""

from __future__ import annotations

from functools import lru_cache
from importlib.resources import files
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QByteArray, QObject, QRectF, QSize, Qt, QTemporaryDir, Signal, Slot
from PySide6.QtGui import (
    QColor,
    QFont,
    QFontInfo,
    QGuiApplication,
    QIcon,
    QPainter,
    QPalette,
    QPixmap,
    QPixmapCache,
)
from PySide6.QtSvg import QSvgRenderer
from PySide6.QtWidgets import QApplication

from mblt_desktop.stylesheet import stylesheet
from mblt_desktop.tokens import DARK, LIGHT, Theme

__all__ = [
    "DARK",
    "LIGHT",
    "Theme",
    "ThemeManager",
    "ThemeMode",
    "apply_theme",
    "current_theme",
    "font",
    "icon",
    "pixmap",
    "theme_manager",
]

ThemeMode = Literal["system", "light", "dark"]
Size = Literal["small", "body", "title"]
ICON_SIZES = (16, 20, 24, 32)


class ThemeManager(QObject):
    """Keeps the application in one appearance and says when it changed."""

    changed = Signal()

    def __init__(self, app: QApplication) -> None:
        super().__init__(app)
        self._app = app
        self._mode: ThemeMode = "system"
        self._theme: Theme | None = None
        self._arrows = QTemporaryDir()
        app.setStyle("Fusion")
        app.styleHints().colorSchemeChanged.connect(self._on_scheme_changed)

    @property
    def theme(self) -> Theme:
        """The colours in use."""
        return self._theme or LIGHT

    @property
    def mode(self) -> ThemeMode:
        """What was asked for."""
        return self._mode

    def set_mode(self, mode: ThemeMode) -> None:
        """Follow the system, or stay light or dark."""
        self._mode = mode
        schemes = {
            "system": Qt.ColorScheme.Unknown,
            "light": Qt.ColorScheme.Light,
            "dark": Qt.ColorScheme.Dark,
        }
        self._app.styleHints().setColorScheme(schemes[mode])
        self._apply()

    @Slot()
    def _on_scheme_changed(self) -> None:
        self._apply()

    def _apply(self) -> None:
        wanted = self._wanted()
        if wanted is self._theme:
            return
        self._theme = wanted
        self._app.setPalette(_palette(wanted))
        self._app.setFont(font())
        self._app.setStyleSheet(stylesheet(wanted, self._image_files(wanted)))
        self.changed.emit()

    def _wanted(self) -> Theme:
        """Offscreen and some desktops report Unknown: that means light."""
        if self._mode == "system":
            dark = self._app.styleHints().colorScheme() == Qt.ColorScheme.Dark
            return DARK if dark else LIGHT
        return DARK if self._mode == "dark" else LIGHT

    def _image_files(self, theme: Theme) -> dict[str, str]:
        """The few pictures a stylesheet needs as files, in this theme's colours."""
        wanted = {"down": ("chevron-down", theme.muted), "up": ("chevron-up", theme.muted)}
        wanted |= {"check": ("check", theme.on_accent), "right": ("chevron-right", theme.muted)}
        folder = Path(self._arrows.path())
        result = {}
        for key, (name, colour) in wanted.items():
            file = folder / f"{key}-{'dark' if theme.dark else 'light'}.svg"
            file.write_bytes(_svg(name, colour))
            result[key] = file.as_posix()
        return result


_manager: ThemeManager | None = None


def apply_theme(app: QApplication, mode: ThemeMode = "system") -> ThemeManager:
    """Put the application into `mode`; the manager tells of later changes by the system."""
    global _manager
    if _manager is None or _manager.parent() is not app:
        _manager = ThemeManager(app)
    _manager.set_mode(mode)
    return _manager


def theme_manager() -> ThemeManager:
    """The manager of the running application, made at first need."""
    app = QApplication.instance()
    assert isinstance(app, QApplication)
    return _manager if _manager is not None else apply_theme(app)


def current_theme() -> Theme:
    """The colours in use now; never keep them across a `changed`."""
    return _manager.theme if _manager is not None else LIGHT


def _palette(theme: Theme) -> QPalette:
    palette = QPalette()
    roles = {
        QPalette.ColorRole.Window: theme.bg,
        QPalette.ColorRole.WindowText: theme.text,
        QPalette.ColorRole.Base: theme.surface,
        QPalette.ColorRole.AlternateBase: theme.raised,
        QPalette.ColorRole.Text: theme.text,
        QPalette.ColorRole.Button: theme.raised,
        QPalette.ColorRole.ButtonText: theme.text,
        QPalette.ColorRole.BrightText: theme.bad,
        QPalette.ColorRole.ToolTipBase: theme.raised,
        QPalette.ColorRole.ToolTipText: theme.text,
        QPalette.ColorRole.PlaceholderText: theme.muted,
        QPalette.ColorRole.Highlight: theme.accent,
        QPalette.ColorRole.HighlightedText: theme.on_accent,
        QPalette.ColorRole.Accent: theme.accent,
        QPalette.ColorRole.Link: theme.accent,
        QPalette.ColorRole.LinkVisited: theme.accent,
        QPalette.ColorRole.Mid: theme.border,
        QPalette.ColorRole.Dark: theme.border,
        QPalette.ColorRole.Light: theme.surface,
    }
    for role, value in roles.items():
        palette.setColor(role, QColor(value))
    for role in (QPalette.ColorRole.WindowText, QPalette.ColorRole.Text, QPalette.ColorRole.ButtonText):
        palette.setColor(QPalette.ColorGroup.Disabled, role, QColor(theme.faint))
    return palette


# -- fonts ----------------------------------------------------------------------------------------


def base_pixels() -> int:
    """The height of body text in pixels: the system's, but never smaller than 13."""
    return max(13, QFontInfo(QGuiApplication.font()).pixelSize())


def font(size: Size = "body", *, bold: bool = False, tabular: bool = False, mono: bool = False) -> QFont:
    """A font of the scale; `tabular` gives every digit the same width, for numbers that change or align."""
    result = QFont(QGuiApplication.font())
    if mono:
        result.setFamilies(["JetBrains Mono", "DejaVu Sans Mono", "Noto Sans Mono", "monospace"])
        result.setStyleHint(QFont.StyleHint.Monospace)
    base = base_pixels()
    result.setPixelSize({"small": base - 2, "body": base, "title": base + 2}[size])
    if bold:
        result.setWeight(QFont.Weight.DemiBold)
    if tabular:
        result.setFeature(QFont.Tag("tnum"), 1)
    return result


# -- icons ----------------------------------------------------------------------------------------


@lru_cache(maxsize=256)
def _svg(name: str, colour: str) -> bytes:
    source = (files("resources") / "icons" / f"{name}.svg").read_text(encoding="utf-8")
    return source.replace("currentColor", colour).encode()


def pixmap(name: str, colour: str, size: int, ratio: float = 2.0) -> QPixmap:
    """An icon as a picture of `size` logical pixels in one colour of the theme.

    Kept for the next button: a list of files has two for every row, each in many sizes and colours.
    """
    key, result = f"{name} {colour} {size} {ratio}", QPixmap()
    if QPixmapCache.find(key, result):
        return result
    result = QPixmap(QSize(size, size) * ratio)
    result.fill(Qt.GlobalColor.transparent)
    painter = QPainter(result)
    QSvgRenderer(QByteArray(_svg(name, colour))).render(painter, QRectF(0, 0, size * ratio, size * ratio))
    painter.end()
    result.setDevicePixelRatio(ratio)
    QPixmapCache.insert(key, result)
    return result


def icon(name: str, tone: str = "text") -> QIcon:
    """An icon of resources/icons in a colour of the current theme; checked buttons show it in the accent."""
    theme = current_theme()
    result = QIcon()
    for size in ICON_SIZES:
        result.addPixmap(pixmap(name, getattr(theme, tone), size), QIcon.Mode.Normal, QIcon.State.Off)
        result.addPixmap(pixmap(name, theme.faint, size), QIcon.Mode.Disabled, QIcon.State.Off)
        result.addPixmap(pixmap(name, theme.accent, size), QIcon.Mode.Normal, QIcon.State.On)
    return result
