"""The event trace, byte for byte, and what two models on one core look like in it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qbruntime

from runtime.simulator import events
from runtime.simulator.faults import Fault, inject

FAILING_LOADS = """
import sys, qbruntime
qbruntime.set_log_level(qbruntime.LogLevel.Off)
trace, missing = sys.argv[1:]
assert qbruntime.start_tracing_events(trace)
assert not open(trace).read()
for _ in range(2):
    try:
        qbruntime.Model(missing)
    except qbruntime.QbRuntimeError:
        pass
assert qbruntime.start_tracing_events("/nowhere/else")
qbruntime.stop_tracing_events()
"""
SIMULATE = "from runtime import simulator; simulator.install()\n"


def run(code: str, *arguments: str) -> None:
    subprocess.run([sys.executable, "-c", code, *arguments], check=True, stdout=subprocess.DEVNULL)


def record(path: Path, work: Callable[[], object]) -> list[dict[str, Any]]:
    assert qbruntime.start_tracing_events(str(path))
    work()
    qbruntime.stop_tracing_events()
    return json.loads(path.read_text())


def launched(artifacts: dict[str, Path], cluster: int = 0, core: int = 0) -> Any:
    config = qbruntime.ModelConfig()
    where = qbruntime.CoreId(qbruntime.Cluster(cluster_of(cluster)), qbruntime.Core(core_of(core)))
    config.set_single_core_mode(None, [where])
    model = qbruntime.Model(str(artifacts["llama"] / "llama.mxq"), config)
    model.launch(qbruntime.Accelerator())
    return model


def cluster_of(number: int) -> Any:
    return getattr(qbruntime.Cluster, f"Cluster{number}").value


def core_of(number: int) -> Any:
    return getattr(qbruntime.Core, f"Core{number}").value


def infer(model: Any) -> None:
    model.infer([np.ones((1, 1, 1, 48), np.float32)])


def test_the_file_is_the_real_runtimes_but_for_the_numbers(tmp_path: Path) -> None:
    texts = []
    for name, prologue in (("real", ""), ("simulated", SIMULATE)):
        path = tmp_path / f"{name}.json"
        run(prologue + FAILING_LOADS, str(path), str(tmp_path / "missing.mxq"))
        texts.append(re.sub(r'"(pid|tid|ts)":\d+', r'"\1":0', path.read_text()))
    assert texts[0] == texts[1]
    assert texts[0].count('"load mxq"') == 2, "begun and never ended"


@pytest.mark.parametrize("ending", ["", "qbruntime.stop_tracing_events()"])
def test_an_empty_window_and_a_forgotten_stop(tmp_path: Path, ending: str) -> None:
    texts = set()
    for name, prologue in (("real", ""), ("simulated", SIMULATE)):
        path = tmp_path / f"{name}.json"
        start = "import sys, qbruntime; qbruntime.start_tracing_events(sys.argv[1])\n"
        run(prologue + start + ending, str(path))
        texts.add(path.read_text())
    assert texts == {"[\n\n]\n"}


def test_a_killed_process_leaves_whole_flushes_only(tmp_path: Path) -> None:
    code = SIMULATE + (
        "import os, sys, qbruntime\n"
        "from runtime.simulator.events import TRACE, FLUSH_EVERY\n"
        "qbruntime.start_tracing_events(sys.argv[1])\n"
        "for _ in range(FLUSH_EVERY // 2 - 1): TRACE.begin('infer'); TRACE.end('infer')\n"
        "assert os.path.getsize(sys.argv[1]) == 0\n"
        "for _ in range(3): TRACE.begin('infer'); TRACE.end('infer')\n"
        "os._exit(0)\n"
    )
    path = tmp_path / "trace.json"
    run(code, str(path))
    text = path.read_text()
    assert text.startswith("[\n{")
    assert text.endswith("}")
    assert len(json.loads(text + "]")) == events.FLUSH_EVERY


def test_starting_again_and_impossible_paths(tmp_path: Path) -> None:
    first, second = tmp_path / "first ünicode.json", tmp_path / "second.json"
    assert qbruntime.start_tracing_events(str(first))
    assert qbruntime.start_tracing_events(str(second))
    qbruntime.stop_tracing_events()
    qbruntime.stop_tracing_events()
    assert first.read_text() == "[\n\n]\n"
    assert not second.exists()
    for path in ("", str(tmp_path), "/nowhere/trace.json", "\0"):
        assert not qbruntime.start_tracing_events(path)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        qbruntime.start_tracing_events(first)


def test_an_inference_nests_and_shares_the_clock(artifacts: dict[str, Path], tmp_path: Path) -> None:
    model = launched(artifacts)
    before = time.monotonic_ns() // 1000
    found = record(tmp_path / "trace.json", lambda: infer(model))
    after = time.monotonic_ns() // 1000

    assert [(event["ph"], event["name"]) for event in found] == [
        ("B", "infer"),
        ("B", "wait core"),
        ("E", "wait core"),
        ("B", "lock core"),
        ("E", "lock core"),
        ("B", "copy to npu"),
        ("E", "copy to npu"),
        ("B", "run npu"),
        ("E", "run npu"),
        ("B", "copy from npu"),
        ("E", "copy from npu"),
        ("B", "unlock core"),
        ("E", "unlock core"),
        ("E", "infer"),
    ]
    times = [event["ts"] for event in found]
    assert times == sorted(times)
    assert before <= times[0] <= times[-1] <= after
    assert {event["tid"] for event in found} == {threading.get_native_id()}
    assert set(found[0]) == {"name", "cat", "ph", "pid", "tid", "ts"}


def test_recording_across_load_launch_and_kv(artifacts: dict[str, Path], tmp_path: Path) -> None:
    def work() -> None:
        model = launched(artifacts)
        infer(model)
        model.load_cache_memory(model.dump_cache_memory())

    found = record(tmp_path / "trace.json", work)
    begun = [event["name"] for event in found if event["ph"] == "B"]
    assert begun[:3] == ["create model", "load mxq", "launch"]
    assert begun[-2:] == ["dump cache memory", "load cache memory"]
    assert sorted(begun) == sorted(event["name"] for event in found if event["ph"] == "E")


def spans(found: list[dict[str, Any]], name: str) -> list[tuple[int, int]]:
    """(start, end) of the spans of that name, in order of their start."""
    open_at: dict[int, int] = {}
    result = []
    for event in (event for event in found if event["name"] == name):
        if event["ph"] == "B":
            open_at[event["tid"]] = event["ts"]
        else:
            result.append((open_at.pop(event["tid"]), event["ts"]))
    return sorted(result)


@pytest.mark.parametrize("same_core", [True, False])
def test_two_models_on_one_core_wait_and_on_two_run_together(
    artifacts: dict[str, Path], tmp_path: Path, same_core: bool
) -> None:
    hold = 0.3
    models = [launched(artifacts), launched(artifacts, core=0 if same_core else 3)]
    inject(Fault("slow_core", value=hold, times=2))
    threads = [threading.Thread(target=infer, args=(model,)) for model in models]

    def work() -> None:
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()

    found = record(tmp_path / "trace.json", work)
    first, second = spans(found, "run npu")
    longest_wait = max(end - start for start, end in spans(found, "wait core")) / 1e6
    if same_core:
        assert second[0] >= first[1], "one after the other"
        assert longest_wait > hold / 2
    else:
        assert second[0] < first[1], "at the same time"
        assert longest_wait < hold
