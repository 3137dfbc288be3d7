"""The right panel: the conversation's system prompt and sampling, and where an answer's time went."""

from __future__ import annotations

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtWidgets import QComboBox, QGridLayout, QLineEdit, QPlainTextEdit, QVBoxLayout, QWidget

from mblt_desktop.chat.answer_facts import AnswerFacts, Candidates
from mblt_desktop.chat.sampling import SHOWN, effective, short_title
from mblt_desktop.context import AppContext
from mblt_desktop.store.records import Conversation
from mblt_desktop.theme import font
from mblt_desktop.widgets import Label, Scrolled, Section, SidePanel, restyle
from runtime.errors import SettingError
from runtime.messages import ModelInfo
from runtime.sampling.params import by_speculation
from runtime.settings.table import SETTINGS

SAVE_DELAY_MS = 400
_NOT_TAKEN = {
    "conversation": "Empty it: an answer that is to follow it is refused.",
    "you": "Put it back to its default in Settings, Sampling & penalties: an answer that is to follow it is "
    "refused.",
    "model": "What the model states itself is not applied.",
}
"""What follows for a value that the model cannot follow, by who set it."""


class Inspector(SidePanel):
    """Edits one conversation; shows one answer."""

    changed = Signal()
    """A value of the conversation was changed and saved."""

    def __init__(self, context: AppContext, candidates_of: Candidates) -> None:
        super().__init__(width=288, side="right")
        self._context = context
        self._conversation: Conversation | None = None
        self._model: ModelInfo | None = None
        self.prompt = QPlainTextEdit()
        self.prompt.setAccessibleName("System prompt")
        self.prompt.setPlaceholderText("What the model is told before the conversation.")
        self.prompt.setFixedHeight(84)
        self.prompt.setTabChangesFocus(True)
        self._delay = QTimer(self, singleShot=True, interval=SAVE_DELAY_MS)
        self._delay.timeout.connect(self.save)
        self.prompt.textChanged.connect(self._on_prompt_changed)
        self.rows = {key: ChoiceRow(key) if SETTINGS[key].choices else SamplingRow(key) for key in SHOWN}
        self.answer = AnswerFacts(candidates_of)
        self._build()
        context.preferences.changed.connect(self._on_preference_changed)

    def _build(self) -> None:
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(16, 14, 16, 16)
        column.setSpacing(8)
        column.addWidget(Label("This conversation", size="title", bold=True))
        column.addSpacing(4)
        column.addWidget(Section("System prompt"))
        column.addWidget(self.prompt)
        column.addSpacing(8)
        column.addWidget(Section("Sampling"))
        grid = QGridLayout()
        grid.setHorizontalSpacing(8)
        grid.setVerticalSpacing(0)
        grid.setColumnStretch(0, 1)
        for number, row in enumerate(self.rows.values()):
            grid.addWidget(row.name, 2 * number, 0)
            grid.addWidget(row.source, 2 * number, 2)
            if isinstance(row, ChoiceRow):  # its words need the whole width
                grid.addWidget(row.edit, 2 * number + 1, 0, 1, 3)
                grid.setRowMinimumHeight(2 * number, 26)
            else:
                grid.addWidget(row.edit, 2 * number, 1)
            row.committed.connect(self._on_row_committed)
        column.addLayout(grid)
        column.addSpacing(8)
        column.addWidget(self.answer)
        column.addStretch(1)
        self.column.setContentsMargins(0, 0, 0, 0)
        self.column.addWidget(Scrolled(content))

    def show_conversation(self, conversation: Conversation | None) -> None:
        """Edit another conversation; what was typed for the former one is saved first."""
        self.save()
        self._conversation = conversation
        self.prompt.blockSignals(True)
        self.prompt.setPlainText(conversation.system_prompt if conversation is not None else "")
        self.prompt.blockSignals(False)
        self.answer.show_message(None)
        self._refresh()

    def show_model(self, model: ModelInfo | None) -> None:
        """The loaded model's own values stand behind the user's."""
        self._model = model
        self._refresh()

    @Slot()
    def save(self) -> None:
        """Save the system prompt now."""
        self._delay.stop()
        conversation = self._conversation
        text = self.prompt.toPlainText()
        if conversation is not None and text != conversation.system_prompt:
            self._context.store.conversations.update(conversation.id, system_prompt=text)
            self.changed.emit()

    @Slot()
    def _on_prompt_changed(self) -> None:
        self._delay.start()

    @Slot(str, object)
    def _on_row_committed(self, key: str, value: object) -> None:
        conversation = self._conversation
        if conversation is None:
            return
        sampling = {name: known for name, known in conversation.sampling.items() if name != key}
        if isinstance(value, int | float | str):
            sampling[key] = value
        if sampling != conversation.sampling:
            self._context.store.conversations.update(conversation.id, sampling=sampling)
            self.changed.emit()
        self._refresh()

    @Slot(str)
    def _on_preference_changed(self, key: str) -> None:
        if key in self.rows:
            self._refresh()

    def _refresh(self) -> None:
        for key, row in self.rows.items():
            found = effective(key, self._conversation, self._context.preferences, self._model)
            row.show_value(found.text, found.source)
            if isinstance(row, SamplingRow):
                model, name = self._model, key.partition(".")[2]
                taken = model is None or name not in model.sampling_not_taken
                row.show_not_taken("" if model is None or taken else by_speculation(model.title))


