"""Boards, their memory, and turns on their cores."""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qbruntime

from runtime import simulator
from runtime.simulator.device import BOARDS, CoreGroup, Device, Fleet

ALL = frozenset(BOARDS["aries-rb"].cores)
CORE = [frozenset({core}) for core in BOARDS["aries-rb"].cores]


@pytest.fixture
def device() -> Device:
    return Fleet(BOARDS["aries-rb"], 1).devices[0]


class Turn:
    """A thread that wants cores, says when it has them, and holds them until told."""

    def __init__(self, device: Device, groups: list[CoreGroup]) -> None:
        self._device, self._groups = device, groups
        self.group: CoreGroup | None = None
        self.has_it, self.may_end = threading.Event(), threading.Event()
        self._thread = threading.Thread(target=self._run)
        self._thread.start()

    def _run(self) -> None:
        with self._device.cores(self._groups) as self.group:
            self.has_it.set()
            self.may_end.wait(10)

    def end(self) -> None:
        self.may_end.set()
        self._thread.join(10)

    @property
    def waits(self) -> bool:
        return not self.has_it.wait(0.05)


def test_a_model_takes_the_first_free_group(device: Device) -> None:
    turns = [Turn(device, CORE[:2]) for _ in range(3)]
    try:
        assert sum(turn.has_it.wait(1) for turn in turns) == 2
        running = [turn for turn in turns if turn.group is not None]
        (waiting,) = (turn for turn in turns if turn.group is None)
        assert {turn.group for turn in running} == set(CORE[:2])
        running[1].end()
        assert waiting.has_it.wait(1)
        assert waiting.group == running[1].group
    finally:
        for turn in turns:
            turn.end()


def test_a_wide_model_is_not_starved_by_narrow_ones(device: Device) -> None:
    narrow = Turn(device, CORE)
    assert narrow.has_it.wait(1)
    wide = Turn(device, [ALL])
    assert wide.waits
    late = Turn(device, CORE)
    try:
        assert late.waits, "seven cores are free, but the wide model came first"
        narrow.end()
        assert wide.has_it.wait(1)
        wide.end()
        assert late.has_it.wait(1)
    finally:
        for turn in (narrow, wide, late):
            turn.end()


def test_usage_counts_core_time(device: Device) -> None:
    with device.cores([ALL]):
        threading.Event().wait(0.02)
    usage = device.usage()
    assert usage.busy_ns >= 8 * 20e6
    assert (usage.cores, usage.memory_used, usage.memory_total) == (8, 0, 16 << 30)


def launch(path: Path) -> Any:
    model = qbruntime.Model(str(path))
    model.launch(qbruntime.Accelerator())
    return model


def test_memory_runs_out_and_comes_back(
    artifacts: dict[str, Path], boards: Callable[..., list[Device]]
) -> None:
    path = artifacts["llama"] / "llama.mxq"
    (device,) = boards()
    model = launch(path)
    one = device.usage().memory_used
    weights = sum(file.size for file in simulator.artifact.read_header(path).weights)
    kv = sum(info.size for info in model.get_cache_infos())
    assert one == pytest.approx(weights + kv, rel=0.02)
    model.dispose()
    model.dispose()
    assert device.usage().memory_used == 0

    (device,) = boards(memory_bytes=2 * one)
    first, second = launch(path), launch(path)
    with pytest.raises(qbruntime.QbRuntimeError, match="BadAlloc"):
        launch(path)
    second.dispose()
    third = launch(path)
    del third
    gc.collect()
    assert device.usage().memory_used == one, "a model that is dropped gives its memory back"
    assert np.isfinite(first.infer([np.ones((1, 1, 1, 48), np.float32)])[0]).all()
    assert simulator.usage() == (device.usage(),)


def test_the_vendors_backend_reports_a_full_device(
    artifacts: dict[str, Path], boards: Callable[..., list[Device]], load: Callable[..., Any]
) -> None:
    from mblt_npu.npu_backend import MobilintBackendAllocError

    (device,) = boards(memory_bytes=1000)
    with pytest.raises(MobilintBackendAllocError, match="BadAlloc") as error:
        load(artifacts["llama"])
    assert error.value.phase == "launch"
    assert device.usage().memory_used == 0


def test_several_boards(
    artifacts: dict[str, Path], boards: Callable[..., list[Device]], load: Callable[..., Any]
) -> None:
    """The vendor's backend spreads the models of a batch over the boards named."""
    devices = boards(2)
    model = load(artifacts["llama"], dev_no=[0, 1], max_batch_size=2)
    assert model.npu_backend.model_dev_no == [0, 1]
    assert [device.usage().memory_used > 0 for device in devices] == [True, True]


def test_regulus_has_one_core(
    checkpoints: dict[str, Path],
    boards: Callable[..., list[Device]],
    load: Callable[..., Any],
    tmp_path: Path,
) -> None:
    from runtime.simulator.build import build_artifact
    from tests.simulator.checkpoints import greedy, plain_greedy

    boards(1, board="regulus-rb")
    folder = tmp_path / "regulus"
    build_artifact(checkpoints["llama"], folder, core_modes=("single",), target_device="regulus-rb")
    model = load(folder)
    assert len(model.get_mxq_model().get_target_cores()) == 1
    assert greedy(model, [1, 2, 3], 8) == plain_greedy(checkpoints["llama"], [1, 2, 3], 8)
