"""What the rows of one batched inference cost beside as many inferences of one row."""

from __future__ import annotations

import statistics
import tempfile
import time
from pathlib import Path
from typing import Any

from runtime.device.active import activate
from runtime.simulator.build import build_artifact
from tests.bench.table import Row
from tests.simulator.checkpoints import make_checkpoint

ROWS = 8
CACHED = 64
"""Positions that each conversation holds already."""
ROUNDS = 7
SHAPES = {
    "hidden_size": 576,
    "intermediate_size": 1536,
    "num_hidden_layers": 10,
    "num_attention_heads": 9,
    "num_key_value_heads": 3,
    "vocab_size": 16384,
}
"""SmolLM2-135M's, of which a third is enough."""


def measure() -> tuple[float, float]:
    """Seconds of one decode step of `ROWS` conversations: together, and one after the other."""
    activate("simulated")
    with tempfile.TemporaryDirectory() as text:
        folder = Path(text)
        make_checkpoint(folder / "checkpoint", "llama", **SHAPES)
        build_artifact(folder / "checkpoint", folder / "artifact", max_batch_size=ROWS)
        model = _launch(folder / "artifact" / "llama.mxq")
        _infer(model, list(range(ROWS)), CACHED, 0)
        together, apart = [], []
        for _ in range(ROUNDS):
            # In turn, so that the machine's drift hits both.
            together.append(_time(model, [list(range(ROWS))]))
            apart.append(_time(model, [[slot] for slot in range(ROWS)]))
        model.dispose()
    return statistics.median(together), statistics.median(apart)


def rows(_models: Path) -> list[Row]:
    """The figures as lines of the table."""
    together, apart = measure()
    return [
        Row(f"{ROWS} rows in one inference", f"{together * 1000:.1f} ms"),
        Row(f"{ROWS} inferences of one row", f"{apart * 1000:.1f} ms"),
        Row(f"{ROWS} rows in one inference ÷ {ROWS} inferences of one row", f"{together / apart:.2f}"),
    ]


def _launch(path: Path) -> Any:
    import qbruntime

    model = qbruntime.Model(str(path))
    model.launch(qbruntime.Accelerator())
    return model


def _time(model: Any, calls: list[list[int]]) -> float:
    started = time.perf_counter()
    for slots in calls:
        _infer(model, slots, 1, CACHED)
    return time.perf_counter() - started


def _infer(model: Any, slots: list[int], length: int, cached: int) -> None:
    import numpy as np
    import qbruntime

    params = [
        qbruntime.BatchParam(sequence_length=length, cache_size=cached, cache_id=slot) for slot in slots
    ]
    width = SHAPES["hidden_size"]
    model.infer([np.ones((1, 1, length * len(slots), width), np.float32)], params=params)
