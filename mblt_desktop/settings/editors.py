"""One editor per kind of setting; numbers are in `number_editors`."""

from __future__ import annotations

from PySide6.QtCore import QSignalBlocker, Slot
from PySide6.QtWidgets import (
    QButtonGroup,
    QCheckBox,
    QGridLayout,
    QLineEdit,
    QPlainTextEdit,
    QRadioButton,
    QWidget,
)

from mblt_desktop.settings.editor_base import FIELD_WIDTH, Combo, Editor
from mblt_desktop.settings.number_editors import SPIN_LIMIT, IntegerEditor, NumberEditor
from mblt_desktop.widgets import Label
from runtime.settings.types import Setting, SettingValue


def make_editor(setting: Setting) -> Editor:
    """The editor for a setting's kind."""
    if setting.kind == "switch":
        return SwitchEditor(setting)
    if setting.kind == "choice":
        return (
            RadioEditor(setting) if any(choice.help for choice in setting.choices) else ComboEditor(setting)
        )
    if setting.kind == "number":
        return NumberEditor(setting)
    if setting.kind == "integer" and (setting.maximum or 0) <= SPIN_LIMIT:
        return IntegerEditor(setting)
    if setting.kind == "items" and not setting.split:
        return LinesEditor(setting)
    return TextEditor(setting)


class SwitchEditor(Editor):
    """A check box."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = QCheckBox()
        self.name_widget(self.box)
        self.row.addWidget(self.box)
        self.row.addStretch(1)
        self.box.toggled.connect(self._on_toggled)

    @property
    def buddy(self) -> QWidget:
        """The check box."""
        return self.box

    def show_value(self, value: SettingValue) -> None:
        """Check or uncheck it."""
        with QSignalBlocker(self.box):
            self.box.setChecked(bool(value))

    @Slot(bool)
    def _on_toggled(self, on: bool) -> None:
        self.take(on)


class ComboEditor(Editor):
    """A list to choose one of few names from."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = Combo()
        self.box.setMinimumWidth(FIELD_WIDTH)
        self.name_widget(self.box)
        self.row.addWidget(self.box)
        self.row.addStretch(1)
        self.set_options([(choice.value, choice.title) for choice in setting.choices])
        self.box.activated.connect(self._on_activated)

    def set_options(self, options: list[tuple[str, str]]) -> None:
        """Replace the values and their names; an optional setting can also be left open."""
        current = self.box.currentData()
        with QSignalBlocker(self.box):
            self.box.clear()
            if self.setting.optional:
                self.box.addItem(self.setting.unset[:1].upper() + self.setting.unset[1:], None)
            for value, title in options:
                self.box.addItem(title, value)
            self.box.setCurrentIndex(max(0, self.box.findData(current)))

    @property
    def buddy(self) -> QWidget:
        """The list."""
        return self.box

    def show_value(self, value: SettingValue) -> None:
        """Select a value; one that is not in the list is added, so that it is not lost."""
        with QSignalBlocker(self.box):
            index = self.box.findData(value)
            if index < 0 and value is not None:
                self.box.addItem(f"{value} (not found)", value)
                index = self.box.count() - 1
            self.box.setCurrentIndex(max(0, index))

    @Slot(int)
    def _on_activated(self, index: int) -> None:
        self.take(self.box.itemData(index))


class RadioEditor(Editor):
    """One radio button per choice, each with its explanation beside it."""

    wide = True

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        grid = QGridLayout()
        grid.setHorizontalSpacing(24)
        grid.setVerticalSpacing(8)
        grid.setColumnStretch(1, 1)
        self.row.addLayout(grid, 1)
        self.group = QButtonGroup(self)
        self.buttons: dict[str, QRadioButton] = {}
        for line, choice in enumerate(setting.choices):
            button = QRadioButton(choice.title)
            button.setAccessibleDescription(choice.help)
            self.group.addButton(button)
            self.buttons[choice.value] = button
            grid.addWidget(button, line, 0)
            grid.addWidget(Label(choice.help, "muted", "small", wrap=True), line, 1)
        self.name_widget(self)
        self.group.buttonClicked.connect(self._on_clicked)

    @property
    def buddy(self) -> QWidget:
        """The chosen button, else the first."""
        return self.group.checkedButton() or next(iter(self.buttons.values()))

    def show_value(self, value: SettingValue) -> None:
        """Choose a button."""
        button = self.buttons.get(str(value))
        if button is not None:
            button.setChecked(True)

    @Slot(object)
    def _on_clicked(self, button: QRadioButton) -> None:
        self.take(next(value for value, other in self.buttons.items() if other is button))


class TextEditor(Editor):
    """A line; what it says is checked when it is left or Enter is pressed."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.line = QLineEdit()
        self.line.setMinimumWidth(FIELD_WIDTH)
        self.line.setPlaceholderText(setting.unset or f"e.g. {setting.example}")
        self._last = ""
        """The text that was shown or dealt with last."""
        self.name_widget(self.line)
        self.row.addWidget(self.line, 1)
        self.line.editingFinished.connect(self._on_finished)

    @property
    def buddy(self) -> QWidget:
        """The line."""
        return self.line

    def show_value(self, value: SettingValue) -> None:
        """Show it as it would be typed."""
        parts = value if isinstance(value, tuple) else () if value is None else (value,)
        self._last = ", ".join(str(part) for part in parts)
        if self.line.text() != self._last:
            self.line.setText(self._last)

    @Slot()
    def _on_finished(self) -> None:
        text = self.line.text()
        if text == self._last:
            return
        self._last = text
        if not text.strip() and self.setting.kind == "items":
            self.take(())
        else:
            self.take_text(text)


class LinesEditor(Editor):
    """Several texts, one per line; \\n stands for a line break inside one."""

    def __init__(self, setting: Setting) -> None:
        super().__init__(setting)
        self.box = QPlainTextEdit()
        self.box.setTabChangesFocus(True)
        self.box.setFixedHeight(72)
        self.box.setPlaceholderText("One per line")
        self.name_widget(self.box)
        self.row.addWidget(self.box, 1)
        self.box.textChanged.connect(self._on_changed)

    @property
    def buddy(self) -> QWidget:
        """The box."""
        return self.box

    def show_value(self, value: SettingValue) -> None:
        """Show the texts, unless the box already says the same."""
        if isinstance(value, tuple) and value != self._texts():
            with QSignalBlocker(self.box):
                self.box.setPlainText("\n".join(str(item).replace("\n", "\\n") for item in value))

    @Slot()
    def _on_changed(self) -> None:
        self.take(self._texts())

    def _texts(self) -> tuple[str, ...]:
        lines = self.box.toPlainText().split("\n")
        return tuple(line.replace("\\n", "\n") for line in lines if line)
