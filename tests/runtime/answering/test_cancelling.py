"""Stop at any moment of a request: acknowledged exactly once, and after one call of the device at most."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.messages import (
    Cancelled,
    Event,
    Failed,
    Finished,
    ModelLoaded,
    ModelLoading,
    PrefillProgress,
    Queued,
    TextDelta,
)
from runtime.simulator.build import build_artifact
from runtime.simulator.events import TRACE
from runtime.simulator.faults import FAULTS, Fault
from tests.runtime.families.talk import save_tokenizer
from tests.runtime.hosting import Runtime
from tests.simulator.checkpoints import make_checkpoint

CALL = 0.03
"""Seconds that each call of the device takes here."""


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    parent = tmp_path_factory.mktemp("cancelling")
    checkpoint = make_checkpoint(parent / "checkpoint", "llama")
    save_tokenizer(checkpoint)
    build_artifact(checkpoint, parent / "artifact", context_length=96, prefill_chunk=2)
    return parent / "artifact"


@pytest.fixture
def runtime(folder: Path) -> Iterator[Runtime]:
    runtime = Runtime(folder, word="t")
    yield runtime
    FAULTS.clear()
    TRACE.stop()
    runtime.host.stop()


def ends(runtime: Runtime, request_id: str) -> list[Event]:
    """Every event that ends the request."""
    final = (Finished, Failed, Cancelled)
    return [event for event in runtime.take() if isinstance(event, final) and event.request_id == request_id]


def stopped(runtime: Runtime, request_id: str) -> Finished:
    """Its end, after time enough for a second one."""
    ended = runtime.wait(Finished, lambda event: event.request_id == request_id)
    time.sleep(3 * CALL)
    assert ends(runtime, request_id) == [ended]
    assert ended.reason == "cancelled"
    return ended


def slow(runtime: Runtime) -> Runtime:
    runtime.loaded("a", "0:0:0")
    FAULTS.inject(Fault("slow_core", value=CALL, times=10_000))
    return runtime


def of(request_id: str) -> Callable[[TextDelta | PrefillProgress], bool]:
    return lambda event: event.request_id == request_id


def test_while_it_waits_for_another(runtime: Runtime) -> None:
    slow(runtime).ask("a", "long", count=80)
    runtime.ask("a", "waits")
    runtime.wait(TextDelta)
    runtime.host.cancel("waits")
    assert stopped(runtime, "waits").usage.prompt == 0
    assert ends(runtime, "long") == []


@pytest.mark.parametrize("moment", [PrefillProgress, TextDelta])
def test_while_it_runs_one_more_call_at_most_is_made(
    runtime: Runtime, tmp_path: Path, moment: type[PrefillProgress] | type[TextDelta]
) -> None:
    slow(runtime)
    trace = tmp_path / "device.json"
    assert TRACE.start(str(trace))
    runtime.ask("a", "r", count=80)
    runtime.wait(moment, of("r"))
    before = len(runtime.of(TextDelta))
    asked = time.monotonic_ns() // 1000
    runtime.host.cancel("r")
    ended = stopped(runtime, "r")
    TRACE.stop()
    events = json.loads(trace.read_text())
    begun = [event["ts"] for event in events if (event["name"], event["ph"]) == ("infer", "B")]
    assert len([at for at in begun if at > asked]) <= 1
    assert len(begun) >= 1
    assert len(runtime.of(TextDelta)) <= before + 1
    assert ended.usage.completion == len(runtime.of(TextDelta))
    if moment is PrefillProgress:
        last = runtime.of(PrefillProgress)[-1]
        assert last.done < last.total


def test_twice_and_after_the_end_it_is_acknowledged_once(runtime: Runtime) -> None:
    slow(runtime).ask("a", "r", count=80)
    runtime.wait(TextDelta)
    for _ in range(3):
        runtime.host.cancel("r")
    stopped(runtime, "r")
    runtime.host.cancel("r")
    runtime.ask("a", "next", count=2)
    assert len(runtime.answer("next")) == 2
    assert len(ends(runtime, "r")) == 1


def test_while_its_model_is_loaded_it_is_acknowledged_at_once(runtime: Runtime) -> None:
    FAULTS.inject(Fault("slow_launch", value=1.0))
    runtime.load("a", "0:0:0")
    for name in ("kept", "dropped"):
        runtime.ask("a", name)
    runtime.wait(ModelLoading)
    asked = time.monotonic()
    runtime.host.cancel("dropped")
    ended = runtime.wait(Finished, lambda event: event.request_id == "dropped")
    assert time.monotonic() - asked < 0.1
    assert runtime.of(ModelLoaded) == []
    assert (ended.reason, ended.usage.prompt) == ("cancelled", 0)
    assert len(runtime.answer("kept")) == 12
    stopped(runtime, "dropped")
    said = [event for event in runtime.events if getattr(event, "request_id", "") == "dropped"]
    assert said == [Queued("dropped", 1, "loading"), ended]


def test_when_it_has_ended_by_itself_nothing_more_is_said(runtime: Runtime) -> None:
    runtime.loaded("a", "0:0:0")
    runtime.ask("a", "r", count=3)
    runtime.answer("r")
    runtime.host.cancel("r")
    runtime.ask("a", "next", count=3)
    runtime.answer("next")
    (ended,) = ends(runtime, "r")
    assert isinstance(ended, Finished)
    assert ended.reason == "length"
