"""The recorder lane's service with what it posted, and something for it to record."""

from __future__ import annotations

import threading
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from runtime.config import RuntimeConfig
from runtime.lanes.lane import CancelMarks
from runtime.messages import Event, StartRecording, StopRecording
from runtime.tracing.recorder import RECORDER
from runtime.tracing.service import RecorderService

EventT = TypeVar("EventT")


@dataclass
class Lane:
    """The service with what it posted."""

    service: RecorderService
    marks: CancelMarks
    folder: Path
    events: list[Event] = field(default_factory=list)

    def start(self, recording_id: str = "rec", **limits: float) -> None:
        self.service.handle(StartRecording(recording_id, "A title", str(self.folder), **limits))  # type: ignore[arg-type]

    def stop(self, recording_id: str = "rec") -> None:
        self.service.handle(StopRecording(recording_id))

    def take(self, kind: type[EventT]) -> EventT:
        """The only event so far, of that kind."""
        (event,) = self.events
        self.events.clear()
        assert isinstance(event, kind), event
        return event

    def record(self, recording_id: str = "rec") -> Path:
        """A small finished recording."""
        self.start(recording_id)
        with RECORDER.span("decode step"):
            pass
        self.stop(recording_id)
        self.events.clear()
        return self.folder / f"{recording_id}.pftrace"


def make_lane(data: Path) -> Lane:
    config = RuntimeConfig(data, "simulated")
    marks = CancelMarks()
    events: list[Event] = []
    service = RecorderService(config, events.append, marks)
    service.open()
    return Lane(service, marks, config.recordings_dir, events)


def use_the_device(times: int) -> None:
    """Calls that the runtime traces, from a thread of their own."""
    import qbruntime

    def work() -> None:
        RECORDER.name_thread("Chat engine")
        for number in range(times):
            with RECORDER.span("decode step", token=number), pytest.raises(qbruntime.QbRuntimeError):
                qbruntime.Model("/nonexistent/model.mxq")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()
