"""Several models at once, through the host: each with its own thread, on the simulated device."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest

from runtime import simulator
from runtime.answering.engine import Engine
from runtime.config import DeviceChoice, EngineOptions, KvOptions, RuntimeConfig
from runtime.device.active import activate, vendor_stack
from runtime.families.base import Progress
from runtime.families.faults import device_faults
from runtime.families.model_info import model_info
from runtime.lanes import host as host_module
from runtime.lanes.device_call import DeviceCall
from runtime.lanes.lane import CancelMarks, Post
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    Failed,
    Finished,
    ForgetConversation,
    ModelFailed,
    ModelUnloaded,
    SetEngineOptions,
    TextDelta,
    UnloadModel,
)
from runtime.simulator.build import build_artifact
from runtime.simulator.device import BOARDS, Fleet, NativeAccelerator
from runtime.simulator.events import TRACE
from runtime.simulator.faults import FAULTS, Fault
from tests.runtime.families.numbers import NoTokens, Numbers
from tests.runtime.hosting import PROMPT, Runtime
from tests.simulator.checkpoints import greedy, make_checkpoint, plain_model


def load_numbers(
    model_id: str, folder: Path, layout: LayoutRequest, device: DeviceChoice, progress: Progress
) -> Numbers:
    """A tiny model whose words are numbers."""
    active = activate("simulated")
    vendor_stack()
    from transformers import AutoModelForCausalLM

    with device_faults("tiny"):
        model = AutoModelForCausalLM.from_pretrained(
            str(folder), local_files_only=True, core_mode="single", target_cores=list(layout.target_cores)
        )
    info = model_info(model_id, folder, "llama", "chat", model, active, 0.0)
    return Numbers(model, NoTokens(), info, frozenset())


def engine(config: RuntimeConfig, post: Post, marks: CancelMarks, call: DeviceCall) -> Engine:
    return Engine(config, post, marks, load_numbers, call)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("side") / "checkpoint", "llama")


@pytest.fixture(scope="module")
def folder(checkpoint: Path) -> Path:
    made = checkpoint.parent / "artifact"
    build_artifact(checkpoint, made, context_length=96, prefill_chunk=16)
    return made


@pytest.fixture
def start(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., Runtime]]:
    monkeypatch.setattr(host_module, "_engine", engine)
    activate("simulated")
    running: list[Runtime] = []

    def begin() -> Runtime:
        running.append(Runtime(folder))
        return running[-1]

    yield begin
    FAULTS.clear()
    TRACE.stop()
    for runtime in running:
        runtime.host.stop()


# -- both at once -----------------------------------------------------------------------------------


@dataclass
class Span:
    """One pair of device events, in microseconds."""

    thread: int
    start: int
    end: int


def spans(path: Path, name: str, last: str = "") -> list[Span]:
    """From the beginning of `name` to its end, or to the beginning of the event `last`."""
    found, opened = [], {}
    for event in json.loads(path.read_text()):
        thread = event["tid"]
        if (event["name"], event["ph"]) == (name, "B"):
            opened[thread] = event["ts"]
        elif (event["name"], event["ph"]) == ((last, "B") if last else (name, "E")):
            found.append(Span(thread, opened.pop(thread), event["ts"]))
    return found


def meetings(found: Sequence[Span]) -> int:
    """How many spans of different threads overlap."""
    return sum(
        one.thread != other.thread and one.start < other.end and other.start < one.end
        for index, one in enumerate(found)
        for other in found[:index]
    )


@pytest.mark.parametrize("second_core", ["0:1:0", "0:0:0"])
def test_two_models_make_progress_at_the_same_time(
    start: Callable[..., Runtime], checkpoint: Path, tmp_path: Path, second_core: str
) -> None:
    runtime = start()
    runtime.loaded("a", "0:0:0")
    runtime.loaded("b", second_core)
    FAULTS.inject(Fault("slow_core", value=0.004, times=1000))
    trace = tmp_path / "device.json"
    assert TRACE.start(str(trace))
    runtime.ask("a", "one")
    runtime.ask("b", "two")
    expected = greedy(plain_model(checkpoint), PROMPT, 12)
    assert runtime.answer("one") == runtime.answer("two") == expected
    TRACE.stop()
    infers = spans(trace, "infer")
    held = spans(trace, "lock core", "unlock core")
    waits = [span.end - span.start for span in spans(trace, "wait core")]
    assert len({span.thread for span in infers}) == 2
    assert meetings(infers) > 6
    if second_core == "0:1:0":
        assert meetings(held) > 6
    else:
        assert meetings(held) == 0
        assert sum(wait > 2000 for wait in waits) > 6


# -- lanes come and go ------------------------------------------------------------------------------


def test_a_model_leaves_and_the_other_goes_on(start: Callable[..., Runtime]) -> None:
    runtime = start()
    runtime.loaded("a", "0:0:0")
    runtime.loaded("b", "0:1:0")
    FAULTS.inject(Fault("slow_core", value=0.01, times=30))
    runtime.ask("a", "cut short", count=80)
    runtime.ask("b", "whole", count=20)
    runtime.wait(TextDelta, lambda event: event.request_id == "cut short")
    runtime.host.submit(UnloadModel("a"))
    runtime.ask("a", "too late")
    assert runtime.wait(Failed).error.code == "request.model_not_loaded"
    runtime.wait(ModelUnloaded, lambda event: event.model_id == "a")
    ended = runtime.wait(Finished, lambda event: event.request_id == "cut short")
    assert ended.reason == "cancelled"
    assert len(runtime.answer("whole")) == 20
    runtime.loaded("a", "0:0:0")
    runtime.ask("a", "again")
    assert len(runtime.answer("again")) == 12


def test_a_forgotten_conversation_is_forgotten_by_every_model(start: Callable[..., Runtime]) -> None:
    runtime = start()
    for model_id, core in (("a", "0:0:0"), ("b", "0:1:0")):
        runtime.loaded(model_id, core)
        runtime.ask(model_id, f"{model_id}1", conversation="c")
        runtime.answer(f"{model_id}1")
    runtime.host.submit(ForgetConversation("c"))
    for model_id in "ab":
        runtime.ask(model_id, f"{model_id}2", conversation="c")
        runtime.answer(f"{model_id}2")
        ended = runtime.wait(Finished, lambda event, wanted=f"{model_id}2": event.request_id == wanted)
        assert ended.usage.cached == 0


def test_other_settings_reach_every_model_and_those_that_are_loaded_later(
    start: Callable[..., Runtime],
) -> None:
    runtime = start()
    runtime.loaded("a", "0:0:0")
    runtime.host.submit(SetEngineOptions(EngineOptions(KvOptions(conversations=1))))
    runtime.loaded("b", "0:1:0")
    for model_id in "ab":
        for number, conversation in enumerate(("first", "second", "second", "first")):
            request = f"{model_id}{number}"
            runtime.ask(model_id, request, conversation=f"{model_id} {conversation}")
            runtime.answer(request)
    ended = runtime.of(Finished)
    assert [event.usage.cached for event in ended] == [0, 0, len(PROMPT) - 1, 0] * 2


def test_a_model_that_gives_way_has_left_before_the_next_one_needs_its_memory(
    start: Callable[..., Runtime], monkeypatch: pytest.MonkeyPatch
) -> None:
    runtime = start()
    runtime.loaded("a", "0:0:0")
    needed = simulator.usage()[0].memory_used
    runtime.host.submit(UnloadModel("a"))
    runtime.wait(ModelUnloaded)
    monkeypatch.setattr(NativeAccelerator, "fleet", Fleet(BOARDS["aries-rb"], 1, needed * 3 // 2))
    runtime.loaded("b", "0:0:0")
    runtime.load("c", "0:1:0")
    assert runtime.wait(ModelFailed, lambda event: event.model_id == "c").error.code == "device.memory"
    FAULTS.inject(Fault("slow_core", value=0.1, times=5))
    runtime.ask("b", "busy", count=80)
    runtime.wait(TextDelta, lambda event: event.request_id == "busy")
    runtime.host.submit(UnloadModel("b"))
    runtime.loaded("d", "0:1:0")
    runtime.host.submit(UnloadModel("d"))
    runtime.wait(ModelUnloaded, lambda event: event.model_id == "d")


def test_threads_and_device_memory_of_unloaded_models_are_given_back(start: Callable[..., Runtime]) -> None:
    runtime = start()
    before = simulator.usage()[0].memory_used
    runtime.loaded("b", "0:1:0")
    beside = simulator.usage()[0].memory_used
    threads = set(threading.enumerate())
    for _ in range(15):
        runtime.loaded("a", "0:0:0")
        runtime.ask("a", "r", count=2)
        runtime.answer("r")
        runtime.host.submit(UnloadModel("a"))
        runtime.wait(ModelUnloaded)
        runtime.events.clear()
    runtime.host.submit(UnloadModel("b"))
    runtime.wait(ModelUnloaded)
    assert runtime.host.stop() == []
    assert before == simulator.usage()[0].memory_used < beside
    assert {thread for thread in threading.enumerate() if thread.name.startswith("mblt-")} <= threads


def test_a_lost_device_fails_its_model_and_a_reload_answers_the_same_conversation(
    start: Callable[..., Runtime], checkpoint: Path
) -> None:
    runtime = start()
    runtime.loaded("a", "0:0:0")
    runtime.ask("a", "before", conversation="c")
    runtime.answer("before")
    FAULTS.inject(Fault("device_lost", nth=3))
    runtime.ask("a", "lost", conversation="c")
    assert runtime.wait(Failed).error.code == "device.lost"
    runtime.wait(ModelFailed)
    runtime.events.clear()
    runtime.loaded("a", "0:0:0")
    runtime.ask("a", "after", conversation="c")
    assert runtime.answer("after") == greedy(plain_model(checkpoint), PROMPT, 12)
