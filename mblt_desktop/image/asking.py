"""One question at a time: sent to the engine, its answer streamed, saved while it comes and at its end."""

from __future__ import annotations

import time
from dataclasses import dataclass, replace

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from mblt_desktop.context import AppContext
from mblt_desktop.store.records import ImageAnswer, ImageRecord, Result, new_id
from mblt_desktop.waiting import progress_words
from runtime.messages import (
    CallOverdue,
    Event,
    Failed,
    Finished,
    Generate,
    ImagePart,
    ModelInfo,
    TextDelta,
    TextPart,
    Turn,
)
from runtime.settings.table import sampling_request

PAINT_MS = 30
SAVE_SECONDS = 1.0
LOOKING = "Looking at the picture…"


@dataclass(slots=True)
class _Run:
    request_id: str
    answer: ImageAnswer
    text: str = ""
    unpainted: str = ""
    began: bool = False
    """Whether the model has said anything."""
    saved_at: float = 0.0
    stopping: bool = False
    overdue: bool = False
    """The device did not answer in time, and the status says so."""


class Asking(QObject):
    """Lives in the window's thread. Everything it says names the answer's id."""

    started = Signal(object)
    """A new ImageAnswer without text."""
    text_added = Signal(str, str)
    status_changed = Signal(str, str)
    ended = Signal(object)
    """The ImageAnswer with its result."""

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._run: _Run | None = None
        self._paint = QTimer(self)
        self._paint.setSingleShot(True)
        self._paint.setInterval(PAINT_MS)
        self._paint.timeout.connect(self._flush)

    @property
    def running(self) -> ImageAnswer | None:
        """The answer being written, with its text so far."""
        run = self._run
        return replace(run.answer, text=run.text) if run is not None else None

    @property
    def stopping(self) -> bool:
        """Stop was asked for and not yet acknowledged."""
        return self._run is not None and self._run.stopping

    def ask(self, model: ModelInfo, records: list[ImageRecord], question: str) -> None:
        """Ask about one picture, or about several together; the answer is the first one's.

        For a model that only describes, `question` is how its description begins.
        """
        if self._run is not None:
            return
        run = self._run = _new_run(model, records[0], question)
        answer = run.answer
        self._context.store.images.save_answer(answer)
        self.started.emit(answer)
        self.status_changed.emit(answer.id, LOOKING)
        self._context.dispatcher.watch(run.request_id, self._on_event, answer.question)
        pictures = tuple(ImagePart(record.path) for record in records)
        self._context.submit(
            Generate(
                request_id=run.request_id,
                # The same pictures again: what the model made of them is still in its cache.
                conversation_id="image:" + "+".join(record.id for record in records),
                model_id=model.model_id,
                turns=(Turn("user", (*pictures, TextPart(question))),),
                sampling=sampling_request(self._context.preferences.get),
                submitted_ns=time.perf_counter_ns(),
            )
        )

    @Slot()
    def stop(self) -> None:
        """Ask the engine to stop; the end comes with its last event."""
        run = self._run
        if run is not None and not run.stopping:
            run.stopping = True
            self._context.cancel(run.request_id)
            self.status_changed.emit(run.answer.id, "Stopping…")

    def _on_event(self, event: Event) -> None:
        run = self._run
        if run is None:
            return
        if isinstance(event, TextDelta):
            self._add_text(run, event.text)
        elif isinstance(event, Finished):
            answer = replace(run.answer, text=run.text, device=event.device, result=Result.of(event))
            self._end(run, answer)
        elif isinstance(event, Failed):
            self._end(run, replace(run.answer, text=run.text, result=Result(error=event.error)))
        elif not run.stopping:
            asked = self._context.dispatcher.asked
            words = progress_words(event, asked, begins=LOOKING, reads="the picture")
            if words:
                run.overdue = isinstance(event, CallOverdue)
                self.status_changed.emit(run.answer.id, words)

    def _add_text(self, run: _Run, text: str) -> None:
        first, run.overdue = not run.began or run.overdue, False
        run.began = True
        run.text += text
        run.unpainted += text
        if first:
            self.status_changed.emit(run.answer.id, "Stopping…" if run.stopping else "Writing…")
            self._flush()
        elif not self._paint.isActive():
            self._paint.start()
        if time.monotonic() - run.saved_at >= SAVE_SECONDS:
            run.saved_at = time.monotonic()
            self._context.store.images.save_answer(replace(run.answer, text=run.text))

    @Slot()
    def _flush(self) -> None:
        run = self._run
        if run is not None and run.unpainted:
            text, run.unpainted = run.unpainted, ""
            self.text_added.emit(run.answer.id, text)

    def _end(self, run: _Run, answer: ImageAnswer) -> None:
        self._paint.stop()
        self._run = None
        self._context.store.images.save_answer(answer)
        self.ended.emit(answer)


def _new_run(model: ModelInfo, record: ImageRecord, question: str) -> _Run:
    """What is written of the answer before its first token came."""
    asked, begun = as_kept(model, question)
    answer = ImageAnswer(record.id, asked, "", model.title, model.device)
    return _Run(new_id(), answer, begun, begun, saved_at=time.monotonic())


def as_kept(model: ModelInfo, question: str) -> tuple[str, str]:
    """What an answer is kept with: its question, and what its text begins with before the model adds any."""
    if not model.only_describes:
        return question, ""
    return "Describe", f"{question} " if question else ""
