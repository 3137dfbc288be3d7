"""A scripted model: the engine's behaviour can be seen without weights."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import cast

import numpy as np

from runtime.families.base import Logits, Prompt, PromptChunk
from runtime.messages import ModelInfo, Turn

VOCAB = 64
EOS = 0


class ScriptedCache:
    """Counts positions, as the vendor's cache does."""

    def __init__(self) -> None:
        self.length = 0
        self.discarded = False
        self.host_nbytes = 0
        self.is_resident = True
        self.slot = 0
        self.produced = 0

        self.layers: tuple[()] = ()

    def get_seq_length(self, index: int = 0) -> int:
        return self.length

    def set_seq_length(self, sequence_lengths: int, index: int = 0) -> None:
        assert sequence_lengths <= self.length
        self.length = sequence_lengths

    def discard(self) -> None:
        self.discarded = True
        self.length = 0

    def offload(self) -> None:
        self.is_resident = False

    def dump_cache_memory_to(self, cache_dir: str) -> None:
        raise AssertionError("a scripted cache is never kept")

    def load_cache_memory_from(self, cache_dir: str) -> None:
        raise AssertionError("a scripted cache is never kept")


class CharStream:
    """Token n is the n-th letter from 'A'."""

    def push(self, token_id: int) -> str:
        return chr(ord("A") + token_id - 1)

    def finish(self) -> str:
        return ""


@dataclass
class ScriptedModel:
    """Answers with `script`, one token a step; prompt tokens are the letters of the turns."""

    script: Sequence[int] = (1, 2, 3, EOS)
    context_length: int = 64
    prefill_chunk: int = 4
    on_step: Callable[[int], None] = lambda _: None
    calls: list[tuple[str, int]] = field(default_factory=list)
    disposed: bool = False
    eos_ids: frozenset[int] = frozenset({EOS})
    slots: int = 1
    copies: int = 1
    defaults: dict[str, float | int] = field(default_factory=lambda: {"temperature": 0.0})

    @property
    def info(self) -> ModelInfo:
        return ModelInfo(
            "scripted",
            "Scripted",
            "chat",
            "scripted",
            "",
            "Test",
            True,
            None,
            self.context_length,
            self.prefill_chunk,
            self.defaults,
        )

    def render(self, turns: Sequence[Turn]) -> str:
        return "".join(turn.text for turn in turns)

    def tokenise(self, text: str, turns: Sequence[Turn], sharing: int = 1) -> Prompt:
        ids = [1 + ord(character) % (VOCAB - 1) for character in text]
        return Prompt(ids, ids)

    def continued(self, prompt: Prompt, token_ids: Sequence[int]) -> Prompt:
        return prompt.followed_by(token_ids)

    def new_cache(self) -> ScriptedCache:
        return ScriptedCache()

    def place(self, cache: ScriptedCache, slot: int) -> ScriptedCache:
        cache.slot = slot
        return cache

    def reusable_prefix(self, prompt: Prompt, length: int) -> int:
        return length

    def prefill(self, chunks: Sequence[PromptChunk]) -> list[Logits]:
        caches = cast("list[ScriptedCache]", [chunk.cache for chunk in chunks])
        assert len({cache.slot % self.copies for cache in caches}) == len(caches)
        assert all(cache.length == chunk.start for cache, chunk in zip(caches, chunks, strict=True))
        self.calls.append(("prefill", sum(chunk.end - chunk.start for chunk in chunks)))
        self.on_step(len(self.calls))
        for cache, chunk in zip(caches, chunks, strict=True):
            cache.length = chunk.end
            cache.produced = 0
        return [self._next(cache) for cache in caches]

    def decode(self, token_ids: Sequence[int], caches: Sequence[ScriptedCache]) -> list[Logits]:
        assert len({cache.slot for cache in caches}) == len(caches) <= self.slots
        self.calls.append(("decode", len(caches)))
        self.on_step(len(self.calls))
        for cache in caches:
            cache.length += 1
        return [self._next(cache) for cache in caches]

    def _next(self, cache: ScriptedCache) -> Logits:
        logits = np.zeros(VOCAB, dtype=np.float32)
        logits[self.script[min(cache.produced, len(self.script) - 1)]] = 1.0
        cache.produced += 1
        return logits

    def token_stream(self) -> CharStream:
        return CharStream()

    def dispose(self) -> None:
        self.disposed = True
