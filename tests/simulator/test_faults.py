"""Failures on demand."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qbruntime

from runtime.errors import SettingError
from runtime.families.vendor import new_slot_cache
from runtime.simulator.device import Device
from runtime.simulator.faults import ENVIRONMENT, Fault, Faults, inject, parse

ONE = np.ones((1, 1, 1, 48), np.float32)


@pytest.fixture
def model(artifacts: dict[str, Path], boards: Callable[..., list[Device]]) -> Any:
    boards()
    model = qbruntime.Model(str(artifacts["llama"] / "llama.mxq"))
    model.launch(qbruntime.Accelerator())
    return model


def error(code: str) -> Any:
    return pytest.raises(qbruntime.QbRuntimeError, match=f"^{code} occurred")


def test_a_slow_core(model: Any) -> None:
    inject(Fault("slow_core", value=0.1, nth=2))
    times = []
    for _ in range(3):
        started = time.monotonic()
        model.infer([ONE])
        times.append(time.monotonic() - started)
    assert times[1] > 0.1 > max(times[0], times[2])


def test_a_stall_ends_in_the_runtimes_time_out(model: Any) -> None:
    inject(Fault("stall", value=0.05))
    with error("Acc_NPUTimeout"):
        model.infer([ONE])
    assert model.infer([ONE]) is not None


def test_the_device_goes_away_in_the_middle_and_comes_back(model: Any) -> None:
    inject(Fault("device_lost", value=0.2, nth=2))
    model.infer([ONE])
    for _ in range(2):
        with error("Model_NotAlive"):
            model.infer([ONE])
    assert qbruntime.type.get_available_devices() == []
    with error("Acc_DeviceNotFound"):
        qbruntime.Accelerator()
    with error("Driver_NotInitialized"):
        qbruntime.Accelerator("aries-rb", 0)

    time.sleep(0.25)
    with error("Model_NotAlive"):
        model.infer([ONE])  # what ran on it is gone
    model.dispose()
    model.launch(qbruntime.Accelerator())
    assert np.isfinite(model.infer([ONE])[0]).all()


def test_a_launch_that_does_not_fit(artifacts: dict[str, Path]) -> None:
    inject(Fault("out_of_memory"))
    model = qbruntime.Model(str(artifacts["llama"] / "llama.mxq"))
    accelerator = qbruntime.Accelerator()
    with error("BadAlloc"):
        model.launch(accelerator)
    model.launch(accelerator)


def test_logits_that_are_not_numbers(model: Any) -> None:
    inject(Fault("nan_logits", nth=2, times=2))
    finite = [bool(np.isfinite(model.infer([ONE])[0]).any()) for _ in range(4)]
    assert finite == [True, False, False, True]


@pytest.mark.parametrize(
    ("kind", "code"), [("corrupt_kv", "InternalError"), ("truncated_kv", "Model_BufferSizeMismatched")]
)
def test_a_damaged_kv_blob_is_refused_and_the_slot_left_alone(llama: Any, kind: str, code: str) -> None:
    from tests.simulator.test_conversation import feed

    native = llama.get_mxq_model()
    feed(llama, new_slot_cache(llama), [1, 2, 3])
    inject(Fault(kind))
    damaged = native.dump_cache_memory()
    feed(llama, new_slot_cache(llama), [7, 8])
    before = native.dump_cache_memory()
    with error(code):
        native.load_cache_memory(damaged)
    assert native.dump_cache_memory() == before


def test_blobs_of_another_network(llama: Any, load: Callable[..., Any], artifacts: dict[str, Path]) -> None:
    other = load(artifacts["qwen3"], core_mode="single", target_cores=["0:0:1"])
    blobs = other.get_mxq_model().dump_cache_memory()
    native = llama.get_mxq_model()
    with error("Model_BrokenMXQ"):
        native.load_cache_memory(blobs)
    with error("Model_BufferSizeMismatched"):
        native.load_cache_memory([b"short"] * len(blobs))
    with error("Model_FailedToOpenCacheFile"):
        native.load_cache_memory_from(str(artifacts["llama"]))


def test_a_blob_of_zeros_clears_the_slot(llama: Any) -> None:
    from tests.simulator.test_conversation import feed

    native = llama.get_mxq_model()
    feed(llama, new_slot_cache(llama), [1, 2, 3])
    native.load_cache_memory([bytes(info.size) for info in native.get_cache_infos()])
    assert not np.frombuffer(native.dump_cache_memory()[0][20:], np.float32).any()


def test_the_environment_variable() -> None:
    assert parse("") == []
    assert parse(" nan_logits@3x2, slow_core=0.05x1000 ,device_lost=5@12") == [
        Fault("nan_logits", nth=3, times=2),
        Fault("slow_core", value=0.05, times=1000),
        Fault("device_lost", value=5, nth=12),
    ]
    for wrong in (
        "gremlins",
        "stall=soon",
        "nan_logits@0",
        "stall@",
        "stall=1=2",
        "nan_logits x2",
        "stallx0",
    ):
        with pytest.raises(SettingError, match=ENVIRONMENT) as refusal:
            parse(wrong)
        assert refusal.value.remedy


def test_a_process_started_with_it() -> None:
    code = (
        "from runtime import simulator; simulator.install()\n"
        "assert [simulator.FAULTS.strike('nan_logits') for _ in range(3)] == [None, 0.0, None]\n"
    )
    environment = {ENVIRONMENT: "nan_logits@2", "PATH": ""}
    subprocess.run([sys.executable, "-c", code], check=True, env=environment)


def test_faults_of_one_kind_follow_each_other() -> None:
    faults = Faults()
    faults.inject(Fault("stall", value=1))
    faults.inject(Fault("stall", value=2, nth=2))
    assert [faults.strike("stall") for _ in range(4)] == [1, None, 2, None]
    assert faults.strike("nan_logits") is None
