"""The files on their way to a transcript, as the pane sees them."""

from __future__ import annotations

import time
import uuid
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Signal, Slot

from mblt_desktop.context import AppContext
from mblt_desktop.microphone.speech_models import SpeechModels
from mblt_desktop.microphone.takes import TakeFolder, title_of
from mblt_desktop.overdue import overdue_words
from mblt_desktop.store.records import TranscriptRecord
from runtime.errors import ErrorInfo
from runtime.messages import (
    CallOverdue,
    Cancelled,
    Event,
    Failed,
    Queued,
    Segment,
    SegmentReady,
    Transcribe,
    Transcribed,
    TranscribeProgress,
    WaitCause,
)

State = Literal["unsent", "waiting", "running", "stopping", "done", "failed", "cancelled", "kept"]
"""`unsent` waits for a speech model, `kept` is a take that an earlier run left without a transcript."""

OVER = frozenset(("done", "failed", "cancelled", "kept"))


@dataclass(slots=True)
class Item:
    """One file of the queue."""

    path: Path
    title: str
    id: str = field(default_factory=lambda: uuid.uuid4().hex)
    state: State = "unsent"
    ahead: int = 0
    """Files that come before this one."""
    cause: WaitCause = "turn"
    """Why it waits."""
    behind: str = ""
    """Title of the file that it gave way to."""
    position: float = 0.0
    """Seconds of audio dealt with."""
    duration: float | None = None
    started_at: float | None = None
    """time.monotonic() of the first progress, later by the time for which it gave way to others."""
    parked_at: float | None = None
    """time.monotonic() when it gave way; None unless it waits for that reason."""
    started_from: float = 0.0
    segments: list[Segment] = field(default_factory=list)
    error: ErrorInfo | None = None
    warnings: tuple[str, ...] = ()
    overdue: str = ""
    """Set while the device does not answer: since when, in words."""
    transcript_id: str = ""

    @property
    def speed(self) -> float | None:
        """Seconds of audio per second, once that can be told."""
        if self.started_at is None:
            return None
        now = time.monotonic() if self.parked_at is None else self.parked_at
        elapsed = now - self.started_at
        return (self.position - self.started_from) / elapsed if elapsed > 0.5 else None

    @property
    def seconds_left(self) -> float | None:
        """About how long it will take, once that can be told."""
        speed = self.speed
        if not speed or self.duration is None:
            return None
        return max(0.0, self.duration - self.position) / speed


