"""The device does not answer, in an answer, a transcription or a load: it is given up, the rest goes on."""

from __future__ import annotations

import itertools
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime import simulator
from runtime.lanes.building import building
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    CallOverdue,
    Failed,
    Finished,
    LoadSpeech,
    MeasurePrompt,
    ModelFailed,
    ModelLoaded,
    ModelLoading,
    ModelUnloaded,
    SegmentReady,
    TextDelta,
    TextPart,
    Transcribe,
    Transcribed,
    Turn,
    UnloadModel,
    UnloadSpeech,
)
from runtime.sampling.params import SamplingRequest
from runtime.simulator.build import build_artifact
from runtime.simulator.device import BOARDS, Fleet, NativeAccelerator
from runtime.simulator.faults import FAULTS, Fault
from runtime.simulator.model import NativeModel
from tests.runtime.audio.media import SAMPLE, SPOKEN
from tests.runtime.families.talk import save_tokenizer
from tests.runtime.hosting import Runtime
from tests.runtime.speech.words import text_of, word_errors
from tests.simulator.checkpoints import make_checkpoint

Start = Callable[..., Runtime]
Hang = Callable[..., tuple[threading.Event, threading.Event]]


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parent = tmp_path_factory.mktemp("watchdog")
    checkpoint = make_checkpoint(parent / "checkpoint", "llama")
    save_tokenizer(checkpoint)
    build_artifact(checkpoint, parent / "artifact", context_length=96, prefill_chunk=16)
    return parent / "artifact"


@pytest.fixture
def start(folder: Path) -> Iterator[Start]:
    running: list[Runtime] = []

    def begin(**limits: float) -> Runtime:
        running.append(Runtime(folder, word="t", **limits))
        return running[-1]

    yield begin
    FAULTS.clear()
    for runtime in running:
        runtime.host.stop()
        for lane in runtime.host.lanes():  # what hangs in a test comes back after some seconds
            assert lane.ended.wait(20)


@pytest.fixture
def hang(start: Start, monkeypatch: pytest.MonkeyPatch) -> Iterator[Hang]:
    """Makes the so many-th inference (or launch) from now on hang; tells when it does, is told to go on."""
    go_on = threading.Event()

    def arm(nth: int, method: str = "_meet_faults") -> tuple[threading.Event, threading.Event]:
        calls, hanging, real = itertools.count(1), threading.Event(), getattr(NativeModel, method)

        def called(model: NativeModel, board: Any) -> None:
            if next(calls) == nth:
                hanging.set()
                go_on.wait(60)
            real(model, board)

        monkeypatch.setattr(NativeModel, method, called)
        return hanging, go_on

    yield arm
    go_on.set()


# -- answers ----------------------------------------------------------------------------------------


def test_a_call_that_hangs_is_said_and_stop_gives_the_model_up(start: Start, hang: Hang) -> None:
    runtime = start(stall_seconds=0.4)
    runtime.loaded("a", "0:0:0")
    runtime.loaded("b", "0:1:0")
    _, go_on = hang(3)
    before = time.time()
    runtime.ask("a", "stuck", count=80)
    runtime.ask("a", "behind")
    overdue = runtime.wait(CallOverdue)
    assert (overdue.request_id, overdue.limit) == ("stuck", 0.4)
    assert before <= overdue.since <= time.time() - 0.3
    runtime.host.submit(MeasurePrompt("length", "a", (Turn("user", (TextPart("t1"),)),), SamplingRequest()))
    runtime.ask("b", "meanwhile")
    assert len(runtime.answer("meanwhile")) == 12
    runtime.host.cancel("stuck")
    failed = runtime.wait(ModelFailed)
    assert (failed.model_id, failed.error.code) == ("a", "device.stalled")
    ended = {event.request_id: event.error.code for event in runtime.of(Failed)}
    assert ended == dict.fromkeys(("stuck", "behind", "length"), "device.stalled")
    runtime.ask("a", "now")
    assert runtime.wait(Failed, lambda e: e.request_id == "now").error.code == "request.model_not_loaded"
    runtime.events.clear()
    runtime.loaded("a", "0:0:1")
    runtime.ask("a", "anew")
    assert len(runtime.answer("anew")) == 12
    (stuck,) = [lane for lane in runtime.host.lanes() if lane.abandoned]
    go_on.set()
    assert stuck.ended.wait(20)
    assert not [event for event in runtime.take() if getattr(event, "request_id", "") == "stuck"]


