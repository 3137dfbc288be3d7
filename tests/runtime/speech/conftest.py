"""The real speech models, and a lane to run them in."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.config import RuntimeConfig
from runtime.errors import ErrorInfo
from runtime.lanes.lane import CancelMarks, Lane
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    Cancelled,
    Event,
    Failed,
    LoadSpeech,
    SegmentReady,
    Transcribe,
    Transcribed,
    UnloadSpeech,
)
from runtime.simulator.faults import FAULTS, Fault
from runtime.speech.service import SpeechService
from tests.runtime.audio.media import SAMPLE
from tests.runtime.conftest import Calls

FINAL = (Transcribed, Failed, Cancelled)


class SpeechLane:
    """The speech lane in its own thread, with everything it posted."""

    def __init__(self, data_dir: Path) -> None:
        self.events: list[Event] = []
        self.marks = CancelMarks()
        self.watch: Callable[[Event], None] = lambda event: None
        config = RuntimeConfig(data_dir, "simulated")
        self._lane = Lane("speech", lambda *_: SpeechService(config, self._post, self.marks), self._post)
        self._thread = threading.Thread(target=self._lane.run)
        self._thread.start()

    def _post(self, event: Event) -> None:
        self.events.append(event)
        self.watch(event)

    def load(self, folder: Path, layout: LayoutRequest | None = None) -> None:
        self._lane.put(LoadSpeech(folder.name, str(folder), layout or LayoutRequest()))

    def unload(self) -> None:
        self._lane.put(UnloadSpeech())

    def transcribe(
        self, request_id: str, source: Path, language: str | None = None, *, word_times: bool = True
    ) -> None:
        self._lane.put(Transcribe(request_id, str(source), language, word_times, time.perf_counter_ns()))

    def of(self, kind: type) -> list:
        return [event for event in self.events if isinstance(event, kind)]

    def final(self, request_id: str, seconds: float = 120.0) -> Event:
        """The event that ends the request; waits for it."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            found = [event for event in self.of(FINAL) if event.request_id == request_id]
            if found:
                return found[0]
            time.sleep(0.01)
        raise AssertionError(f"no end of {request_id} in {self.events}")

    def stop(self) -> None:
        self._lane.stop()
        self._thread.join()


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[SpeechLane]:
    running = SpeechLane(tmp_path)
    yield running
    running.stop()


def calls_until_the_end(lane: SpeechLane, calls: Calls, call: int, language: str | None = None) -> int:
    """How many calls of the device begin for the sample when it is cancelled in the middle of that one."""
    begun: list[int] = []

    def cancel() -> None:
        begun.append(1)
        if len(begun) == call:
            lane.marks.cancel("cancelled")

    calls.append(cancel)
    lane.transcribe("cancelled", SAMPLE, language)
    ended = lane.final("cancelled")
    assert isinstance(ended, Cancelled), ended
    assert not lane.of(SegmentReady)
    calls.clear()
    return len(begun)


def failure_of_bad_numbers(lane: SpeechLane) -> ErrorInfo:
    """What a file ends with whose every token is NaN; it has no lines, and the next file is transcribed."""
    FAULTS.inject(Fault("nan_logits", times=10_000))
    try:
        lane.transcribe("bad", SAMPLE)
        failed = lane.final("bad")
    finally:
        FAULTS.clear()
    assert isinstance(failed, Failed)
    assert not lane.of(SegmentReady)
    lane.transcribe("good", SAMPLE)
    assert isinstance(lane.final("good"), Transcribed)
    return failed.error
