"""The right side of the pane: the model's state, the answers so far, and the question box."""

from __future__ import annotations

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QVBoxLayout, QWidget

from mblt_desktop.context import AppContext
from mblt_desktop.image.answers import AnswerList
from mblt_desktop.image.asking import Asking
from mblt_desktop.image.models import ImageModels, ModelNotice
from mblt_desktop.image.question import TOGETHER, QuestionBox
from mblt_desktop.image.round_panel import RoundPanel
from mblt_desktop.store.records import ImageAnswer, ImageRecord
from mblt_desktop.widgets import Chip, Label, Scrolled, SidePanel, plain_tip

WIDTH = 420
NARROW_WIDTH = 328
_NEAR_END = 40
_NOTHING_ASKED = "Nothing has been asked about this picture yet. Choose a question below, or write your own."
_NOT_DESCRIBED = "This picture has not been described yet. Press Describe below."


class AskPanel(SidePanel):
    """Everything about questions; the pane tells it which pictures are selected."""

    def __init__(self, context: AppContext) -> None:
        super().__init__(WIDTH, "right")
        self._context = context
        self._records: list[ImageRecord] = []
        self.models = ImageModels(context, self)
        self.asking = Asking(context, self)
        self.notice = ModelNotice(self.models)
        self.answers = AnswerList()
        self.rounds = RoundPanel(context, self.models)
        self.question = QuestionBox()
        self._chip = Chip()
        self._notice_box = _padded(self.notice, bottom=0)
        self._scroll = Scrolled(_stacked(self._notice_box, self.rounds, _padded(self.answers)))
        self._build()
        self._connect()
        self._refresh()

    def _build(self) -> None:
        self.column.setContentsMargins(0, 0, 0, 12)
        self.column.setSpacing(0)
        head = QFrame()
        head.setProperty("role", "bar")
        head.setFixedHeight(48)
        row = QHBoxLayout(head)
        row.setContentsMargins(16, 0, 16, 0)
        row.addWidget(Label("Questions", size="title", bold=True))
        row.addStretch(1)
        row.addWidget(self._chip)
        self.column.addWidget(head)
        self.column.addWidget(self._scroll, 1)
        self.column.addWidget(_padded(self.question, bottom=0))

    def _connect(self) -> None:
        self.models.changed.connect(self._refresh)
        self.notice.models_requested.connect(self._on_models_requested)
        self.question.asked.connect(self._on_asked)
        self.question.asked_each.connect(self._on_asked_each)
        self.question.stop_requested.connect(self.asking.stop)
        self.rounds.shown_changed.connect(self._refresh)
        self.rounds.rounds.answered.connect(self._on_round_answered)
        self.asking.started.connect(self._on_started)
        self.asking.text_added.connect(self._on_text_added)
        self.asking.status_changed.connect(self._on_status_changed)
        self.asking.ended.connect(self._on_ended)
        self.answers.grown.connect(self._on_grown, Qt.ConnectionType.QueuedConnection)

    def set_roomy(self, roomy: bool) -> None:
        """Take the full width, or less on a small window."""
        self.setFixedWidth(WIDTH if roomy else NARROW_WIDTH)
        self.question.arrange_presets(len(self.question.presets) if roomy else 2)

    def show_pictures(self, records: list[ImageRecord]) -> None:
        """The selection changed: show the first picture's answers."""
        before = self._records[0].id if self._records else None
        self._records = records
        if not records:
            self.answers.show_answers([], "")
        elif records[0].id != before:
            self._show_answers(records[0])
        self._refresh()

    def _show_answers(self, record: ImageRecord) -> None:
        answers = self._context.store.images.answers(record.id)
        running = self.asking.running
        if running is not None and running.image_id == record.id:
            answers = [running if answer.id == running.id else answer for answer in answers]
        self.answers.show_answers(answers, _NOT_DESCRIBED if self._describer else _NOTHING_ASKED)
        if running is not None and (card := self.answers.card(running.id)) is not None:
            card.show_status("Writing…" if running.text else "Looking at the picture…")
        self._to_end()

    @property
    def _describer(self) -> str:
        """The loaded model's name if it takes no questions, else empty."""
        loaded = self.models.loaded
        return loaded.title if loaded is not None and loaded.only_describes else ""

    @property
    def disabled_reason(self) -> str:
        """Why nothing can be asked now; empty when it can."""
        if self.notice.reason:
            return self.notice.reason
        return "" if self._records else "Add a picture first."

    @Slot()
    def _refresh(self) -> None:
        self.notice.refresh()
        loaded = self.models.loaded
        self._notice_box.setVisible(loaded is None)
        self.question.set_describer(self._describer)
        self._chip.setVisible(loaded is not None)
        if loaded is not None:
            self._chip.set_text(loaded.title, "ok")
            self._chip.setToolTip(plain_tip(f"{loaded.title} on {loaded.device}"))
        self.question.set_state(
            self.disabled_reason,
            len(self._records),
            running=self.asking.running is not None,
            stopping=self.asking.stopping,
            each_reason=self.rounds.blocked,
        )

    # -- asking -------------------------------------------------------------------------------

    @Slot(str)
    def _on_asked(self, question: str) -> None:
        model = self.models.loaded
        if model is None or not self._records:
            return
        self.asking.ask(model, self._records[:TOGETHER], question)

    @Slot(str)
    def _on_asked_each(self, question: str) -> None:
        if self.models.loaded is not None and self._records:
            self.rounds.ask(self.models.loaded, self._records, question)
            self._scroll.verticalScrollBar().setValue(0)

    @Slot(object)
    def _on_round_answered(self, answer: ImageAnswer) -> None:
        if self._records and self._records[0].id == answer.image_id:
            self.answers.add(answer)

    @Slot(object)
    def _on_started(self, answer: ImageAnswer) -> None:
        self.answers.add(answer)
        self._refresh()
        self._to_end()

    @Slot(str, str)
    def _on_text_added(self, answer_id: str, text: str) -> None:
        card = self.answers.card(answer_id)
        if card is not None:
            card.append_text(text)

    @Slot(str, str)
    def _on_status_changed(self, answer_id: str, words: str) -> None:
        card = self.answers.card(answer_id)
        if card is not None:
            card.show_status(words)
        self._refresh()

    @Slot(object)
    def _on_ended(self, answer: ImageAnswer) -> None:
        card = self.answers.card(answer.id)
        if card is not None:
            card.show_answer(answer)
        self._refresh()

    @Slot()
    def _on_models_requested(self) -> None:
        self._context.navigate("models")

    # -- scrolling ----------------------------------------------------------------------------

    @Slot()
    def _on_grown(self) -> None:
        """Follow what is written, unless the reader has scrolled up."""
        bar = self._scroll.verticalScrollBar()
        if self.asking.running is not None and bar.maximum() - bar.value() < _NEAR_END:
            bar.setValue(bar.maximum())

    def _to_end(self) -> None:
        bar = self._scroll.verticalScrollBar()
        bar.setValue(bar.maximum())


def _padded(widget: QWidget, bottom: int = 12) -> QWidget:
    """The widget with the panel's margins around it."""
    box = QWidget()
    column = QVBoxLayout(box)
    column.setContentsMargins(16, 12, 16, bottom)
    column.addWidget(widget)
    return box


def _stacked(*widgets: QWidget) -> QWidget:
    """The widgets under each other, at the top."""
    box = QWidget()
    column = QVBoxLayout(box)
    column.setContentsMargins(0, 0, 0, 0)
    column.setSpacing(0)
    for widget in widgets:
        column.addWidget(widget)
    column.addStretch(1)
    return box