class FileQueue(QObject):
    """Submits files and mirrors what the runtime says about them; keeps finished transcripts in the store."""

    added = Signal(object)
    changed = Signal(object)
    removed = Signal(object)
    dismissed = Signal(object)
    """Removed by the user; `removed` alone also comes before a retry."""
    segment_added = Signal(object, object)
    """Item, Segment."""
    finished = Signal(object, object)
    """Item, TranscriptRecord: it is in the store."""

    def __init__(
        self, context: AppContext, models: SpeechModels, takes: TakeFolder, parent: QObject | None = None
    ) -> None:
        super().__init__(parent)
        self._context = context
        self._models = models
        self._takes = takes
        self.items: dict[str, Item] = {}
        models.changed.connect(self._on_models_changed)

    def add(self, path: Path) -> Item:
        """Transcribe a file; it waits while there is no speech model."""
        title = title_of(path) if self._takes.is_take(path) else path.name
        item = Item(path, title)
        self.items[item.id] = item
        self.added.emit(item)
        self._submit(item)
        return item

    def keep(self, path: Path) -> Item:
        """Show a take that was never transcribed; `retry` transcribes it."""
        item = Item(path, title_of(path), state="kept")
        self.items[item.id] = item
        self.added.emit(item)
        return item

    def cancel(self, item: Item) -> None:
        """Stop a file; the others go on."""
        if item.state == "unsent":
            self._enter(item, "cancelled")
        elif item.state in ("waiting", "running"):
            self._context.cancel(item.id)
            self._enter(item, "stopping")

    def retry(self, item: Item) -> Item:
        """Transcribe a file again that is over, in place of its row."""
        self._remove(item)
        return self.add(item.path)

    def dismiss(self, item: Item) -> None:
        """Take a row that is over out of the list; the file stays where it is."""
        if self._remove(item):
            self.dismissed.emit(item)

    def _remove(self, item: Item) -> bool:
        known = self.items.pop(item.id, None) is not None
        if known:
            self.removed.emit(item)
        return known

    @property
    def busy(self) -> bool:
        """Whether anything waits or runs."""
        return any(item.state not in OVER for item in self.items.values())

    def _submit(self, item: Item) -> None:
        # First the state: loading a model says so, and what says it looks for files that are not sent.
        item.state = "waiting"
        if not self._models.ensure_loaded():
            self._enter(item, "unsent")
            return
        preferences = self._context.preferences
        self._context.dispatcher.watch(item.id, self._on_event)
        self._context.submit(
            Transcribe(
                request_id=item.id,
                source=str(item.path.absolute()),
                language=self._language(),
                word_times=preferences.flag("audio.word_times"),
                submitted_ns=time.perf_counter_ns(),
                priority="interactive" if self._takes.is_take(item.path) else "background",
            )
        )
        self.changed.emit(item)

    def _language(self) -> str | None:
        """The language of the settings; an English-only model needs none and would refuse another."""
        info = self._models.loaded
        if info is not None and len(info.languages) == 1:
            return None
        return self._context.preferences.text("audio.language") or None

    def _enter(self, item: Item, state: State) -> None:
        item.state = state
        self.changed.emit(item)

    @Slot()
    def _on_models_changed(self) -> None:
        if self._models.chosen is None:
            return
        unsent = [item for item in self.items.values() if item.state == "unsent"]
        # All at once: sending the first one loads the model, which leads here again.
        for item in unsent:
            item.state = "waiting"
        for item in unsent:
            self._submit(item)

    def _on_event(self, event: Event) -> None:
        item = self.items.get(getattr(event, "request_id", ""))
        if item is None:
            return
        item.overdue = overdue_words(event, "Cancel") if isinstance(event, CallOverdue) else ""
        if isinstance(event, CallOverdue):
            self.changed.emit(item)
        elif isinstance(event, Queued):
            self._place(item, event)
        elif isinstance(event, TranscribeProgress):
            self._progress(item, event)
        elif isinstance(event, SegmentReady):
            item.segments.append(event.segment)
            self.segment_added.emit(item, event.segment)
        elif isinstance(event, Transcribed):
            self._finish(item, event)
        elif isinstance(event, Failed):
            item.error = event.error
            self._enter(item, "failed")
        elif isinstance(event, Cancelled):
            self._enter(item, "cancelled")

    def _place(self, item: Item, event: Queued) -> None:
        """It waits, gives way to what was just said, or goes on after that."""
        item.ahead, item.cause = event.position, event.cause
        now = time.monotonic()
        if event.cause == "gave_way":
            item.parked_at = now if item.parked_at is None else item.parked_at
            before = self.items.get(event.behind)
            item.behind = before.title if before is not None else ""
            self._enter(item, "waiting" if item.state == "running" else item.state)
        elif item.parked_at is not None:
            if item.started_at is not None:
                item.started_at += now - item.parked_at
            item.parked_at = None
            self._enter(item, "running" if item.state == "waiting" else item.state)
        else:
            self.changed.emit(item)

    def _progress(self, item: Item, event: TranscribeProgress) -> None:
        if item.started_at is None:
            item.started_at, item.started_from = time.monotonic(), event.position
        item.position, item.duration = event.position, event.duration
        self._enter(item, "running" if item.state == "waiting" else item.state)

    def _finish(self, item: Item, event: Transcribed) -> None:
        record = TranscriptRecord(
            title=item.title,
            source=event.source,
            duration=event.duration,
            language=event.language,
            segments=event.segments,
            engine=event.engine,
            warnings=event.warnings,
        )
        self._context.store.transcripts.save(record)
        item.position = item.duration = event.duration
        item.warnings = event.warnings
        item.transcript_id = record.id
        self._enter(item, "done")
        self.finished.emit(item, record)
