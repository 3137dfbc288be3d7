"""The device does not answer, in an answer, a transcription or a load: it is given up, the rest goes on."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from runtime.building import TURN, building
from runtime.layout import LayoutRequest
from runtime.messages import (
    CallOverdue,
    Failed,
    Finished,
    LoadSpeech,
    ModelFailed,
    ModelLoaded,
    ModelLoading,
    ModelUnloaded,
    SegmentReady,
    TextDelta,
    Transcribe,
    Transcribed,
    UnloadModel,
    UnloadSpeech,
)
from runtime.simulator.build import build_artifact
from runtime.simulator.faults import FAULTS, Fault
from tests.runtime.audio.media import SAMPLE, SPOKEN
from tests.runtime.families.talk import save_tokenizer
from tests.runtime.hosting import Runtime
from tests.runtime.speech.words import text_of, word_errors
from tests.simulator.checkpoints import make_checkpoint

Start = Callable[..., Runtime]


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


# -- answers ----------------------------------------------------------------------------------------


def test_a_call_that_hangs_is_said_and_stop_gives_the_model_up(start: Start) -> None:
    runtime = start(stall_seconds=0.4)
    runtime.loaded("a", "0:0:0")
    runtime.loaded("b", "0:1:0")
    FAULTS.inject(Fault("slow_core", value=3.0, nth=3))
    before = time.time()
    runtime.ask("a", "stuck", count=80)
    runtime.ask("a", "behind")
    overdue = runtime.wait(CallOverdue)
    assert (overdue.request_id, overdue.limit) == ("stuck", 0.4)
    assert before <= overdue.since <= time.time() - 0.3
    runtime.ask("b", "meanwhile")
    assert len(runtime.answer("meanwhile")) == 12
    runtime.host.cancel("stuck")
    failed = runtime.wait(ModelFailed)
    assert (failed.model_id, failed.error.code) == ("a", "device.stalled")
    ended = {event.request_id: event.error.code for event in runtime.of(Failed)}
    assert ended == {"stuck": "device.stalled", "behind": "device.stalled"}
    runtime.ask("a", "now")
    assert runtime.wait(Failed, lambda e: e.request_id == "now").error.code == "request.model_not_loaded"
    runtime.events.clear()
    runtime.loaded("a", "0:0:1")
    runtime.ask("a", "anew")
    assert len(runtime.answer("anew")) == 12
    time.sleep(max(0.0, before + 3.5 - time.time()))
    assert not [event for event in runtime.take() if getattr(event, "request_id", "") == "stuck"]


def test_a_model_on_cores_that_a_hanging_call_still_holds_says_so_within_the_limit(start: Start) -> None:
    runtime = start(stall_seconds=0.4)
    runtime.loaded("a", "0:0:0")
    FAULTS.inject(Fault("slow_core", value=4.0, nth=2))
    runtime.ask("a", "stuck")
    runtime.wait(CallOverdue)
    runtime.host.cancel("stuck")
    runtime.wait(ModelFailed)
    runtime.events.clear()
    began = time.monotonic()
    runtime.loaded("a", "0:0:0")
    runtime.ask("a", "again")
    failed = runtime.wait(Failed)
    assert time.monotonic() - began < 2.5
    assert failed.error.code == "device.stalled"
    assert "cores of the model a are still held by an earlier call" in failed.error.summary
    assert "quit and start the program again" in failed.error.remedy
    runtime.wait(ModelFailed)
    assert not runtime.of(CallOverdue)
    runtime.loaded("b", "0:0:1")
    runtime.ask("b", "elsewhere")
    assert len(runtime.answer("elsewhere")) == 12


def test_a_hanging_model_that_was_unloaded_holds_up_the_next_one_no_longer_than_that(start: Start) -> None:
    runtime = start(stall_seconds=0.3)
    runtime.loaded("a", "0:0:0")
    FAULTS.inject(Fault("slow_core", value=2.5, nth=2))
    runtime.ask("a", "stuck")
    runtime.wait(CallOverdue)
    runtime.host.submit(UnloadModel("a"))
    runtime.loaded("b", "0:1:0")
    assert [event.error.code for event in runtime.of(Failed)] == ["device.stalled"]
    runtime.ask("b", "meanwhile")
    assert len(runtime.answer("meanwhile")) == 12


def test_without_stop_it_is_given_up_after_twice_the_limit(start: Start) -> None:
    runtime = start(stall_seconds=0.3)
    runtime.loaded("a", "0:0:0")
    FAULTS.inject(Fault("slow_core", value=2.0, nth=2))
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
    start: Start, demo_models: Path
) -> None:
    runtime = start(stall_seconds=2.0)
    runtime.loaded("a", "0:0:0")
    load_speech(runtime, demo_models)
    runtime.wait(ModelLoaded, lambda event: event.info.model_id == "whisper")
    FAULTS.inject(Fault("slow_core", value=7.0, nth=4))
    began = time.monotonic()
    transcribe(runtime, "stuck")
    transcribe(runtime, "behind")
    assert runtime.wait(CallOverdue).request_id == "stuck"
    runtime.ask("a", "meanwhile")
    assert len(runtime.answer("meanwhile")) == 12
    runtime.host.cancel("stuck")
    failed = runtime.wait(ModelFailed)
    assert time.monotonic() - began < 6.5
    assert (failed.model_id, failed.error.code) == ("whisper", "device.stalled")
    assert "the speech model" in failed.error.summary
    ended = {event.request_id: event.error.code for event in runtime.of(Failed)}
    assert ended == {"stuck": "device.stalled", "behind": "device.stalled"}
    runtime.events.clear()
    # The same core once the call has come back: what it says then is nobody's.
    time.sleep(max(0.0, began + 8.0 - time.monotonic()))
    load_speech(runtime, demo_models)
    transcribe(runtime, "anew")
    result = runtime.wait(Transcribed)
    assert result.request_id == "anew"
    assert word_errors(SPOKEN, text_of(result.segments)) == 0
    assert {event.request_id for event in runtime.of(SegmentReady)} == {"anew"}
    runtime.ask("a", "afterwards")
    assert len(runtime.answer("afterwards")) == 12


# -- loads ------------------------------------------------------------------------------------------


def test_a_load_that_hangs_is_given_up_and_the_next_one_begins_at_once(start: Start) -> None:
    runtime = start(load_stall_seconds=1.0)
    runtime.loaded("a", "0:0:0")
    FAULTS.inject(Fault("slow_launch", value=5.0))
    began = time.monotonic()
    runtime.load("stuck", "0:0:1")
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
    assert time.monotonic() - began < 4.0
    runtime.ask("stuck", "anew")
    assert len(runtime.answer("anew")) == 12
    time.sleep(max(0.0, began + 5.5 - time.monotonic()))
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
def test_a_load_is_cancelled_at_once_and_its_memory_is_free_for_the_next(start: Start, hung: bool) -> None:
    runtime = start(load_stall_seconds=1.5)
    FAULTS.inject(Fault("slow_launch", value=6.0 if hung else 1.0))
    runtime.load("a", "0:0:0")
    runtime.ask("a", "waiting")
    runtime.wait(ModelLoading, lambda event: "weights" in event.stage)
    time.sleep(0.3)
    began = time.monotonic()
    runtime.host.submit(UnloadModel("a"))
    assert time.monotonic() - began < 0.05
    assert [event.model_id for event in runtime.of(ModelUnloaded)] == ["a"]
    assert runtime.of(Failed)[0].error.summary.startswith("Loading the model was cancelled")
    runtime.loaded("a", "0:0:0")
    # What was cancelled leaves first; what hangs is not waited for.
    assert 0.6 < time.monotonic() - began < 4.5
    assert len(runtime.of(ModelLoaded)) == 1
    runtime.ask("a", "answered")
    assert len(runtime.answer("answered")) == 12


def test_a_speech_model_on_its_way_is_cancelled_at_once_but_not_with_files_before_it(
    start: Start, demo_models: Path
) -> None:
    runtime = start()
    FAULTS.inject(Fault("slow_launch", value=1.0))
    load_speech(runtime, demo_models)
    transcribe(runtime, "waiting")
    runtime.wait(ModelLoading)
    runtime.host.submit(UnloadSpeech())
    assert [event.model_id for event in runtime.of(ModelUnloaded)] == ["whisper"]
    assert [event.request_id for event in runtime.of(Failed)] == ["waiting"]
    runtime.events.clear()
    load_speech(runtime, demo_models)
    transcribe(runtime, "first")
    load_speech(runtime, demo_models)
    runtime.host.submit(UnloadSpeech())
    assert runtime.wait(Transcribed).request_id == "first"
    assert not runtime.of(Failed)


def test_the_end_does_not_wait_for_a_load(start: Start) -> None:
    runtime = start()
    FAULTS.inject(Fault("slow_launch", value=2.0))
    runtime.load("a", "0:0:0")
    runtime.wait(ModelLoading, lambda event: "weights" in event.stage)
    began = time.monotonic()
    assert runtime.host.stop(8.0) == ["model a"]
    assert time.monotonic() - began < 1.5
    assert [event.model_id for event in runtime.of(ModelUnloaded)] == ["a"]


def test_the_end_waits_for_answers_that_are_being_ended(start: Start) -> None:
    runtime = start()
    runtime.loaded("a", "0:0:0")
    FAULTS.inject(Fault("slow_core", value=1.0, nth=3))
    runtime.ask("a", "cut short", count=80)
    runtime.wait(TextDelta)
    assert runtime.host.stop(8.0) == []
    assert [event.reason for event in runtime.of(Finished)] == ["cancelled"]


# -- building ---------------------------------------------------------------------------------------


def test_a_turn_that_is_taken_away_leaves_the_process_as_it_was() -> None:
    came_back = threading.Event()
    began: list[int] = []

    def hang() -> None:
        with building(lambda *_: None):
            torch.set_default_dtype(torch.float16)
            began.append(threading.get_ident())
            came_back.wait(10)

    thread = threading.Thread(target=hang)
    thread.start()
    while not began:
        time.sleep(0.01)
    assert not TURN.take(0)
    TURN.take_away(began[0] + 1)
    assert not TURN.take(0)
    TURN.take_away(began[0])
    assert torch.get_default_dtype() is torch.float32
    with building(lambda *_: None):
        came_back.set()
        thread.join()
        assert not TURN.take(0)  # the late one gives back nothing
