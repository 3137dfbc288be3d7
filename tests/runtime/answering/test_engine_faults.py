"""What the engine does when a call of the device fails: the model goes on unless the device is lost."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import DeviceError, DeviceLostError, DeviceMemoryError
from runtime.families.base import Logits, PromptChunk
from runtime.messages import Failed, Finished, Generate, ModelFailed, TextPart, Turn, UnloadModel
from runtime.messages.chat import Priority
from runtime.sampling.params import SamplingRequest
from runtime.tracing.recorder import RECORDER
from tests.runtime.answering.scripted import ScriptedCache, ScriptedModel
from tests.runtime.answering.test_engine import Bench

REFUSED = DeviceError("The device refused Scripted.", remedy="Load the model again.")


class Picky(ScriptedModel):
    """Fails a call whenever one of the caches in it is named bad; never ends an answer by itself."""

    def __init__(self, **options: Any) -> None:
        super().__init__(script=(1, 2, 3, 4, 5, 6), **options)
        self.bad: dict[int, Exception] = {}
        """By slot, what a call with it ends with."""

    def prefill(self, chunks: Sequence[PromptChunk]) -> list[Logits]:
        self._meet([chunk.cache for chunk in chunks])
        return super().prefill(chunks)

    def decode(self, token_ids: Sequence[int], caches: Sequence[ScriptedCache]) -> list[Logits]:
        self._meet(caches)
        return super().decode(token_ids, caches)

    def _meet(self, caches: Sequence[Any]) -> None:
        for cache in caches:
            if cache.slot in self.bad:
                self.calls.append(("failed", len(caches)))
                raise self.bad[cache.slot]


def ask(bench: Bench, name: str, prompt: str = "abc", priority: Priority = "interactive") -> None:
    turns = (Turn("user", (TextPart(prompt),)),)
    sampling = SamplingRequest(max_tokens=6)
    bench.engine.handle(Generate(name, name, "scripted", turns, sampling, time.perf_counter_ns(), priority))


def begin(model: Picky, folder: Path, names: str) -> Bench:
    """Every name past its prompt, on the slot of its place."""
    bench = Bench(model, folder)
    for name in names:
        ask(bench, name)
    while any(not bench.text(name) for name in names):
        bench.engine.step()
    return bench


@pytest.mark.parametrize(
    "error", [REFUSED, DeviceMemoryError("Scripted does not fit.", remedy="Unload another."), KeyError("x")]
)
@pytest.mark.parametrize("at", [0, 1, 2])
def test_of_answers_computed_together_only_the_one_at_fault_fails(
    tmp_path: Path, error: Exception, at: int
) -> None:
    model = Picky(slots=3)
    bench = begin(model, tmp_path, "abc")
    model.bad[at] = error
    bench.run()
    assert [event.request_id for event in bench.of(Failed)] == ["abc"[at]]
    assert sorted(event.request_id for event in bench.of(Finished)) == sorted({*"abc"} - {"abc"[at]})
    assert all(bench.text(event.request_id) == "ABCDEF" for event in bench.of(Finished))
    assert not bench.of(ModelFailed)
    model.bad.clear()
    ask(bench, "abc"[at], "again")
    bench.run()
    assert bench.of(Finished, "abc"[at])[0].usage.cached == 0  # what a failed call left is not trusted


def test_of_prompts_read_together_only_the_one_at_fault_fails(tmp_path: Path) -> None:
    model = Picky(slots=2, copies=2)
    model.bad[1] = REFUSED
    bench = Bench(model, tmp_path)
    ask(bench, "good", "abcdefgh")
    ask(bench, "bad", "abcdefgh")
    bench.run()
    assert ("failed", 2) in model.calls
    assert [event.request_id for event in bench.of(Failed)] == ["bad"]
    assert bench.text("good") == "ABCDEF"
    assert not bench.of(ModelFailed)


def test_a_device_lost_while_each_is_tried_alone_ends_them_all_once(tmp_path: Path) -> None:
    model = Picky(slots=3)
    bench = begin(model, tmp_path, "abc")
    model.bad = {0: KeyError("first, together"), 1: DeviceLostError("Lost.", remedy="Check the cable.")}
    bench.run()
    ended = {event.request_id: event.error.code for event in bench.of(Failed)}
    assert ended == {"a": "internal", "b": "device.lost", "c": "device.lost"}
    assert len(bench.of(Failed)) == 3
    assert len(bench.of(ModelFailed)) == 1
    assert model.disposed


def test_who_is_not_wanted_any_more_is_not_tried_alone(tmp_path: Path) -> None:
    model = Picky(slots=3)
    bench = begin(model, tmp_path, "abc")
    model.bad[0] = REFUSED
    fail = model._meet

    def stop_others(caches: Sequence[Any]) -> None:
        bench.marks.cancel("b")
        bench.marks.cancel("c")
        fail(caches)

    model._meet = stop_others  # type: ignore[method-assign]
    model.calls.clear()
    bench.engine.step()
    assert model.calls == [("failed", 3), ("failed", 1)]
    bench.run()
    assert [(event.request_id, event.reason) for event in bench.of(Finished)] == [
        ("b", "cancelled"),
        ("c", "cancelled"),
    ]


def test_a_model_that_cannot_be_given_back_is_reported_all_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Picky()
    bench = begin(model, tmp_path, "a")
    model.bad[0] = DeviceLostError("Lost.", remedy="Check the cable.")

    def refuse() -> None:
        raise OSError("gone")

    monkeypatch.setattr(model, "dispose", refuse)
    with pytest.raises(OSError, match="gone"):
        bench.run()
    assert [event.error.code for event in bench.of(ModelFailed)] == ["device.lost"]


def test_a_cache_that_cannot_be_given_back_does_not_keep_the_model_on_the_device(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = Picky()
    bench = begin(model, tmp_path, "a")

    def refuse(_cache: ScriptedCache) -> None:
        raise OSError("gone")

    monkeypatch.setattr(ScriptedCache, "discard", refuse)
    with pytest.raises(OSError, match="gone"):
        bench.engine.handle(UnloadModel("scripted"))
    assert model.disposed


def test_the_time_without_a_slot_counts_as_waiting_and_not_as_writing(tmp_path: Path) -> None:
    model = Picky(slots=1, on_step=lambda _: time.sleep(0.01))
    bench = Bench(model, tmp_path)
    ask(bench, "behind", priority="background")
    while len(bench.text("behind")) < 3:
        bench.engine.step()
    ask(bench, "quick", "a" * 40)
    bench.run()
    behind, quick = (bench.of(Finished, name)[0].timings for name in ("behind", "quick"))
    assert quick.prefill > 0.09
    assert behind.queue > quick.prefill
    assert behind.decode < behind.total - behind.queue
    assert behind.decode < quick.prefill


def test_an_answer_stopped_while_it_waits_counts_that_as_waiting(tmp_path: Path) -> None:
    model = Picky(slots=1, on_step=lambda _: time.sleep(0.01))
    bench = Bench(model, tmp_path)
    ask(bench, "behind", "b" * 30, priority="background")
    for _ in range(3):
        bench.engine.step()
    ask(bench, "quick", "a" * 40)
    while not bench.text("quick"):
        bench.engine.step()
    bench.marks.cancel("behind")
    bench.run()
    timings = bench.of(Finished, "behind")[0].timings
    assert timings.queue > 0.09
    assert timings.prefill < 0.09


def test_a_recording_holds_why_each_answer_began_when_it_did(make: Callable[..., Bench]) -> None:
    bench = make(slots=1)
    window = RECORDER.start(max_events=10_000, max_seconds=60)
    try:
        ask(bench, "behind", "b" * 30, priority="background")
        bench.engine.step()
        bench.engine.step()
        ask(bench, "quick")
        bench.run()
    finally:
        RECORDER.stop()
    admitted = [(event[5], event[-1]["reason"]) for event in window.drain() if event[1] == "admit"]
    assert admitted == [
        ("behind", "a slot was free"),
        ("quick", "a background answer gave way"),
        ("behind", "a slot was free"),
    ]


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Bench]:
    return lambda **options: Bench(ScriptedModel(**options), tmp_path)
