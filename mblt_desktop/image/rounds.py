"""The same question about each of several pictures, in the background: one answer for each.

Whatever somebody asks meanwhile comes first; a model that answers several conversations at once is given as
many pictures. What is answered is kept with its picture at once, so that a round can be gone on with after
Stop, a failure or the end of the program.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from mblt_desktop.context import AppContext
from mblt_desktop.image.asking import LOOKING, as_kept
from mblt_desktop.store.records import ImageAnswer, ImageRecord, ImageRound, Result, new_id
from mblt_desktop.waiting import progress_words
from runtime.errors import DeviceError, ErrorInfo, ModelNotLoadedError
from runtime.messages import (
    Event,
    Failed,
    Finished,
    ForgetConversation,
    Generate,
    ImagePart,
    ModelFailed,
    ModelInfo,
    ModelUnloaded,
    Queued,
    TextDelta,
    TextPart,
    Turn,
)
from runtime.settings.table import sampling_request

State = Literal["left", "waiting", "writing", "stopping", "answered", "failed"]
"""`left`: not asked, or stopped; going on asks it."""
UNDER_WAY: tuple[State, ...] = ("waiting", "writing", "stopping")
SAME_FAILURES = 3
"""So many pictures in a row that fail alike end the round: the next ones would, too."""
TELL_MS = 100


@dataclass(slots=True)
class Item:
    """One picture of a round."""

    record: ImageRecord
    state: State = "left"
    words: str = ""
    """Why it waits, or what is being done."""
    answer: ImageAnswer | None = None
    """What is kept of it; while it is under way, without its text."""
    text: str = ""
    request_id: str = ""
    """Empty while it is not with the engine."""


class Rounds(QObject):
    """One round at a time. Lives in the window's thread."""

    changed = Signal()
    """A picture's state, or the round's; at most every TELL_MS."""
    answered = Signal(object)
    """An ImageAnswer that is kept now."""

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.asked: ImageRound | None = None
        self.items: list[Item] = []
        self.problem: ErrorInfo | None = None
        """Why the round ended before its time."""
        self._model: ModelInfo | None = None
        """Whose answers are under way; None while nothing is."""
        self._began = 0.0
        self._ended = 0
        """Pictures done since then."""
        self._alike: list[str] = []
        """Codes of the last failures, while nothing was answered between them."""
        self._tell = QTimer(self)
        self._tell.setSingleShot(True)
        self._tell.setInterval(TELL_MS)
        self._tell.timeout.connect(self.changed)
        dispatcher = context.dispatcher
        dispatcher.model_unloaded.connect(self._on_model_gone)
        dispatcher.model_failed.connect(self._on_model_gone)
        latest = context.store.rounds.latest
        if latest is not None:
            self._take_up(latest)

    # -- what is known -----------------------------------------------------------------------------

    @property
    def running(self) -> bool:
        """Whether a picture waits for its answer, or is being answered."""
        return self._model is not None

    def count(self, *states: State) -> int:
        """Pictures in one of these states."""
        return sum(item.state in states for item in self.items)

    @property
    def seconds_left(self) -> float | None:
        """At the pace so far, what others asked meanwhile included; None before the first answer."""
        if not self._ended:
            return None
        return (time.monotonic() - self._began) / self._ended * self.count(*UNDER_WAY)

    def known(self, model: ModelInfo, records: Sequence[ImageRecord], question: str) -> list[ImageRecord]:
        """Those of the pictures that have an answer to this question already."""
        images = self._context.store.images
        images.read_answers(record.id for record in records)
        asked = _round(model, records, question, again=False)
        found = [(record, asked.answer(images.answers(record.id))) for record in records]
        return [record for record, answer in found if answer is not None and answer.is_complete]

    # -- what the user does ------------------------------------------------------------------------

    def start(self, model: ModelInfo, records: Sequence[ImageRecord], question: str, *, again: bool) -> None:
        """Ask about each; `again` also about those that have an answer to this question."""
        if not self.running:
            asked = _round(model, records, question, again=again)
            self._context.store.rounds.save(asked)
            self._take_up(asked)
            self.go_on(model)
            self.changed.emit()

    def go_on(self, model: ModelInfo) -> None:
        """Ask about those that have no answer yet, the failed ones included."""
        self._leave_out_deleted()
        open_ = [item for item in self.items if item.state in ("left", "failed")]
        if self.running or not open_:
            return
        self._model, self._began, self._ended, self.problem = model, time.monotonic(), 0, None
        self._alike.clear()
        for item in open_:
            item.state, item.words = "waiting", ""
        self._submit_more()
        self.changed.emit()

    @Slot()
    def stop_all(self) -> None:
        """Stop what is being answered and ask about no more; what came so far is kept."""
        self._end_early(None)
        for item in self.items:
            self.stop(item)
        self._settle()

    def stop(self, item: Item) -> None:
        """Stop one; the others go on."""
        if item.state == "waiting" and not item.request_id:
            item.state, item.words = "left", ""
            self._settle()
        elif item.state in ("waiting", "writing"):
            item.state, item.words = "stopping", "Stopping…"
            self._context.cancel(item.request_id)
            self._tell_soon()

    @Slot()
    def dismiss(self) -> None:
        """Show this round no more; its answers stay with their pictures."""
        if not self.running:
            self._context.store.rounds.forget()
            self.asked, self.items, self.problem = None, [], None
            self.changed.emit()

    # -- asking ------------------------------------------------------------------------------------

    def _take_up(self, asked: ImageRound) -> None:
        """Show a round as the store knows it; pictures that left the gallery are no part of it any more."""
        images = self._context.store.images
        images.read_answers(asked.image_ids)
        self.asked, self.items, self.problem = asked, [], None
        for image_id in asked.image_ids:
            record = images.get(image_id)
            if record is not None:
                answer = asked.answer(images.answers(image_id))
                state: State = "left" if answer is None else "answered" if answer.is_complete else "failed"
                self.items.append(Item(record, state, answer=answer))

    def _submit_more(self) -> None:
        """Keep every slot of the model busy and as many waiting, and leave the others out of its queue."""
        model = self._model
        if model is None:
            return
        self._leave_out_deleted()
        under_way = sum(bool(item.request_id) for item in self.items)
        waiting = [item for item in self.items if item.state == "waiting" and not item.request_id]
        for item in waiting[: max(0, 2 * model.slots - under_way)]:
            self._submit(model, item)

    def _leave_out_deleted(self) -> None:
        """A picture that left the gallery is no part of the round any more, unless it is being answered."""
        images = self._context.store.images
        self.items = [item for item in self.items if item.request_id or images.get(item.record.id)]

    def _submit(self, model: ModelInfo, item: Item) -> None:
        asked = self.asked
        assert asked is not None
        question = asked.beginning.strip() if asked.describes else asked.question
        item.request_id, item.text = new_id(), asked.beginning
        item.answer = ImageAnswer(item.record.id, asked.question, "", model.title, model.device)
        self._context.dispatcher.watch(item.request_id, self._on_event, asked.question)
        self._context.submit(
            Generate(
                request_id=item.request_id,
                conversation_id=_conversation(item),
                model_id=model.model_id,
                turns=(Turn("user", (ImagePart(item.record.path), TextPart(question))),),
                sampling=sampling_request(self._context.preferences.get),
                submitted_ns=time.perf_counter_ns(),
                priority="background",
            )
        )

    # -- answers -----------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        request_id = getattr(event, "request_id", "")
        item = next((item for item in self.items if item.request_id == request_id), None)
        if item is None:
            return
        if isinstance(event, TextDelta):
            item.text += event.text
            if item.state == "waiting":
                item.state = "writing"
            item.words = item.words if item.state == "stopping" else "Writing…"
            self._tell_soon()
        elif isinstance(event, Finished):
            self._finished(item, event)
        elif isinstance(event, Failed):
            self._failed(item, event.error)
        elif item.state != "stopping":
            self._say(item, event)

    def _say(self, item: Item, event: Event) -> None:
        if isinstance(event, Queued):
            item.state = "waiting"
        asked = self._context.dispatcher.asked
        words = progress_words(event, asked, begins=LOOKING, reads="the picture", button="Stop all")
        item.words = words or item.words
        self._tell_soon()

    def _finished(self, item: Item, event: Finished) -> None:
        """A half answer is kept if the user stopped it; another end (of the model) leaves it to be asked."""
        assert item.answer is not None
        answer = replace(item.answer, text=item.text, device=event.device, result=Result.of(event))
        stopped = item.state == "stopping"
        item.request_id = ""
        self._context.submit(ForgetConversation(_conversation(item)))
        if answer.is_complete:
            item.state, item.answer = "answered", answer
            self._ended += 1
            self._alike.clear()
            self._keep(answer)
        else:
            item.state, item.answer = "left", None
            if stopped and event.usage.completion:
                self._keep(answer)
            elif not stopped:
                self._end_early(None)
        item.words = ""
        self._settle()

    def _failed(self, item: Item, error: ErrorInfo) -> None:
        """A failure of the picture is its answer; one of the model or the device ends the round."""
        assert item.answer is not None
        item.request_id, item.words = "", ""
        if error.code.split(".")[0] == DeviceError.code or error.code == ModelNotLoadedError.code:
            item.state, item.answer = "left", None
            self._end_early(error)
        else:
            item.state, item.answer = (
                "failed",
                replace(item.answer, text=item.text, result=Result(error=error)),
            )
            self._ended += 1
            self._keep(item.answer)
            self._alike = [*self._alike, error.code] if error.code in self._alike else [error.code]
            if len(self._alike) == SAME_FAILURES:
                self._end_early(error)
        self._settle()

    def _keep(self, answer: ImageAnswer) -> None:
        self._context.store.images.save_answer(answer)
        self.answered.emit(answer)

    def _settle(self) -> None:
        """A picture is done: go on with the next, or the round is over."""
        self._submit_more()
        if not self.count(*UNDER_WAY):
            self._model = None
        self._tell_soon()

    def _tell_soon(self) -> None:
        if not self._tell.isActive():
            self._tell.start()

    # -- ending early ------------------------------------------------------------------------------

    def _end_early(self, error: ErrorInfo | None) -> None:
        """Ask about no more; what the engine has already ends by itself."""
        self.problem = self.problem or error
        for item in self.items:
            if item.state == "waiting" and not item.request_id:
                item.state, item.words = "left", ""

    @Slot(object)
    def _on_model_gone(self, event: ModelUnloaded | ModelFailed) -> None:
        if self._model is not None and event.model_id == self._model.model_id:
            self._end_early(event.error if isinstance(event, ModelFailed) else None)
            self._settle()


def _round(model: ModelInfo, records: Iterable[ImageRecord], question: str, *, again: bool) -> ImageRound:
    asked, beginning = as_kept(model, question)
    since = time.time() if again else 0.0
    ids = tuple(record.id for record in records)
    return ImageRound(asked, ids, beginning, model.only_describes, since)


def _conversation(item: Item) -> str:
    """Not the one of the picture's other questions: nobody who asks now waits for this answer to end. What
    it leaves in the KV cache is given back at once, or a round would push the chats out."""
    return f"image-round:{item.record.id}"
