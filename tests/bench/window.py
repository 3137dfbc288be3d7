"""Time to the first window, and how smooth the GUI thread stays while a model loads and while it answers."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from tests.bench.table import Goal, Row

STARTS = 5


def rows(models: Path) -> list[Row]:
    """The figures as lines of the table."""
    starts = [_probe(models, "first") for _ in range(STARTS + 1)][1:]  # the first one warms the disk
    bare, whole = _probe(models, "bare"), _probe(models, "whole")
    return [
        Row("time to first window", f"{statistics.median(start['seconds'] for start in starts):.2f} s"),
        Row("a bare timer's lateness while loading", _spread(bare["loading"])),
        Row(
            "GUI lateness while loading",
            _spread(whole["loading"]),
            Goal(max(whole["loading"]), at_most=300, unit="ms", name="max"),
        ),
        Row("a bare timer's lateness while answering", _spread(bare["generating"])),
        Row(
            "GUI lateness while answering",
            _spread(whole["generating"]),
            Goal(_at(sorted(whole["generating"]), 0.99), at_most=8, unit="ms", name="p99"),
        ),
    ]


def _probe(models: Path, part: str) -> dict[str, Any]:
    with tempfile.TemporaryDirectory(prefix="mblt-bench-") as home:
        started = time.monotonic_ns()
        done = subprocess.run(
            [sys.executable, "-m", "tests.bench.probe", str(models), home, part],
            capture_output=True,
            text=True,
            timeout=300,
            check=True,
        )
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    if "painted_ns" in report:
        report["seconds"] = (report["painted_ns"] - started) / 1e9
    return report


def _spread(lateness: list[float]) -> str:
    ordered = sorted(lateness)
    return f"p50 {_at(ordered, 0.5):.1f}, p99 {_at(ordered, 0.99):.1f}, max {ordered[-1]:.1f} ms"


def _at(ordered: list[float], share: float) -> float:
    return ordered[min(len(ordered) - 1, int(share * len(ordered)))]
