"""Several models at once, through the host: each with its own thread, on the simulated device."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

import pytest

from runtime import host as host_module
from runtime import simulator
from runtime.config import DeviceChoice, RuntimeConfig
from runtime.device_call import DeviceCall
from runtime.devices import activate, vendor_stack
from runtime.engine import Engine
from runtime.families.base import Progress
from runtime.families.causal_lm import model_info
from runtime.families.faults import device_faults
from runtime.host import Host
from runtime.lane import CancelMarks, Post
from runtime.layout import LayoutRequest
from runtime.messages import (
    CallOverdue,
    Event,
    Failed,
    Finished,
    ForgetConversation,
    Generate,
    LoadModel,
    ModelFailed,
    ModelLoaded,
    ModelUnloaded,
    TextDelta,
    TextPart,
    Turn,
    UnloadModel,
)
from runtime.sampling_params import SamplingRequest
from runtime.simulator.build import build_artifact
from runtime.simulator.device import BOARDS, Fleet, NativeAccelerator
from runtime.simulator.events import TRACE
from runtime.simulator.faults import FAULTS, Fault
from tests.runtime.families.numbers import NoTokens, Numbers
from tests.simulator.checkpoints import greedy, make_checkpoint, plain_model

PATIENCE = 20.0
PROMPT = [3, 1, 4, 1, 5, 9]
EventT = TypeVar("EventT")


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


class Runtime:
    """A host and what it has posted."""

    def __init__(self, folder: Path, stall_seconds: float) -> None:
        self.host = Host(RuntimeConfig(folder, "simulated", stall_seconds=stall_seconds), lambda: None)
        self.events: list[Event] = []
        self._folder = folder

    def load(self, model_id: str, *cores: str) -> None:
        self.host.submit(LoadModel(model_id, str(self._folder), LayoutRequest(target_cores=cores)))

    def loaded(self, model_id: str, *cores: str) -> None:
        self.load(model_id, *cores)
        self.wait(ModelLoaded, lambda event: event.info.model_id == model_id)

    def ask(self, model_id: str, request_id: str, count: int = 12, conversation: str = "") -> None:
        turns = (Turn("user", (TextPart(" ".join(map(str, PROMPT))),)),)
        sampling = SamplingRequest(temperature=0.0, max_tokens=count)
        self.host.submit(Generate(request_id, conversation or request_id, model_id, turns, sampling, 1))

    def wait(self, kind: type[EventT], which: Callable[[EventT], bool] = lambda _: True) -> EventT:
        """The first event of that kind, waiting for it."""
        until = time.monotonic() + PATIENCE
        while True:
            self.events += self.host.take_events()
            for event in self.events:
                if isinstance(event, kind) and which(event):
                    return event
            assert time.monotonic() < until, self.events
            time.sleep(0.005)

    def answer(self, request_id: str) -> list[int]:
        self.wait(Finished, lambda event: event.request_id == request_id)
        return [
            int(word)
            for event in self.events
            if isinstance(event, TextDelta) and event.request_id == request_id
            for word in event.text.split()
        ]


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

    def begin(stall_seconds: float = 60.0) -> Runtime:
        running.append(Runtime(folder, stall_seconds))
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


# -- the device does not answer ---------------------------------------------------------------------


def test_a_call_that_hangs_is_said_and_stop_gives_the_model_up(start: Callable[..., Runtime]) -> None:
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
    ended = {event.request_id: event.error.code for event in runtime.events if isinstance(event, Failed)}
    assert ended == {"stuck": "device.stalled", "behind": "device.stalled"}
    runtime.ask("a", "now")
    assert runtime.wait(Failed, lambda e: e.request_id == "now").error.code == "request.model_not_loaded"
    runtime.events.clear()
    runtime.loaded("a", "0:0:1")
    runtime.ask("a", "anew")
    assert len(runtime.answer("anew")) == 12
    time.sleep(max(0.0, before + 3.5 - time.time()))
    runtime.events += runtime.host.take_events()
    assert not [event for event in runtime.events if getattr(event, "request_id", "") == "stuck"]


def test_a_hanging_model_that_was_unloaded_holds_up_the_next_one_no_longer_than_that(
    start: Callable[..., Runtime],
) -> None:
    runtime = start(stall_seconds=0.3)
    runtime.loaded("a", "0:0:0")
    FAULTS.inject(Fault("slow_core", value=2.5, nth=2))
    runtime.ask("a", "stuck")
    runtime.wait(CallOverdue)
    runtime.host.submit(UnloadModel("a"))
    runtime.loaded("b", "0:1:0")
    assert [event.error.code for event in runtime.events if isinstance(event, Failed)] == ["device.stalled"]
    runtime.ask("b", "meanwhile")
    assert len(runtime.answer("meanwhile")) == 12


def test_without_stop_it_is_given_up_after_twice_the_limit(start: Callable[..., Runtime]) -> None:
    runtime = start(stall_seconds=0.3)
    runtime.loaded("a", "0:0:0")
    FAULTS.inject(Fault("slow_core", value=2.0, nth=2))
    runtime.ask("a", "stuck")
    assert runtime.wait(Failed).error.summary.startswith("The device has not answered the model a for ")
    assert [type(e) for e in runtime.events if isinstance(e, CallOverdue | Failed)] == [CallOverdue, Failed]


def test_a_late_answer_is_an_answer_all_the_same(start: Callable[..., Runtime]) -> None:
    runtime = start(stall_seconds=0.5)
    runtime.loaded("a", "0:0:0")
    FAULTS.inject(Fault("slow_core", value=0.7, nth=2))
    runtime.ask("a", "slow")
    assert len(runtime.answer("slow")) == 12
    assert len([event for event in runtime.events if isinstance(event, CallOverdue)]) == 1


def test_the_boards_own_time_out_fails_the_request_and_the_model(start: Callable[..., Runtime]) -> None:
    runtime = start()
    runtime.loaded("a", "0:0:0")
    FAULTS.inject(Fault("stall", value=0.1, nth=2))
    runtime.ask("a", "stuck")
    assert runtime.wait(Failed).error.code == "device.stalled"
    assert runtime.wait(ModelFailed).error.code == "device.stalled"
