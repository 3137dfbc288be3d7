"""What a token costs the host outside `infer`: engine and vendor's classes on a model whose calls are free.

The model is a simulated artifact like any other, loaded like any other; only `qbruntime.Model.infer` is
replaced by one that gives out logits that lie ready. Scheduling, the vendor's forward, sampling, detokenising
and posting are the real ones. At the vocabularies of SmolLM2 (49k) and Qwen2 (152k).
"""

from __future__ import annotations

import shutil
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

from runtime.answering.engine import Engine
from runtime.catalog.entries import DEMO_CHAT
from runtime.config import EngineOptions, KvOptions, RuntimeConfig
from runtime.device.active import activate
from runtime.families import load_model
from runtime.families.base import FamilyModel
from runtime.families.decode_stream import DecodeStream
from runtime.lanes.lane import CancelMarks
from runtime.layout.request import LayoutRequest
from runtime.messages import Event, Finished, Generate, LoadModel, TextPart, Turn
from runtime.sampling.params import SamplingRequest
from runtime.simulator.build import build_artifact
from tests.bench.table import Goal, Row
from tests.simulator.checkpoints import make_checkpoint

PROMPT = "The lighthouse keeper wrote down every ship that passed. " * 45
"""About 500 tokens."""
TOKENS = 400
WARM_UP = 50
VOCABULARIES = ((49_152, "49k", 0.6), (151_936, "152k", 1.5))
"""Size, name, and the most milliseconds per token."""

GREEDY = SamplingRequest(temperature=0.0, repetition_penalty=1.0, min_tokens=TOKENS, max_tokens=TOKENS)
# Without top-k and min-p, which make it cheaper: the nucleus has to be found in the whole vocabulary.
SAMPLED = SamplingRequest(
    temperature=0.8,
    top_p=0.95,
    repetition_penalty=1.1,
    presence_penalty=0.3,
    frequency_penalty=0.2,
    seed=1,
    min_tokens=TOKENS,
    max_tokens=TOKENS,
)


class FreeCalls:
    """Stands in for `infer`; adds up the time that passes in it."""

    def __init__(self, vocab_size: int) -> None:
        draws = np.random.default_rng(7)
        self._logits = [draws.normal(0, 3, (1, 1, 1, vocab_size)).astype(np.float32) for _ in range(16)]
        self._count = 0
        self.inside = 0.0

    def __call__(self, *_: Any) -> list[Any]:
        """Logits of the next token, whatever is asked."""
        started = time.perf_counter()
        self._count += 1
        answer = [self._logits[self._count % len(self._logits)]]
        self.inside += time.perf_counter() - started
        return answer


@contextmanager
def instead_of_infer(calls: FreeCalls) -> Iterator[None]:
    """Every model's `infer` is free meanwhile."""
    import qbruntime

    real = qbruntime.Model.infer
    qbruntime.Model.infer = lambda _model, *args, **options: calls(*args)
    try:
        yield
    finally:
        qbruntime.Model.infer = real


class FoldedStream(DecodeStream):
    """The real stream; ids beyond the tokenizer's vocabulary are folded into it."""

    def __init__(self, tokenizer: Any) -> None:
        super().__init__(SimpleNamespace(backend_tokenizer=tokenizer))
        self._size = tokenizer.get_vocab_size()

    def push(self, token_id: int) -> str:
        return super().push(token_id % self._size)


def artifact(models: Path, folder: Path, vocab_size: int) -> Path:
    """A small Llama of that vocabulary, with the demo model's tokenizer."""
    checkpoint = make_checkpoint(
        folder / "checkpoint", "llama", vocab_size=vocab_size, max_position_embeddings=2048
    )
    for path in (models / DEMO_CHAT).glob("*token*.json"):
        shutil.copy(path, checkpoint)
    build_artifact(checkpoint, folder / "artifact")
    return folder / "artifact"


def measure(folder: Path, vocab_size: int, kinds: dict[str, SamplingRequest]) -> dict[str, list[float]]:
    """Milliseconds outside `infer` of each decode step after the warm-up."""
    events: list[Event] = []

    def load(*args: Any) -> FamilyModel:
        model = load_model(*args)
        tokenizer = model._tokenizer.backend_tokenizer  # type: ignore[attr-defined]
        model.token_stream = lambda: FoldedStream(tokenizer)  # type: ignore[method-assign]
        return model

    options = EngineOptions(KvOptions(calibrate=False))
    engine = Engine(RuntimeConfig(folder, "simulated", options), events.append, CancelMarks(), load=load)
    engine.open()
    engine.handle(LoadModel("free", str(folder), LayoutRequest()))
    calls = FreeCalls(vocab_size)
    spent = {}
    with instead_of_infer(calls):
        for kind, sampling in kinds.items():
            spent[kind] = _steps(engine, calls, kind, sampling)[WARM_UP:]
    engine.close()
    ended = [event.usage.completion for event in events if isinstance(event, Finished)]
    assert ended == [TOKENS] * len(kinds), events[-3:]
    return spent


def _steps(engine: Engine, calls: FreeCalls, kind: str, sampling: SamplingRequest) -> list[float]:
    turns = (Turn("user", (TextPart(PROMPT),)),)
    engine.handle(Generate(kind, kind, "free", turns, sampling, time.perf_counter_ns()))
    spent = []
    more = True
    while more:
        calls.inside, started = 0.0, time.perf_counter()
        more = engine.step()
        spent.append(1000 * (time.perf_counter() - started - calls.inside))
    return spent


def rows(models: Path) -> list[Row]:
    """The figures as lines of the table."""
    activate("simulated")  # before torch starts its threads
    lines = []
    for size, name, most in VOCABULARIES:
        with tempfile.TemporaryDirectory(prefix="mblt-bench-") as place:
            folder = artifact(models, Path(place), size)
            kinds = {"greedy": GREEDY, "sampled, all penalties": SAMPLED}
            for kind, spent in measure(folder, size, kinds).items():
                p50, p99 = statistics.median(spent), statistics.quantiles(spent, n=100)[98]
                goal = Goal(p50, at_most=most, unit="ms", name="p50")
                what = f"host time per token outside infer, {name} vocabulary, {kind}"
                lines.append(Row(what, f"p50 {p50:.2f}, p99 {p99:.2f} ms", goal))
    return lines