class SamplingRow(QWidget):
    """A value of this conversation; empty means that settings, model or default decide."""

    committed = Signal(str, object)

    def __init__(self, key: str) -> None:
        super().__init__()
        self._setting = SETTINGS[key]
        self._shown = ""
        self.name = Label(short_title(key))
        self.name.setToolTip(self._setting.help)
        self.edit = QLineEdit()
        self.edit.setAccessibleName(f"{self._setting.title} of this conversation")
        self._tip = f"{self._setting.help}\nEmpty it to use the value of the settings or the model."
        self.edit.setToolTip(self._tip)
        self.edit.setAlignment(Qt.AlignmentFlag.AlignRight)
        self.edit.setFont(font(tabular=True))
        self.edit.setFixedWidth(84)
        self.edit.setProperty("quiet", True)
        self.name.setBuddy(self.edit)
        self.source = _source_label()
        self.edit.editingFinished.connect(self._on_edited)

    def show_value(self, text: str, source: str) -> None:
        """A value of the conversation stands in the field; any other stands behind it."""
        own = source == "conversation"
        self._shown = text if own else ""
        self.edit.setText(self._shown)
        self.edit.setPlaceholderText(text)
        self.source.setText(source)
        self._mark("")

    def show_not_taken(self, why: str) -> None:
        """The loaded model cannot follow the value; `why` begins a sentence and is empty if it can.

        A value of the conversation can still be taken away: an answer is refused for it.
        """
        source = self.source.text()
        own, users = source == "conversation", source == "you"
        self.edit.setEnabled(not why or own)
        tip = self._tip
        if why:
            self.source.setText("not taken")
            self.source.set_tone("bad" if own or users else "muted")
            tip = f"{why}. {_NOT_TAKEN.get(source, '')}".strip()
        self.edit.setToolTip(tip)
        self.source.setToolTip(tip if why else "")

    @Slot()
    def _on_edited(self) -> None:
        text = self.edit.text().strip()
        if text == self._shown:
            self._mark("")
            return
        try:
            value = self._setting.parse(text) if text else None
        except SettingError as error:
            self._mark(f"{error.summary} {error.remedy}".strip())
            return
        self.committed.emit(self._setting.key, value)

    def _mark(self, problem: str) -> None:
        restyle(self.edit, invalid=bool(problem))
        self.source.setText("not valid" if problem else self.source.text())
        self.source.set_tone("bad" if problem else "muted")
        self.source.setToolTip(problem)


class ChoiceRow(QWidget):
    """A choice of this conversation; its first entry leaves it to the settings."""

    committed = Signal(str, object)

    def __init__(self, key: str) -> None:
        super().__init__()
        self._key = key
        setting = SETTINGS[key]
        self.name = Label(short_title(key))
        self.name.setToolTip(setting.help)
        self.edit = QComboBox()
        self.edit.setAccessibleName(f"{setting.title}, in this conversation")
        self.edit.addItem("")
        for choice in setting.choices:
            self.edit.addItem(choice.title, choice.value)
            self.edit.setItemData(self.edit.count() - 1, choice.help, Qt.ItemDataRole.ToolTipRole)
        self.name.setBuddy(self.edit)
        self.source = _source_label()
        self.edit.activated.connect(self._on_activated)

    def show_value(self, text: str, source: str) -> None:
        """Select the conversation's own choice, or say what holds without one."""
        own = source == "conversation"
        self.edit.setItemText(0, "As in Settings" if own else f"{text} (as in Settings)")
        self.edit.setCurrentIndex(max(0, self.edit.findText(text, Qt.MatchFlag.MatchExactly)) if own else 0)
        self.edit.setToolTip(f"{text}: {self.edit.currentData(Qt.ItemDataRole.ToolTipRole) or source}")
        self.source.setText(source)

    @Slot(int)
    def _on_activated(self, index: int) -> None:
        self.committed.emit(self._key, self.edit.itemData(index))


def _source_label() -> Label:
    label = Label("", "muted", "small")
    label.setAlignment(Qt.AlignmentFlag.AlignRight | Qt.AlignmentFlag.AlignVCenter)
    label.setMinimumWidth(74)
    return label
