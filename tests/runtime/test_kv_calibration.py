"""The measurement after a load: what is measured, in which units, and that it gives way."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

import pytest

from runtime.config import EngineOptions, KvOptions, RuntimeConfig
from runtime.engine import Engine
from runtime.errors import DeviceLostError, RequestError
from runtime.kv_calibration import Calibration
from runtime.kv_costs import CostModel
from runtime.kv_store import KvRejectedError
from runtime.lane import CancelMarks
from runtime.layout import LayoutRequest
from runtime.messages import Event, Finished, Generate, LoadModel, TextPart, Turn
from runtime.sampling_params import SamplingRequest
from tests.runtime.scripted import ScriptedCache, ScriptedModel


@dataclass
class Timed:
    """A model whose chunks take 2 s, 1 s after warming up; loading takes 10 ms a position."""

    now: float = 0.0
    caches: list[ScriptedCache] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.model = ScriptedModel(context_length=600, prefill_chunk=128, on_step=self.chunk)
        self.model.new_cache = self.new_cache  # type: ignore[method-assign]
        self.costs = CostModel()
        self.calibration = Calibration(self.model, self.costs, self.load, (128, 256, 512), lambda: self.now)

    def new_cache(self) -> ScriptedCache:
        self.caches.append(ScriptedCache())
        return self.caches[-1]

    def chunk(self, calls: int) -> None:
        self.now += 2.0 if calls <= 4 else 1.0

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
    assert [timed.costs.prefill_seconds(size) for size in (128, 256, 512)] == [1.0, 2.0, 4.0]
    assert timed.costs.load_seconds(512_000) == pytest.approx(5.12)
    assert all(cache.discarded for cache in timed.caches)
    assert not timed.calibration.step()


def test_a_stop_frees_the_slot_and_measures_nothing() -> None:
    timed = Timed()
    for _ in range(5):
        assert timed.calibration.step()
    timed.calibration.stop()
    assert timed.caches[-1].discarded
    assert timed.costs.prefill_seconds(128) is None
    assert not timed.calibration.step()


@pytest.mark.parametrize("error", [KvRejectedError("cut short"), RequestError("no")])
def test_kv_or_a_template_that_is_refused_ends_the_measurement_and_nothing_else(error: Exception) -> None:
    timed = Timed()

    def refuse(_: object) -> float:
        raise error

    timed.load = refuse  # type: ignore[assignment, method-assign]
    timed.calibration = Calibration(timed.model, timed.costs, timed.load, (128,))
    while timed.calibration.step():
        pass
    assert timed.caches[-1].discarded
    assert timed.costs.prefill_seconds(128) is None


def test_a_device_that_is_lost_while_measuring_is_told() -> None:
    timed = Timed()

    def lose(_: object) -> float:
        raise DeviceLostError("gone")

    timed.load = lose  # type: ignore[assignment, method-assign]
    timed.calibration = Calibration(timed.model, timed.costs, timed.load, (128,))
    assert timed.calibration.step()
    with pytest.raises(DeviceLostError):
        timed.calibration.step()


def test_a_context_below_one_block_has_nothing_to_measure() -> None:
    calibration = Calibration(ScriptedModel(context_length=64), CostModel(), lambda _: 0.0, ())
    assert not calibration.step()


def test_a_request_goes_first_and_ends_the_measurement(tmp_path: Path) -> None:
    model = ScriptedModel(context_length=600, prefill_chunk=128)
    events: list[Event] = []
    config = RuntimeConfig(tmp_path, engine=EngineOptions(KvOptions(calibrate=True)))
    engine = Engine(config, events.append, CancelMarks(), load=lambda *_: model)
    engine.handle(LoadModel("scripted", "", LayoutRequest()))
    for _ in range(3):
        assert engine.step()
    before = len(model.calls)
    turns = (Turn("user", (TextPart("hello"),)),)
    engine.handle(Generate("r", "calibrated", "scripted", turns, SamplingRequest(), 1))
    while engine.step():
        pass
    assert [count for kind, count in model.calls[before:] if kind == "prefill"] == [5]
    assert [event.usage.prompt for event in events if isinstance(event, Finished)] == [5]
    engine.close()


def test_without_a_request_it_ends_by_itself(tmp_path: Path) -> None:
    model = ScriptedModel(context_length=600, prefill_chunk=128)
    config = RuntimeConfig(tmp_path, engine=EngineOptions(KvOptions(calibrate=True)))
    engine = Engine(config, lambda _: None, CancelMarks(), load=lambda *_: model)
    engine.handle(LoadModel("scripted", "", LayoutRequest()))
    while engine.step():
        pass
    assert sum(count for _, count in model.calls) == 3 * 512
    engine.close()


def test_the_block_and_the_lengths_of_the_settings_are_what_is_measured(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made: list[Noting] = []
    monkeypatch.setattr("runtime.kv_keeper.CostModel", lambda *rule: made.append(Noting(*rule)) or made[-1])
    model = ScriptedModel(context_length=600, prefill_chunk=64)
    options = KvOptions(calibrate=True, block=48, calibration_blocks=(5, 1, 3, 13))
    config = RuntimeConfig(tmp_path, engine=EngineOptions(options))
    engine = Engine(config, lambda _: None, CancelMarks(), load=lambda *_: model)
    engine.handle(LoadModel("scripted", "", LayoutRequest()))
    while engine.step():
        pass
    # 1, 3 and 5 blocks; 13 are more than the context holds.
    assert [count for _, count in model.calls] == 3 * [48, 64, 32, 64, 32]
    (costs,) = made
    assert (costs.block, costs.lengths) == (48, [48, 144, 240])
    engine.close()


class Noting(CostModel):
    """Remembers the lengths it is told about."""

    def __init__(self, *rule: float) -> None:
        super().__init__(*rule)  # type: ignore[arg-type]
        self.lengths: list[int] = []

    def observe_prefill(self, tokens: int, seconds: float) -> None:
        self.lengths.append(tokens)
        super().observe_prefill(tokens, seconds)
