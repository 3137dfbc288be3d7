"""The measurement after a load: what is measured, in which units, and that it gives way."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

import pytest

from runtime.answering.engine import Engine
from runtime.config import EngineOptions, KvOptions, RuntimeConfig
from runtime.errors import DeviceLostError, RequestError
from runtime.kv.calibration import MOST_INTERRUPTIONS, Calibration, Lending
from runtime.kv.costs import CostModel
from runtime.kv.prefix_cache import PrefixCache
from runtime.kv.store import KvRejectedError
from runtime.lanes.lane import CancelMarks
from runtime.layout.request import LayoutRequest
from runtime.messages import Event, Finished, Generate, LoadModel, TextPart, Turn
from runtime.sampling.params import SamplingRequest
from tests.runtime.answering.scripted import ScriptedCache, ScriptedModel
from tests.runtime.families.numbers import turn


class Noting(CostModel):
    """Remembers the lengths it is told about."""

    def __init__(self, *rule: Any) -> None:
        super().__init__(*rule)
        self.lengths: list[int] = []

    def observe_prefill(self, tokens: int, seconds: float) -> None:
        self.lengths.append(tokens)
        super().observe_prefill(tokens, seconds)


@dataclass
class Timed:
    """A model whose chunks take 1 s, the first 9 s; loading takes 10 ms a position."""

    now: float = 0.0
    caches: list[ScriptedCache] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.model = ScriptedModel(context_length=600, prefill_chunk=128, on_step=self.chunk)
        self.model.new_cache = self.new_cache  # type: ignore[method-assign]
        self.costs = Noting()
        self.calibration = self.measuring(128, 256, 512)

    def measuring(self, *sizes: int) -> Calibration:
        return Calibration(self.model, self.costs, self.load, sizes, lambda: 0, lambda: self.now)

    def new_cache(self) -> ScriptedCache:
        self.caches.append(ScriptedCache())
        return self.caches[-1]

    def chunk(self, calls: int) -> None:
        self.now += 9.0 if calls == 1 else 1.0

    def load(self, cache: ScriptedCache) -> float:
        assert not cache.is_resident
        cache.is_resident = True
        return 0.01 * cache.length


def test_every_size_is_measured_and_the_first_run_does_not_count() -> None:
    timed = Timed()
    steps = 0
    while timed.calibration.step():
        steps += 1
        timed.caches[-1].host_nbytes = 1000 * timed.caches[-1].length
    assert steps == 3 * (4 + 3)  # chunks, and a load after 1, 2 and 4 blocks
    assert timed.costs.lengths == [128, 256, 512]
    assert [timed.costs.prefill_seconds(size) for size in (128, 256, 512)] == [1.0, 2.0, 4.0]
    assert timed.costs.load_seconds(512_000) == pytest.approx(5.12)
    assert all(cache.discarded for cache in timed.caches)
    assert not timed.calibration.step()


def test_an_interruption_frees_the_slot_and_costs_the_run_that_is_not_finished() -> None:
    timed = Timed()
    for _ in range(3 * 2 + 2 + 1):  # 128 three times, each with a load; 256 once, and its second chunk
        assert timed.calibration.step()
    timed.calibration.interrupt()
    assert timed.caches[-1].discarded
    assert timed.costs.lengths == [128]
    assert timed.costs.prefill_seconds(128) == 1.0
    before = len(timed.model.calls)
    while timed.calibration.step():
        pass
    assert timed.costs.lengths == [128, 256, 512]
    assert [timed.costs.prefill_seconds(size) for size in (128, 256, 512)] == [1.0, 2.0, 4.0]
    assert len(timed.model.calls) - before == 1 + 2 + 3 * 2, "only what was left, and the beginning it needs"


def test_with_an_interruption_after_every_run_it_comes_to_its_end() -> None:
    timed = Timed()
    calibration = timed.measuring(128)
    for _ in range(3):
        assert timed.costs.lengths == []
        assert calibration.step()
        assert calibration.step()
        timed.caches[-1].host_nbytes = 1000
        calibration.interrupt()
    assert timed.costs.lengths == [128]
    assert not calibration.step()


def test_it_is_not_begun_again_for_ever() -> None:
    timed = Timed()
    for _ in range(MOST_INTERRUPTIONS):
        assert timed.calibration.step()
        timed.calibration.interrupt()
        timed.calibration.interrupt()  # nothing is under way: it does not count
    assert not timed.calibration.step()
    assert timed.costs.lengths == []


def test_a_model_that_never_continues_a_prompt_is_not_measured(caplog: pytest.LogCaptureFixture) -> None:
    timed = Timed()
    timed.model.reusable_prefix = lambda _prompt, _length: 0  # type: ignore[method-assign]
    assert not timed.calibration.step()
    assert timed.model.calls == []
    assert caplog.records == []


def test_without_a_slot_to_borrow_nothing_is_measured() -> None:
    timed = Timed()
    calibration = Calibration(timed.model, timed.costs, timed.load, (128,), lambda: None)
    assert not calibration.step()
    assert not calibration.step()
    assert timed.model.calls == []


@pytest.mark.parametrize("error", [KvRejectedError("cut short"), RequestError("no")])
def test_kv_or_a_template_that_is_refused_ends_the_measurement_and_nothing_else(error: Exception) -> None:
    timed = Timed()

    def refuse(_: object) -> float:
        raise error

    timed.load = refuse  # type: ignore[assignment, method-assign]
    timed.calibration = timed.measuring(128)
    while timed.calibration.step():
        pass
    assert timed.caches[-1].discarded
    assert timed.costs.prefill_seconds(128) is None


def test_a_device_that_is_lost_while_measuring_is_told() -> None:
    timed = Timed()

    def lose(_: object) -> float:
        raise DeviceLostError("gone")

    timed.load = lose  # type: ignore[assignment, method-assign]
    timed.calibration = timed.measuring(128)
    assert timed.calibration.step()
    with pytest.raises(DeviceLostError):
        timed.calibration.step()


def test_a_context_below_one_block_has_nothing_to_measure() -> None:
    calibration = Timed().measuring()
    assert not calibration.step()


def test_a_request_goes_first_and_the_rest_is_measured_afterwards(tmp_path: Path) -> None:
    model = ScriptedModel(context_length=600, prefill_chunk=128)
    events: list[Event] = []
    config = RuntimeConfig(tmp_path, engine=EngineOptions(KvOptions(calibrate=True)))
    engine = Engine(config, events.append, CancelMarks(), load=lambda *_: model)
    engine.handle(LoadModel("scripted", "", LayoutRequest()))
    for _ in range(3):
        assert turn(engine)
    before = len(model.calls)
    turns = (Turn("user", (TextPart("hello"),)),)
    engine.handle(Generate("r", "calibrated", "scripted", turns, SamplingRequest(), 1))
    while turn(engine):
        pass
    assert model.calls[before] == ("prefill", 5)
    assert [event.usage.prompt for event in events if isinstance(event, Finished)] == [5]
    after = [count for kind, count in model.calls[before + 1 :] if kind == "prefill"]
    assert after == [128] * (2 + 3 + 6)  # one run of 128 tokens was finished
    engine.close()


def test_without_a_request_it_ends_by_itself(tmp_path: Path) -> None:
    model = ScriptedModel(context_length=600, prefill_chunk=128)
    config = RuntimeConfig(tmp_path, engine=EngineOptions(KvOptions(calibrate=True)))
    engine = Engine(config, lambda _: None, CancelMarks(), load=lambda *_: model)
    engine.handle(LoadModel("scripted", "", LayoutRequest()))
    while turn(engine):
        pass
    assert sum(count for _, count in model.calls) == 3 * 512
    engine.close()


def test_the_block_and_the_lengths_of_the_settings_are_what_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Noting] = []
    monkeypatch.setattr("runtime.kv.keeper.CostModel", lambda *rule: made.append(Noting(*rule)) or made[-1])
    model = ScriptedModel(context_length=600, prefill_chunk=64)
    options = KvOptions(calibrate=True, block=48, calibration_blocks=(5, 1, 3, 13))
    config = RuntimeConfig(tmp_path, engine=EngineOptions(options))
    engine = Engine(config, lambda _: None, CancelMarks(), load=lambda *_: model)
    engine.handle(LoadModel("scripted", "", LayoutRequest()))
    while turn(engine):
        pass
    # 1, 3 and 5 blocks; 13 are more than the context holds.
    assert [count for _, count in model.calls] == 3 * [48] + 6 * [64, 32]
    (costs,) = made
    assert (costs.block, costs.lengths) == (48, [48, 144, 240])
    engine.close()


@dataclass
class Shared:
    """Conversations with their KV on two slots, and what was put back onto them."""

    limit: int = 1000
    loaded: list[object] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.caches = PrefixCache(ScriptedCache, 16, self.limit)
        self.lending = Lending(self.caches, 2, self.load)

    def load(self, cache: ScriptedCache) -> float:
        cache.is_resident = True
        self.loaded.append(cache)
        return 0.0

    def talk(self, name: str, slot: int) -> ScriptedCache:
        cache = cast("ScriptedCache", self.caches.open(name).cache)
        cache.length, cache.host_nbytes, cache.is_resident = 5, 600, True
        self.caches.let_go(name)
        self.lending.placed(name, slot)
        return cache


def test_a_free_slot_is_borrowed_before_anybody_has_to_make_room() -> None:
    shared = Shared()
    assert shared.lending.borrow() == 0
    cache = shared.talk("a", 0)
    assert shared.lending.borrow() == 1
    shared.lending.give_back()
    assert cache.is_resident
    assert shared.loaded == []


def test_the_conversation_used_longest_ago_makes_room_and_has_its_kv_back() -> None:
    shared = Shared(limit=10_000)
    caches = [shared.talk("a", 1), shared.talk("b", 0)]
    assert shared.lending.borrow() == 1
    assert [cache.is_resident for cache in caches] == [False, True]
    shared.lending.give_back(only_to="b")
    assert shared.loaded == []
    shared.lending.give_back(only_to="a")
    shared.lending.give_back()
    assert shared.loaded == [caches[0]]


@pytest.mark.parametrize(("name", "slot"), [("c", 1), ("a", 0)], ids=["another is there", "it is elsewhere"])
def test_kv_is_not_put_back_once_its_slot_has_changed_hands(name: str, slot: int) -> None:
    shared = Shared(limit=10_000)
    shared.talk("a", 1), shared.talk("b", 0)
    assert shared.lending.borrow() == 1
    shared.talk(name, slot)
    shared.lending.give_back()
    assert shared.loaded == []


def test_nobody_makes_room_when_host_memory_has_none() -> None:
    """Not even for a moment: a copy in host memory would count, and get somebody's KV dropped later."""
    shared = Shared(limit=1200)
    caches = [shared.talk("a", 0), shared.talk("b", 1)]
    caches[0].host_nbytes = 0  # as many positions as the other, so as many bytes
    caches[1].host_nbytes = 601
    assert shared.lending.borrow() is None
    assert [cache.is_resident for cache in caches] == [True, True]


