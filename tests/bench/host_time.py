"""What a token costs the host outside `infer`: the whole engine on a model whose calls cost nothing.

Scheduling, sampling, detokenising and posting are the program's own; the logits lie ready, so what time is
left is all ours. At the vocabularies of SmolLM2 (49k) and Qwen2 (152k).
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from tokenizers import Tokenizer

from runtime.catalog.entries import DEMO_CHAT
from runtime.config import RuntimeConfig
from runtime.engine import Engine
from runtime.families.base import Logits, Prompt
from runtime.families.decode_stream import DecodeStream
from runtime.lane import CancelMarks
from runtime.layout import LayoutRequest
from runtime.messages import Event, Generate, LoadModel, ModelInfo, TextPart, Turn
from runtime.sampling_params import SamplingRequest

PROMPT_TOKENS = 512
TOKENS = 400
WARM_UP = 50
VOCABULARIES = ((49_152, "49k", 0.6), (151_936, "152k", 1.5))
"""Size, name, and the most milliseconds per token."""

GREEDY = SamplingRequest(temperature=0.0, max_tokens=TOKENS)
# Without top-k and min-p, which make it cheaper: the nucleus has to be found in the whole vocabulary.
SAMPLED = SamplingRequest(
    temperature=0.8,
    top_p=0.95,
    repetition_penalty=1.1,
    presence_penalty=0.3,
    frequency_penalty=0.2,
    seed=1,
    max_tokens=TOKENS,
)


@dataclass
class FreeCache:
    """Counts positions."""

    length: int = 0
    host_nbytes: int = 0

    def get_seq_length(self, index: int = 0) -> int:
        return self.length

    def set_seq_length(self, sequence_lengths: int, index: int = 0) -> None:
        self.length = sequence_lengths

    def discard(self) -> None:
        self.length = 0


@dataclass
class FreeModel:
    """Gives out logits that lie ready; adds up the time its own calls take."""

    vocab_size: int
    tokenizer: Tokenizer
    slots: int = 1
    eos_ids: frozenset[int] = frozenset()
    inside: float = 0.0
    _logits: list[Logits] = field(default_factory=list)

    def __post_init__(self) -> None:
        draws = np.random.default_rng(7)
        self._logits = [draws.normal(0, 3, self.vocab_size).astype(np.float32) for _ in range(16)]

    @property
    def info(self) -> ModelInfo:
        return ModelInfo("free", "Free", "chat", "scripted", "", "None", True, None, 10**6, PROMPT_TOKENS)

    def render(self, turns: Sequence[Turn]) -> str:
        return ""

    def tokenise(self, text: str, turns: Sequence[Turn], sharing: int = 1) -> Prompt:
        ids = [index * 7 % self.vocab_size for index in range(PROMPT_TOKENS)]
        return Prompt(ids, ids)

    def continued(self, prompt: Prompt, token_ids: Sequence[int]) -> Prompt:
        return prompt.followed_by(token_ids)

    def new_cache(self) -> FreeCache:
        return FreeCache()

    def place(self, cache: FreeCache, slot: int) -> FreeCache:
        return cache

    def reusable_prefix(self, prompt: Prompt, length: int) -> int:
        return length

    def prefill(self, prompt: Prompt, cache: FreeCache, start: int, end: int) -> Logits:
        cache.length = end
        return self._logits[0]

    def decode(self, token_ids: Sequence[int], caches: Sequence[FreeCache]) -> list[Logits]:
        started = time.perf_counter()
        (cache,) = caches
        cache.length += 1
        logits = self._logits[cache.length % len(self._logits)]
        self.inside += time.perf_counter() - started
        return [logits]

    def token_stream(self) -> FoldedStream:
        return FoldedStream(self.tokenizer)

    def dispose(self) -> None:
        self._logits.clear()


class FoldedStream(DecodeStream):
    """The real stream; ids beyond the tokenizer's vocabulary are folded into it."""

    def __init__(self, tokenizer: Tokenizer) -> None:
        super().__init__(SimpleNamespace(backend_tokenizer=tokenizer))
        self._size = tokenizer.get_vocab_size()

    def push(self, token_id: int) -> str:
        return super().push(token_id % self._size)


def measure(model: FreeModel, sampling: SamplingRequest) -> list[float]:
    """Milliseconds outside the model of each decode step after the warm-up."""
    events: list[Event] = []
    engine = Engine(RuntimeConfig(Path()), events.append, CancelMarks(), load=lambda *_: model)
    engine.open()
    engine.handle(LoadModel("free", "", LayoutRequest()))
    turns = (Turn("user", (TextPart("x"),)),)
    engine.handle(Generate("r", "c", "free", turns, sampling, time.perf_counter_ns()))
    spent = []
    more = True
    while more:
        model.inside, started = 0.0, time.perf_counter()
        more = engine.step()
        spent.append(1000 * (time.perf_counter() - started - model.inside))
    return spent[WARM_UP:]


def rows(models: Path) -> list[tuple[str, str]]:
    """The figures as lines of the table."""
    tokenizer = Tokenizer.from_file(str(models / DEMO_CHAT / "tokenizer.json"))
    lines = []
    for size, name, most in VOCABULARIES:
        for kind, sampling in (("greedy", GREEDY), ("sampled, all penalties", SAMPLED)):
            spent = measure(FreeModel(size, tokenizer), sampling)
            p50, p99 = statistics.median(spent), statistics.quantiles(spent, n=100)[98]
            lines.append(
                (f"{name} vocabulary, {kind}", f"p50 {p50:.2f}  p99 {p99:.2f} ms (p50 at most {most})")
            )
    return lines
