"""What every editor of a setting does: show a value, hand over what the setting accepts."""

from __future__ import annotations

from PySide6.QtCore import Qt, Signal
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QComboBox, QHBoxLayout, QSizePolicy, QWidget

from mblt_desktop.widgets import restyle
from runtime.errors import SettingError
from runtime.settings.types import Setting, SettingValue

FIELD_WIDTH = 168


class QuietWheel:
    """Scrolling the page over an editor must not change it: the wheel counts only with the focus."""

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Pass the wheel on to the page unless the editor has the focus."""
        if self.hasFocus():  # type: ignore[attr-defined]
            super().wheelEvent(event)  # type: ignore[misc]
        else:
            event.ignore()


class Combo(QuietWheel, QComboBox):
    """A list that the wheel changes only while it has the focus."""

    def __init__(self) -> None:
        super().__init__()
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)


class Editor(QWidget):
    """Base of the editors: `edited` carries a value that the setting takes, `refused` the SettingError.

    Every editor has its own `buddy` and `show_value`; Qt's metaclass leaves no room for ABC's.
    """

    wide = False
    """Whether it wants the whole width under the setting's name."""
    edited = Signal(object)
    refused = Signal(object)

    def __init__(self, setting: Setting) -> None:
        super().__init__()
        self.setting = setting
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Maximum)
        self.row = QHBoxLayout(self)
        self.row.setContentsMargins(0, 0, 0, 0)
        self.row.setSpacing(12)

    @property
    def buddy(self) -> QWidget:
        """The widget that takes the focus for the setting's label."""
        raise NotImplementedError

    def show_value(self, value: SettingValue) -> None:
        """Show a value without reporting it as an edit."""
        raise NotImplementedError

    def set_base(self, base: float | int | None) -> None:
        """What counts while the value is left open; editors that start from a number begin there."""

    def take(self, value: object) -> None:
        """Hand over a value, or the reason why the setting does not take it."""
        try:
            checked = self.setting.check(value)
        except SettingError as error:
            self.refused.emit(error)
        else:
            self.edited.emit(checked)

    def take_text(self, text: str) -> None:
        """Hand over what was typed; nothing typed leaves an optional value open."""
        if not text.strip() and self.setting.optional:
            self.take(None)
            return
        try:
            value = self.setting.parse(text.strip())
        except SettingError as error:
            self.refused.emit(error)
        else:
            self.edited.emit(value)

    def name_widget(self, widget: QWidget, suffix: str = "") -> None:
        """Say to assistive tools what the widget is for."""
        widget.setAccessibleName(self.setting.title + suffix)
        widget.setAccessibleDescription(self.setting.help)


def mark_invalid(editor: Editor, invalid: bool) -> None:
    """Frame the editor's field in the colour of errors, or not."""
    restyle(editor.buddy, invalid=invalid)
