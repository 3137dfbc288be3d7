"""Is it faster to load a conversation's KV onto the device or to compute it again? Pure decisions, no torch.

Both times are learnt from what really happened: prefill by the length of the prompt, loading by the number
of bytes. As long as either is unknown, loading is presumed to win.
"""

from __future__ import annotations

import math
import statistics
from collections.abc import Sequence
from typing import Literal

Medium = Literal["memory", "disk"]
BLOCK = 128
"""Tokens of a block, the unit in which prompts are sorted by length, unless it is set otherwise."""

CALIBRATION_RUNS = 3
"""The first one warms up and does not count."""


class CostModel:
    """The times of this model on this device. Seconds, tokens and bytes."""

    def __init__(
        self, margin: float = 0.9, weight: float = 0.3, minimum_hit: int = 0, block: int = BLOCK
    ) -> None:
        self.set_rule(margin, weight, minimum_hit)
        self.block = block
        self._prefill: dict[int, float] = {}
        """Seconds a token, by the size class of the prompt: that many tokens at most."""
        self._load: dict[Medium, dict[int, float]] = {"memory": {}, "disk": {}}
        """Seconds a byte, by where the KV is and its size class."""

    def set_rule(self, margin: float, weight: float, minimum_hit: int) -> None:
        """Decide by other settings from now on; what was measured stays."""
        self._margin = margin
        self._weight = weight
        self._minimum_hit = minimum_hit

    def observe_prefill(self, tokens: int, seconds: float) -> None:
        """`tokens` positions, from the first on, took so long to compute."""
        if tokens > 0:
            self._learn(self._prefill, size_class(tokens, self.block), seconds / tokens)

    def observe_load(self, nbytes: int, seconds: float, medium: Medium = "memory") -> None:
        """`nbytes` of KV took so long to get onto the device."""
        if nbytes > 0:
            self._learn(self._load[medium], size_class(nbytes, self.block), seconds / nbytes)

    def prefill_seconds(self, tokens: int) -> float | None:
        """How long computing the first `tokens` positions should take; None as long as nobody knows."""
        return self._estimate(self._prefill, tokens)

    def load_seconds(self, nbytes: int, medium: Medium = "memory") -> float | None:
        """How long loading `nbytes` should take; None as long as nobody knows."""
        return self._estimate(self._load[medium], nbytes)

    def should_load(self, tokens: int, nbytes: int, medium: Medium = "memory") -> bool:
        """Whether to load `nbytes` of KV to save computing `tokens` positions."""
        if tokens <= 0 or tokens < self._minimum_hit:
            return False
        load, prefill = self.load_seconds(nbytes, medium), self.prefill_seconds(tokens)
        return load is None or prefill is None or load < prefill * self._margin

    def _learn(self, rates: dict[int, float], size: int, rate: float) -> None:
        former = rates.get(size)
        rates[size] = rate if former is None else former + self._weight * (rate - former)

    def _estimate(self, rates: dict[int, float], amount: int) -> float | None:
        """At the rate of the first known size class that is large enough, else of the largest known one."""
        if not rates:
            return None
        wanted = size_class(max(1, amount), self.block)
        larger = [size for size in rates if size >= wanted]
        return rates[min(larger) if larger else max(rates)] * amount


def size_class(amount: int, block: int = BLOCK) -> int:
    """The smallest block times a power of two that is not below `amount` (tokens or bytes)."""
    return block << max(0, math.ceil(math.log2(amount / block)))


def calibration_sizes(context_length: int, block: int, blocks: Sequence[int]) -> tuple[int, ...]:
    """The prompt lengths to measure, in tokens, the shortest first: those that the context holds."""
    return tuple(block * count for count in sorted(set(blocks)) if block * count < context_length)


def settled(samples: Sequence[float]) -> float:
    """The median without the first sample, which warms up."""
    return statistics.median(samples[1:] or samples)