def test_a_model_on_cores_that_a_hanging_call_still_holds_says_so_within_the_limit(
    start: Start, hang: Hang
) -> None:
    runtime = start(stall_seconds=0.4)
    runtime.loaded("a", "0:0:0")
    hang(2)
    runtime.ask("a", "stuck")
    runtime.wait(CallOverdue)
    runtime.host.cancel("stuck")
    runtime.wait(ModelFailed)
    runtime.events.clear()
    runtime.loaded("a", "0:0:0")
    runtime.ask("a", "again")
    failed = runtime.wait(Failed)
    assert failed.error.code == "device.stalled"
    assert "cores of the model a are still held by an earlier call" in failed.error.summary
    assert "quit and start the program again" in failed.error.remedy
    runtime.wait(ModelFailed)
    assert not runtime.of(CallOverdue)
    runtime.loaded("b", "0:0:1")
    runtime.ask("b", "elsewhere")
    assert len(runtime.answer("elsewhere")) == 12


def test_a_lack_of_memory_says_that_a_hanging_model_still_holds_some(
    start: Start, hang: Hang, monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = start(stall_seconds=0.3)
    before = simulator.usage()[0].memory_used
    runtime.loaded("a", "0:0:0")
    needed = simulator.usage()[0].memory_used - before
    runtime.host.submit(UnloadModel("a"))
    runtime.wait(ModelUnloaded)
    monkeypatch.setattr(NativeAccelerator, "fleet", Fleet(BOARDS["aries-rb"], 1, needed * 3 // 2))
    runtime.loaded("b", "0:0:0")
    runtime.load("c", "0:0:1")
    crowded = runtime.wait(ModelFailed)
    assert "Unload another model" in crowded.error.remedy
    hang(2)
    runtime.ask("b", "stuck")
    runtime.wait(ModelFailed, lambda event: event.model_id == "b")
    runtime.load("d", "0:0:1")
    failed = runtime.wait(ModelFailed, lambda event: event.model_id == "d")
    assert failed.error.code == "device.memory"
    assert "What was given up before (model b) still holds memory of the device" in failed.error.remedy


def test_a_hanging_model_that_was_unloaded_holds_up_the_next_one_no_longer_than_that(
    start: Start, hang: Hang
) -> None:
    runtime = start(stall_seconds=0.3)
    runtime.loaded("a", "0:0:0")
    hang(2)
    runtime.ask("a", "stuck")
    runtime.wait(CallOverdue)
    runtime.host.submit(UnloadModel("a"))
    runtime.loaded("b", "0:1:0")
    assert [event.error.code for event in runtime.of(Failed)] == ["device.stalled"]
    runtime.ask("b", "meanwhile")
    assert len(runtime.answer("meanwhile")) == 12


def test_without_stop_it_is_given_up_after_twice_the_limit(start: Start, hang: Hang) -> None:
    runtime = start(stall_seconds=0.3)
    runtime.loaded("a", "0:0:0")
    hang(2)
    runtime.ask("a", "stuck")
    assert runtime.wait(Failed).error.summary.startswith("The device has not answered the model a for ")
    assert [type(e) for e in runtime.take() if isinstance(e, CallOverdue | Failed)] == [CallOverdue, Failed]


def test_a_late_answer_is_an_answer_all_the_same(start: Start) -> None:
    runtime = start(stall_seconds=0.5)
    runtime.loaded("a", "0:0:0")
    FAULTS.inject(Fault("slow_core", value=0.7, nth=2))
    runtime.ask("a", "slow")
    assert len(runtime.answer("slow")) == 12
    assert len(runtime.of(CallOverdue)) == 1


def test_the_boards_own_time_out_fails_the_request_and_the_model(start: Start) -> None:
    runtime = start()
    runtime.loaded("a", "0:0:0")
    FAULTS.inject(Fault("stall", value=0.1, nth=2))
    runtime.ask("a", "stuck")
    assert runtime.wait(Failed).error.code == "device.stalled"
    assert runtime.wait(ModelFailed).error.code == "device.stalled"


# -- transcriptions ---------------------------------------------------------------------------------


def load_speech(runtime: Runtime, demo_models: Path) -> None:
    layout = LayoutRequest("single", ("0:1:0",))
    runtime.host.submit(LoadSpeech("whisper", str(demo_models / "whisper-tiny.en-sim"), layout))


def transcribe(runtime: Runtime, request_id: str) -> None:
    runtime.host.submit(Transcribe(request_id, str(SAMPLE), None, word_times=False, submitted_ns=1))


def test_a_transcription_that_hangs_is_said_and_cancel_gives_the_speech_model_up(
    start: Start, demo_models: Path, hang: Hang
) -> None:
    runtime = start(stall_seconds=5.0)  # encoding the sound takes a while on a busy machine
    runtime.loaded("a", "0:0:0")
    load_speech(runtime, demo_models)
    runtime.wait(ModelLoaded, lambda event: event.info.model_id == "whisper")
    hanging, go_on = hang(4)
    transcribe(runtime, "stuck")
    transcribe(runtime, "behind")
    assert hanging.wait(60)
    runtime.ask("a", "meanwhile")
    assert len(runtime.answer("meanwhile")) == 12
    assert runtime.wait(CallOverdue).request_id == "stuck"
    runtime.host.cancel("stuck")
    failed = runtime.wait(ModelFailed)
    assert (failed.model_id, failed.error.code) == ("whisper", "device.stalled")
    assert "the speech model" in failed.error.summary
    ended = {event.request_id: event.error.code for event in runtime.of(Failed)}
    assert ended == {"stuck": "device.stalled", "behind": "device.stalled"}
    (stuck,) = [lane for lane in runtime.host.lanes() if lane.abandoned]
    assert not stuck.ended.is_set()
    runtime.events.clear()
    go_on.set()  # what it says now is nobody's
    assert stuck.ended.wait(20)
    load_speech(runtime, demo_models)
    transcribe(runtime, "anew")
    result = runtime.wait(Transcribed)
    assert result.request_id == "anew"
    assert word_errors(SPOKEN, text_of(result.segments)) == 0
    assert {event.request_id for event in runtime.of(SegmentReady)} == {"anew"}
    runtime.ask("a", "afterwards")
    assert len(runtime.answer("afterwards")) == 12


# -- loads ------------------------------------------------------------------------------------------


def test_a_load_that_hangs_is_given_up_and_the_next_one_begins_at_once(start: Start, hang: Hang) -> None:
    runtime = start(load_stall_seconds=1.0)
    runtime.loaded("a", "0:0:0")
    hanging, go_on = hang(1, "launch")
    runtime.load("stuck", "0:0:1")
    assert hanging.wait(20)
    runtime.ask("stuck", "waiting")
    runtime.load("next", "0:0:2")
    runtime.ask("a", "meanwhile")
    assert len(runtime.answer("meanwhile")) == 12
    failed = runtime.wait(ModelFailed)
    assert (failed.model_id, failed.error.code) == ("stuck", "device.stalled")
    assert "no progress for 1 seconds" in failed.error.summary
    assert [(e.request_id, e.error.code) for e in runtime.of(Failed)] == [("waiting", "device.stalled")]
    runtime.wait(ModelLoaded, lambda event: event.info.model_id == "next")
    runtime.loaded("stuck", "0:0:1")
    runtime.ask("stuck", "anew")
    assert len(runtime.answer("anew")) == 12
    (stuck,) = [lane for lane in runtime.host.lanes() if lane.abandoned]
    go_on.set()
    assert stuck.ended.wait(20)
    assert len([e for e in runtime.of(ModelLoaded) if e.info.model_id == "stuck"]) == 1
    assert len(runtime.of(ModelFailed)) == 1


def test_a_load_that_goes_on_may_take_longer_than_the_limit(start: Start) -> None:
    """It waits for another one, stage after stage, longer than either may stand still."""
    runtime = start(load_stall_seconds=1.2)
    held, done = threading.Event(), threading.Event()

    def hold() -> None:
        with building(lambda *_: None):
            held.set()
            done.wait(10)

    thread = threading.Thread(target=hold)
    thread.start()
    assert held.wait(10)
    runtime.load("a", "0:0:0")
    waiting = runtime.wait(ModelLoading, lambda event: "another model" in event.stage)
    assert waiting.fraction is None
    time.sleep(2.5)
    assert not runtime.of(ModelFailed)
    done.set()
    runtime.wait(ModelLoaded)
    thread.join()


@pytest.mark.parametrize("hung", [False, True])
def test_a_load_is_cancelled_at_once_and_its_memory_is_free_for_the_next(
    start: Start, hang: Hang, hung: bool
) -> None:
    runtime = start(load_stall_seconds=1.5)
    hanging, go_on = hang(1, "launch")
    runtime.load("a", "0:0:0")
    runtime.ask("a", "waiting")
    assert hanging.wait(20)
    runtime.host.submit(UnloadModel("a"))
    assert [event.model_id for event in runtime.of(ModelUnloaded)] == ["a"]
    assert runtime.of(Failed)[0].error.summary.startswith("Loading the model was cancelled")
    runtime.load("a", "0:0:0")
    if not hung:
        time.sleep(0.3)
        assert not runtime.of(ModelLoaded)  # what was cancelled leaves first
        go_on.set()
    runtime.wait(ModelLoaded)
    assert len(runtime.of(ModelLoaded)) == 1
    runtime.ask("a", "answered")
    assert len(runtime.answer("answered")) == 12


def test_a_speech_model_on_its_way_is_cancelled_at_once_but_not_with_files_before_it(
    start: Start, hang: Hang, demo_models: Path
) -> None:
    runtime = start()
    hanging, go_on = hang(1, "launch")
    load_speech(runtime, demo_models)
    transcribe(runtime, "waiting")
    assert hanging.wait(20)
    runtime.host.submit(UnloadSpeech())
    assert [event.model_id for event in runtime.of(ModelUnloaded)] == ["whisper"]
    assert [event.request_id for event in runtime.of(Failed)] == ["waiting"]
    runtime.events.clear()
    go_on.set()
    load_speech(runtime, demo_models)
    transcribe(runtime, "first")
    load_speech(runtime, demo_models)
    runtime.host.submit(UnloadSpeech())
    assert runtime.wait(Transcribed).request_id == "first"
    assert not runtime.of(Failed)


def test_the_end_does_not_wait_for_a_load(start: Start, hang: Hang) -> None:
    runtime = start()
    hanging, _ = hang(1, "launch")
    runtime.load("a", "0:0:0")
    assert hanging.wait(20)
    began = time.monotonic()
    assert runtime.host.stop(8.0) == ["model a"]
    assert time.monotonic() - began < 4
    assert [event.model_id for event in runtime.of(ModelUnloaded)] == ["a"]


def test_the_end_does_not_wait_for_a_call_that_is_overdue(start: Start, hang: Hang) -> None:
    runtime = start(stall_seconds=0.5)
    runtime.loaded("a", "0:0:0")
    hang(3)
    runtime.ask("a", "stuck", count=80)
    runtime.wait(CallOverdue)
    began = time.monotonic()
    assert runtime.host.stop(8.0) == ["model a"]
    assert time.monotonic() - began < 4


def test_the_end_waits_for_answers_that_are_being_ended(start: Start) -> None:
    runtime = start()
    runtime.loaded("a", "0:0:0")
    FAULTS.inject(Fault("slow_core", value=1.0, nth=3))
    runtime.ask("a", "cut short", count=80)
    runtime.wait(TextDelta)
    assert runtime.host.stop(8.0) == []
    assert [event.reason for event in runtime.of(Finished)] == ["cancelled"]
