"""Brings the runtime's events into the window: one swap of the outbox per wake-up, then routed by kind."""

from __future__ import annotations

import sys
from collections.abc import Callable
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, Qt, Signal, Slot

from runtime.messages import (
    Cancelled,
    Event,
    Exported,
    Failed,
    Finished,
    JobFinished,
    LaneFaulted,
    ModelFailed,
    ModelInfo,
    ModelKind,
    ModelLoaded,
    ModelLoading,
    ModelsListed,
    ModelUnloaded,
    RecordingAnalysed,
    RecordingFailed,
    RecordingFinished,
    RecordingStarted,
    TextDelta,
    Transcribed,
)

if TYPE_CHECKING:
    from mblt_desktop.context import BridgeLike

Watcher = Callable[[Event], None]
_FINAL = (Finished, Failed, Cancelled, Transcribed, Exported, RecordingAnalysed, JobFinished)


class Dispatcher(QObject):
    """Lives in the GUI thread. Every signal and every watcher is called there."""

    event_received = Signal(object)
    model_loading = Signal(object)
    model_loaded = Signal(object)
    model_unloaded = Signal(object)
    model_failed = Signal(object)
    models_listed = Signal(object)
    recording_started = Signal(object)
    recording_finished = Signal(object)
    recording_failed = Signal(object)
    lane_faulted = Signal(object)

    def __init__(self, bridge: BridgeLike, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._bridge = bridge
        self._watchers: dict[str, Watcher] = {}
        self._asked: dict[str, str] = {}
        self.loaded: dict[str, ModelInfo] = {}
        """What is loaded now, by model id: for panes that are made after the events went by."""
        self.loading: dict[str, ModelLoading] = {}
        """What is being loaded now, the same way."""
        self._signals = {
            ModelLoading: self.model_loading,
            ModelLoaded: self.model_loaded,
            ModelUnloaded: self.model_unloaded,
            ModelFailed: self.model_failed,
            ModelsListed: self.models_listed,
            RecordingStarted: self.recording_started,
            RecordingFinished: self.recording_finished,
            RecordingFailed: self.recording_failed,
            LaneFaulted: self.lane_faulted,
        }
        # Queued even from the GUI thread: a submit must never call back into its caller.
        bridge.events_waiting.connect(self.deliver, Qt.ConnectionType.QueuedConnection)

    def watch(self, request_id: str, watcher: Watcher, asked: str = "") -> None:
        """Send the request's events to `watcher` until its final one has been delivered.

        `asked` is the user's question, which others that wait for this request can show.
        """
        self._watchers[request_id] = watcher
        if asked:
            self._asked[request_id] = asked

    def unwatch(self, request_id: str) -> None:
        """Stop sending the request's events; unknown ids are fine."""
        self._watchers.pop(request_id, None)
        self._asked.pop(request_id, None)

    def asked(self, request_id: str) -> str:
        """The question of a request that is not answered yet; empty when it is not known."""
        return self._asked.get(request_id, "")

    def loaded_model(self, *kinds: ModelKind) -> ModelInfo | None:
        """The model loaded last among those of these kinds that are loaded now."""
        found = [info for info in self.loaded.values() if info.kind in kinds]
        return found[-1] if found else None

    @Slot()
    def deliver(self) -> None:
        """Take everything that waits and route it."""
        for event in merge_deltas(self._bridge.host.take_events()):
            self._route(event)

    def _route(self, event: Event) -> None:
        request_id = getattr(event, "request_id", "")
        watcher = self._watchers.get(request_id)
        if isinstance(event, _FINAL):
            self.unwatch(request_id)
        if watcher is not None:
            try:
                watcher(event)
            except Exception:  # noqa: BLE001 - one broken listener must not swallow the others' events
                sys.excepthook(*sys.exc_info())
        self._mirror(event)
        signal = self._signals.get(type(event))
        if signal is not None:
            signal.emit(event)
        self.event_received.emit(event)

    def _mirror(self, event: Event) -> None:
        if isinstance(event, ModelLoading):
            self.loading[event.model_id] = event
        elif isinstance(event, ModelLoaded):
            self.loading.pop(event.info.model_id, None)
            self.loaded.pop(event.info.model_id, None)
            self.loaded[event.info.model_id] = event.info
        elif isinstance(event, ModelUnloaded | ModelFailed):
            self.loading.pop(event.model_id, None)
            self.loaded.pop(event.model_id, None)


def merge_deltas(events: list[Event]) -> list[Event]:
    """Join neighbouring text deltas of the same request, so that a burst is painted once."""
    merged: list[Event] = []
    for event in events:
        last = merged[-1] if merged else None
        if (
            isinstance(event, TextDelta)
            and isinstance(last, TextDelta)
            and last.request_id == event.request_id
        ):
            merged[-1] = TextDelta(event.request_id, last.text + event.text)
        else:
            merged.append(event)
    return merged
