"""The question box: presets, the text, Ask and Stop."""

from __future__ import annotations

from PySide6.QtCore import QMimeData, Qt, Signal, Slot
from PySide6.QtGui import QFocusEvent, QInputMethodEvent, QKeyEvent
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QPlainTextEdit, QVBoxLayout

from mblt_desktop.theme import font
from mblt_desktop.widgets import Button, Label, PrimaryButton, plain_tip, restyle

PRESETS = (
    ("Describe", "Describe this picture."),
    ("Read text", "Read all the text in this picture, line by line, and write it down exactly as it stands."),
    ("Extract table", "Extract the table in this picture as a Markdown table."),
    ("Compare two", "Compare the two pictures: what do they have in common, and how do they differ?"),
)
"""(name, question)."""
COMPARE = 3
TOGETHER = 2
"""Most pictures that one question is about."""
_LINES = 3
_PLACEHOLDER = "Ask about this picture"
_NAME = "Question about the picture"
_PLACEHOLDER_EACH = "Ask about each of these pictures"
_NAME_EACH = "Question about each picture"
_BEGINNING = "How the description begins, if you like: a photograph of"
_BEGINNING_NAME = "How the description of the picture begins"


class QuestionEdit(QPlainTextEdit):
    """Enter asks, Shift+Enter starts a line; pasted pictures go to the gallery, not into the text."""

    submitted = Signal()
    media_pasted = Signal(object)
    """QMimeData with a picture or files."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "composer")
        self.set_words(_PLACEHOLDER, _NAME)
        self.setTabChangesFocus(True)
        self.setFont(font())
        self.setFixedHeight(self.fontMetrics().lineSpacing() * _LINES + 8)
        self._composing = False

    def set_words(self, placeholder: str, name: str) -> None:
        """What the empty box says, and what it is called."""
        self.setPlaceholderText(placeholder)
        self.setAccessibleName(name)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter that confirms an input method's text does not ask."""
        enter = event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter)
        if enter and not event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            if not self._composing:
                self.submitted.emit()
            return
        super().keyPressEvent(event)

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        """Remember whether a text is being composed."""
        self._composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """Leaving the box ends composing."""
        self._composing = False
        super().focusOutEvent(event)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        """Pictures and files are taken too."""
        return source.hasImage() or source.hasUrls() or super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Text goes into the box; pictures and files go to the gallery."""
        if source.hasUrls() or (source.hasImage() and not source.hasText()):
            self.media_pasted.emit(source)
        else:
            super().insertFromMimeData(source)


class QuestionBox(QFrame):
    """Presets over the text over the buttons. Says why asking is not possible.

    For a model that only describes, the text is how the description begins, and may be empty.
    """

    asked = Signal(str)
    """About what is selected, together."""
    asked_each = Signal(str)
    """About each selected picture by itself."""
    stop_requested = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "composer")
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 10, 12, 10)
        column.setSpacing(8)
        self.presets = [self._preset(number) for number in range(len(PRESETS))]
        self._grid = QGridLayout()
        self._grid.setSpacing(6)
        self.arrange_presets(len(PRESETS))
        column.addLayout(self._grid)
        self.edit = QuestionEdit()
        self.edit.textChanged.connect(self._update)
        self.edit.submitted.connect(self._on_ask_clicked)
        column.addWidget(self.edit)
        row = QHBoxLayout()
        row.setSpacing(8)
        self._hint = Label("", "muted", "small", wrap=True)
        self.ask = PrimaryButton("Ask", "send")
        self.ask.clicked.connect(self._on_ask_clicked)
        self.stop = Button("Stop", "stop")
        self.stop.clicked.connect(self.stop_requested)
        self.each = Button("")
        self.each.clicked.connect(self._on_each_clicked)
        column.addWidget(self._hint)
        row.addStretch(1)
        row.addWidget(self.stop)
        row.addWidget(self.each)
        row.addWidget(self.ask)
        column.addLayout(row)
        self._reason = self._each_reason = ""
        self._describer = ""
        self._running = False
        self._stopping = False
        self._pictures = 0
        self._update()

    def _preset(self, number: int) -> Button:
        name, question = PRESETS[number]
        button = Button(name)
        button.setFont(font("small"))
        button.setStyleSheet("padding: 4px 8px;")
        button.setProperty("preset", number)
        button.setToolTip(question)
        button.clicked.connect(self._on_preset_clicked)
        return button

    def arrange_presets(self, columns: int) -> None:
        """Put the presets into rows of so many."""
        for number, button in enumerate(self.presets):
            self._grid.addWidget(button, number // columns, number % columns)

    def set_describer(self, title: str) -> None:
        """The loaded model takes no questions and has that name; empty for one that does."""
        if title == self._describer:
            return
        self._describer = title
        self.edit.set_words(*(_BEGINNING, _BEGINNING_NAME) if title else (_PLACEHOLDER, _NAME))
        for preset in self.presets:
            preset.setVisible(not title)
        self.ask.setText("Describe" if title else "Ask")
        self._update()

    @property
    def hint(self) -> str:
        """The line beside the buttons."""
        return self._hint.text()

    def set_state(
        self, reason: str, pictures: int, *, running: bool, stopping: bool, each_reason: str = ""
    ) -> None:
        """Why asking is disabled (empty: it is not), how many pictures are selected, what runs.

        `each_reason` is why each by itself cannot be asked about, beyond that.
        """
        self._reason, self._pictures = reason, pictures
        self._each_reason = reason or each_reason
        if not self._describer:
            self.edit.set_words(
                *((_PLACEHOLDER, _NAME) if self._together else (_PLACEHOLDER_EACH, _NAME_EACH))
            )
        self._running, self._stopping = running, stopping
        self._update()

    @property
    def _together(self) -> bool:
        """Whether one question can be about all that is selected."""
        return self._pictures <= (1 if self._describer else TOGETHER)

    @Slot()
    def _update(self) -> None:
        self.ask.setVisible(not self._running and self._together)
        self.stop.setVisible(self._running)
        self.stop.setEnabled(not self._stopping)
        self.stop.setText("Stopping…" if self._stopping else "Stop")
        enough = bool(self._describer or self.edit.toPlainText().strip())
        missing = "" if enough else "Write a question first, or choose one above."
        self.ask.setEnabled(not self._reason and enough)
        together = "About both together" if self._pictures == TOGETHER else ""
        self.ask.setToolTip(plain_tip(self._reason) or missing or together)
        self._update_each(missing)
        usual = "Enter asks, Shift+Enter starts a line"
        if self._describer:
            usual = f"{self._describer} describes a picture; it takes no question."
        reason = self._reason if self._together else self._each_reason
        self._hint.setText("" if self._running else reason or usual)
        self._hint.setVisible(bool(self._hint.text()))
        two = self._pictures == 2
        compare = self.presets[COMPARE]
        compare.setEnabled(two)
        tip = PRESETS[COMPARE][1] if two else "Select two pictures in the list first (Ctrl+click)."
        compare.setToolTip(tip)
        restyle(self, current=self.edit.hasFocus())

    def _update_each(self, missing: str) -> None:
        self.each.setVisible(self._pictures > 1)
        self.each.setText(f"{'Describe' if self._describer else 'Ask about'} {self._pictures} pictures")
        self.each.setEnabled(not self._each_reason and not missing)
        self.each.setToolTip(
            plain_tip(self._each_reason)
            or missing
            or "The same about each of them, in the background: what is asked meanwhile comes first"
        )
        restyle(self.each, kind="plain" if self._together else "primary")

    @Slot()
    def _on_preset_clicked(self) -> None:
        button = self.sender()
        assert isinstance(button, Button)
        self.edit.setPlainText(PRESETS[int(button.property("preset"))][1])
        self.edit.setFocus()
        self.edit.selectAll()

    @Slot()
    def _on_ask_clicked(self) -> None:
        if not self._together:
            self._on_each_clicked()
            return
        question = self.edit.toPlainText().strip()
        if (question or self._describer) and not self._reason and not self._running:
            self.edit.clear()
            self.asked.emit(question)

    @Slot()
    def _on_each_clicked(self) -> None:
        question = self.edit.toPlainText().strip()
        if (question or self._describer) and not self._each_reason and self._pictures > 1:
            self.edit.clear()
            self.asked_each.emit(question)