def test_kv_that_turns_out_larger_than_there_is_room_for_is_put_back_at_once() -> None:
    shared = Shared(limit=1200)
    caches = [shared.talk("a", 0), shared.talk("b", 1)]
    for cache in caches:
        cache.host_nbytes = 0

    def grow() -> None:
        caches[0].host_nbytes, caches[0].is_resident = 1201, False

    caches[0].offload = grow  # type: ignore[method-assign]
    assert shared.lending.borrow() is None
    assert shared.loaded == [caches[0]]
    assert [name for name, _ in shared.caches.entries()] == ["b", "a"]


def test_a_forgotten_conversations_slot_is_free() -> None:
    shared = Shared(limit=10_000)
    shared.talk("a", 0), shared.talk("b", 1)
    shared.caches.forget("b")
    assert shared.lending.borrow() == 1
    assert shared.lending.borrow() == 1
    assert shared.loaded == []


def test_kv_that_cannot_be_put_back_is_left_to_its_next_answer(caplog: pytest.LogCaptureFixture) -> None:
    shared = Shared(limit=10_000)
    shared.talk("a", 0), shared.talk("b", 1)
    assert shared.lending.borrow() == 0

    def refuse(_: object) -> float:
        raise KvRejectedError("cut short")

    shared.lending._load = refuse
    shared.lending.give_back()
    assert "cut short" in caplog.text
