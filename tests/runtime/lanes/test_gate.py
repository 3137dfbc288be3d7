"""The way out of a lane: what waits for a load, and what is answered once it is shut."""

from __future__ import annotations

import time
from dataclasses import replace

from runtime.errors import DeviceStalledError, NetworkError
from runtime.lanes.gate import Gate
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    Cancelled,
    Event,
    Failed,
    Finished,
    Generate,
    LoadModel,
    LoadSpeech,
    ModelFailed,
    ModelInfo,
    ModelLoaded,
    Queued,
    TextDelta,
    Transcribe,
)
from runtime.sampling.params import SamplingRequest


def test_nothing_of_a_lane_that_was_given_up_gets_out() -> None:
    events: list[Event] = []
    gate = Gate(events.append)
    ask = Generate("g", "c", "m", (), SamplingRequest(), 0)
    assert gate.expect(ask)
    assert gate.expect(Generate("done", "c", "m", (), SamplingRequest(), 0))
    gate.post(Failed("done", NetworkError("x").info))
    gate.post(ModelLoaded(ModelInfo("m", "M", "chat", "", "", "", True, None, 1, 1)))
    del events[:]
    error = DeviceStalledError("Stuck.").info
    assert gate.shut(error) == ["g"]
    assert events == [ModelFailed("m", error), Failed("g", error)]
    gate.post(TextDelta("g", "late"))
    assert gate.shut(error) == []
    assert not gate.expect(ask)
    assert len(events) == 2


def test_a_load_comes_after_the_requests_before_it() -> None:
    gate = Gate(lambda _: None)
    gate.expect(Transcribe("t", "/a.wav", None, False, 0))
    gate.expect(LoadSpeech("w", "/w", LayoutRequest()))
    assert gate.busy
    assert not gate.loading
    gate.post(Failed("t", NetworkError("x", remedy="y").info))
    assert gate.loading
    gate.post(ModelFailed("w", NetworkError("x", remedy="y").info))
    assert not gate.loading
    assert not gate.busy


def test_what_waits_for_a_load_is_withdrawn_once_and_the_service_says_no_more_of_it() -> None:
    posted: list[Event] = []
    gate = Gate(posted.append)
    first, second = (Transcribe(name, "x.wav", None, word_times=False, submitted_ns=1) for name in "ab")
    gate.expect(first)
    gate.expect(LoadSpeech("s", "", LayoutRequest()))
    gate.expect(second)
    assert not gate.withdraw("b"), "the first one is being heard; the service answers soon"
    gate.post(Cancelled("a"))
    assert gate.withdraw("b")
    assert not gate.withdraw("b")
    assert not gate.withdraw("nobody")
    for late in (Queued("b", 0), Cancelled("b")):
        gate.post(late)
    assert posted == [Queued("b", 1, "loading"), Cancelled("a"), Cancelled("b")]
    gate.expect(second)  # asked for once more
    gate.post(Queued("b", 0))
    assert posted[-1] == Queued("b", 0)


def test_what_is_asked_for_during_a_load_learns_that_it_waits_for_that() -> None:
    posted: list[Event] = []
    gate = Gate(posted.append)
    ask = Generate("r", "c", "m", (), SamplingRequest(), 1)
    gate.expect(ask)
    assert posted == []
    gate.post(Failed("r", NetworkError("x").info))
    gate.expect(LoadModel("m", "", LayoutRequest()))
    for name in ("a", "b"):
        gate.expect(replace(ask, request_id=name))
    assert posted[1:] == [Queued("a", 0, "loading"), Queued("b", 1, "loading")]
    gate.post(ModelLoaded(ModelInfo("m", "M", "chat", "", "", "", True, None, 1, 1)))
    gate.expect(replace(ask, request_id="c"))
    assert len(posted) == 4


def test_what_was_withdrawn_is_not_answered_again_when_the_load_is_given_up() -> None:
    posted: list[Event] = []
    gate = Gate(posted.append)
    gate.expect(LoadModel("m", "", LayoutRequest()))
    gate.expect(Generate("r", "c", "m", (), SamplingRequest(), 1))
    assert gate.withdraw("r")
    assert gate.shut(DeviceStalledError("It hangs.", remedy="Wait.").info) == []
    assert [type(event) for event in posted] == [Queued, Finished, ModelFailed]


def test_what_was_withdrawn_says_how_long_it_waited() -> None:
    posted: list[Event] = []
    gate = Gate(posted.append)
    gate.expect(LoadModel("m", "", LayoutRequest()))
    two_seconds_ago = time.perf_counter_ns() - 2 * 10**9
    gate.expect(Generate("r", "c", "m", (), SamplingRequest(), two_seconds_ago))
    gate.withdraw("r")
    finished = posted[-1]
    assert isinstance(finished, Finished)
    assert 2.0 <= finished.timings.queue == finished.timings.total < 60.0
