"""One setting as a row: name and explanation on the left, editor, source and way back on the right."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QBoxLayout, QFrame, QHBoxLayout, QVBoxLayout, QWidget

from mblt_desktop.settings.editor_base import mark_invalid
from mblt_desktop.settings.editors import make_editor
from mblt_desktop.settings.preferences import Preferences
from mblt_desktop.theme import font
from mblt_desktop.widgets import Button, Label, Line, Section
from runtime.errors import SettingError
from runtime.settings.types import Setting, SettingValue

EDITOR_WIDTH = 340


class SettingRow(QWidget):
    """Shows a setting of the preferences and changes it at once."""

    def __init__(self, setting: Setting, preferences: Preferences) -> None:
        super().__init__()
        self.setting = setting
        self._preferences = preferences
        self._model_value: SettingValue = None
        self.editor = make_editor(setting)
        self._title = Label(setting.title)
        self._title.setBuddy(self.editor.buddy)
        self._help = Label(_help(setting), "muted", "small", wrap=True)
        self.source = Label("", "muted", "small")
        self.reset = Button("", kind="link")
        self.reset.setAccessibleName(f"Reset {setting.title}")
        self.error = Label("", "bad", "small", wrap=True)
        self._build()
        self.editor.edited.connect(self._on_edited)
        self.editor.refused.connect(self._on_refused)
        self.reset.clicked.connect(self._on_reset_clicked)
        preferences.changed.connect(self._on_changed)
        self.refresh()

    def _build(self) -> None:
        self.reset.setFont(font("small"))
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(self._title)
        words.addWidget(self._help)
        foot = QHBoxLayout()
        foot.setSpacing(12)
        foot.addWidget(self.source)
        foot.addWidget(self.reset)
        foot.addStretch(1)
        right = QVBoxLayout()
        right.setSpacing(4)
        right.addWidget(self.editor)
        right.addLayout(foot)
        right.addWidget(self.error)
        words.addStretch(1)
        right.addStretch(1)
        whole: QBoxLayout = QVBoxLayout(self) if self.editor.wide else QHBoxLayout(self)
        whole.setContentsMargins(16, 12, 16, 12)
        whole.setSpacing(8 if self.editor.wide else 24)
        whole.addLayout(words, 1)
        if self.editor.wide:
            whole.addLayout(right)
        else:
            holder = QWidget()
            holder.setFixedWidth(EDITOR_WIDTH)
            right.setContentsMargins(0, 0, 0, 0)
            holder.setLayout(right)
            whole.addWidget(holder)

    def set_model_value(self, value: SettingValue) -> None:
        """What the loaded model says for the time the value is left open; None without one."""
        self._model_value = value
        self.refresh()

    def value_that_counts(self) -> SettingValue:
        """The user's value, else the model's, else the fallback."""
        value = self._preferences.get(self.setting.key)
        if value is not None:
            return value
        return self.setting.fallback if self._model_value is None else self._model_value

    def set_dimmed(self, dimmed: bool) -> None:
        """Show that the value has no effect now; it can still be changed."""
        self._title.set_tone("muted" if dimmed else "text")

    def refresh(self) -> None:
        """Show what holds now."""
        setting, key = self.setting, self.setting.key
        base = self.setting.fallback if self._model_value is None else self._model_value
        if isinstance(base, (int, float)):
            self.editor.set_base(base)
        self.editor.show_value(self._preferences.get(key))
        self._show_error(None)
        chosen = self._preferences.is_set(key)
        self.source.setText("Set by you" if chosen else self._where_from())
        self.source.setVisible(bool(self.source.text()))
        back = setting.unset if setting.optional else setting.say(setting.default)
        self.reset.setText(f"Reset to {back}")
        self.reset.setVisible(chosen)

    def _where_from(self) -> str:
        if not self.setting.optional:
            return ""
        if self._model_value is not None:
            return f"From the model: {self.setting.say(self._model_value)}"
        if self.setting.fallback is not None:
            return f"When the model says nothing: {self.setting.say(self.setting.fallback)}"
        return ""

    def _show_error(self, error: SettingError | None) -> None:
        self.error.setText("" if error is None else f"{error.summary} {error.remedy}")
        self.error.setVisible(error is not None)
        mark_invalid(self.editor, error is not None)

    @Slot(object)
    def _on_edited(self, value: SettingValue) -> None:
        self._show_error(None)
        self._preferences.set(self.setting.key, value)

    @Slot(object)
    def _on_refused(self, error: SettingError) -> None:
        self._show_error(error)

    @Slot()
    def _on_reset_clicked(self) -> None:
        self._preferences.reset(self.setting.key)
        self.editor.buddy.setFocus()

    @Slot(str)
    def _on_changed(self, key: str) -> None:
        if key == self.setting.key:
            self.refresh()


class Card(QFrame):
    """A titled box of rows with lines between them; hides itself when all its rows are hidden."""

    def __init__(self, title: str = "") -> None:
        super().__init__()
        self.setProperty("role", "card")
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(0, 4, 0, 4)
        self.column.setSpacing(0)
        self._lines: dict[QWidget, Line] = {}
        if title:
            heading = Section(title)
            heading.setContentsMargins(16, 8, 16, 4)
            self.column.addWidget(heading)

    def add(self, widget: QWidget) -> None:
        """Add a row under a line."""
        if self._lines:
            line = Line()
            self.column.addWidget(line)
        else:
            line = Line()
            line.hide()
        self._lines[widget] = line
        self.column.addWidget(widget)

    def show_only(self, wanted: set[QWidget]) -> None:
        """Show some of the rows."""
        first = True
        for widget, line in self._lines.items():
            shown = widget in wanted
            widget.setVisible(shown)
            line.setVisible(shown and not first)
            first = first and not shown
        self.setVisible(not first)


def _help(setting: Setting) -> str:
    if setting.takes_effect == "after a restart":
        return f"{setting.help} Takes effect after a restart."
    return setting.help
