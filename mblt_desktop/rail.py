"""The rail at the left edge: one button per pane."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtWidgets import QButtonGroup, QFrame, QMenu, QToolButton, QVBoxLayout

from mblt_desktop.theme import font, icon, theme_manager
from mblt_desktop.widgets import IconButton

WIDTH = 64


@dataclass(frozen=True, slots=True)
class Place:
    """A pane as the rail shows it."""

    name: str
    title: str
    full_title: str
    icon: str
    low: bool = False
    """Stands at the lower end of the rail."""


PLACES = (
    Place("chat", "Chat", "Chat", "chat"),
    Place("image", "Image", "Image", "image"),
    Place("microphone", "Mic", "Microphone", "mic"),
    Place("tracing", "Tracing", "Tracing", "tracing"),
    Place("models", "Models", "Models", "models", low=True),
    Place("settings", "Settings", "Settings", "settings", low=True),
)


class Rail(QFrame):
    """Emits the name of the pane somebody wants to see."""

    chosen = Signal(str)

    def __init__(self, menu: QMenu) -> None:
        super().__init__()
        self.setProperty("role", "rail")
        self.setFixedWidth(WIDTH)
        self._buttons: dict[str, QToolButton] = {}
        self._group = QButtonGroup(self)
        column = QVBoxLayout(self)
        column.setContentsMargins(6, 12, 6, 8)
        column.setSpacing(4)
        for place in PLACES:
            if place.low and not any(known.low for known in PLACES if known.name in self._buttons):
                column.addStretch(1)
            button = self._button(place)
            self._buttons[place.name] = button
            self._group.addButton(button)
            column.addWidget(button)
        self.menu = IconButton("more", "Menu", size=20)
        self.menu.setMenu(menu)
        self.menu.setPopupMode(QToolButton.ToolButtonPopupMode.InstantPopup)
        column.addWidget(self.menu, 0, Qt.AlignmentFlag.AlignHCenter)
        self._group.buttonClicked.connect(self._on_clicked)
        theme_manager().changed.connect(self._draw)
        self._draw()

    def select(self, name: str) -> None:
        """Show which pane is at the front."""
        self._buttons[name].setChecked(True)

    def _button(self, place: Place) -> QToolButton:
        button = QToolButton()
        button.setProperty("role", "rail")
        button.setCheckable(True)
        button.setToolButtonStyle(Qt.ToolButtonStyle.ToolButtonTextUnderIcon)
        button.setText(place.title)
        button.setAccessibleName(place.full_title)
        button.setToolTip(place.full_title)
        button.setIconSize(QSize(20, 20))
        face = font("small")
        face.setPixelSize(face.pixelSize() - 1)
        button.setFont(face)
        button.setFixedSize(52, 52)
        button.setObjectName(place.name)
        button.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        button.setCursor(Qt.CursorShape.PointingHandCursor)
        return button

    @Slot(QToolButton)
    def _on_clicked(self, button: QToolButton) -> None:
        self.chosen.emit(button.objectName())

    @Slot()
    def _draw(self) -> None:
        for place in PLACES:
            self._buttons[place.name].setIcon(icon(place.icon, "muted"))
