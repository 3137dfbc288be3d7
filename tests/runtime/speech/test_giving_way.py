"""A take beside a long file, on the real tiny.en in a host of real lanes."""

from __future__ import annotations

import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from runtime.layout.request import LayoutRequest
from runtime.messages import Cancelled, LoadSpeech, Queued, SegmentReady, Transcribe, Transcribed
from runtime.messages.chat import Priority
from tests.runtime.audio.media import RATE, SAMPLE, SPOKEN, clip, write_wav
from tests.runtime.hosting import Runtime
from tests.runtime.speech.words import text_of, word_errors

TINY = "whisper-tiny.en"


@pytest.fixture
def runtime(demo_models: Path, tmp_path: Path) -> Iterator[Runtime]:
    running = Runtime(tmp_path)
    running.host.submit(LoadSpeech(TINY, str(demo_models / TINY), LayoutRequest()))
    yield running
    assert running.host.stop() == []


def long(folder: Path) -> Path:
    """Windows of one sentence: of several alike, the model draws its words by lot, each time others."""
    pause = np.zeros(4 * RATE, np.float32)
    return write_wav(folder / "long.wav", np.concatenate([clip(), pause] * 5))


def transcribe(runtime: Runtime, name: str, source: Path, priority: Priority = "background") -> None:
    runtime.host.submit(Transcribe(name, str(source), None, True, time.perf_counter_ns(), priority))


def transcribed(runtime: Runtime, name: str) -> Transcribed:
    return runtime.wait(Transcribed, lambda event: event.request_id == name)


def test_a_take_is_written_down_in_the_middle_of_a_file_that_does_not_notice(
    runtime: Runtime, tmp_path: Path
) -> None:
    path = long(tmp_path)
    transcribe(runtime, "alone", path)
    alone = transcribed(runtime, "alone")
    assert len(alone.segments) >= 5
    transcribe(runtime, "file", path)
    runtime.wait(SegmentReady, lambda event: event.request_id == "file")
    transcribe(runtime, "take", SAMPLE, "interactive")
    assert word_errors(SPOKEN, text_of(transcribed(runtime, "take").segments)) == 0
    assert not [event for event in runtime.of(Transcribed) if event.request_id == "file"]
    file = transcribed(runtime, "file")
    assert (file.segments, file.language, file.duration) == (alone.segments, alone.language, alone.duration)
    said = [event for event in runtime.of(Queued) if event.request_id == "file"]
    assert said[-2:] == [Queued("file", 1, "gave_way", "take"), Queued("file", 0, "next")]


def test_a_file_that_gave_way_can_be_cancelled_and_the_take_goes_on(runtime: Runtime, tmp_path: Path) -> None:
    transcribe(runtime, "file", long(tmp_path))
    runtime.wait(SegmentReady, lambda event: event.request_id == "file")
    transcribe(runtime, "take", SAMPLE, "interactive")
    runtime.wait(Queued, lambda event: event.cause == "gave_way")
    runtime.host.cancel("file")
    runtime.wait(Cancelled, lambda event: event.request_id == "file")
    assert word_errors(SPOKEN, text_of(transcribed(runtime, "take").segments)) == 0
    ends = [event for event in runtime.of(Cancelled) if event.request_id == "file"]
    assert len(ends) == 1
