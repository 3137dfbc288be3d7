"""Drawing the next token on the host, with vLLM's semantics.

The pipeline: penalties, then greedy or temperature, min-p, top-k and top-p, then one draw. Repetition
penalty looks at prompt and answer, presence and frequency penalties at the answer only. The work a token
costs depends on the vocabulary, never on the answer's length: counts are kept up to date, not recounted.
"""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from runtime.errors import BadLogitsError
from runtime.families.base import Logits
from runtime.sampling_params import SamplingRequest
from runtime.settings import SETTINGS

_FLOORS = (1e-2, 1e-4, 1e-6, 0.0)
"""Shares of the heaviest weight, the last of which leaves nothing out."""

_BLOCK = 256

GREEDY_BELOW = 1e-5
"""A temperature below this takes the likeliest token, as vLLM does."""


@dataclass(frozen=True, slots=True)
class Sampling:
    """The values that take effect for one request."""

    temperature: float
    top_k: int
    """0 is off."""
    top_p: float
    min_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    seed: int
    max_tokens: int | None
    stop: tuple[str, ...]
    apply_penalties: bool

    @property
    def greedy(self) -> bool:
        """Whether the likeliest token is taken."""
        return self.temperature < GREEDY_BELOW or self.top_k == 1

    @property
    def penalises(self) -> bool:
        """Whether any penalty changes the logits."""
        return self.apply_penalties and (
            self.repetition_penalty != 1.0 or self.presence_penalty != 0.0 or self.frequency_penalty != 0.0
        )


def resolve(request: SamplingRequest, model_defaults: Mapping[str, float | int]) -> Sampling:
    """Fill what the request leaves open from the model's defaults, then from the settings' own.

    Raises SettingError for a value out of its range, whoever set it.
    """
    return Sampling(
        temperature=_number("temperature", request.temperature, model_defaults),
        top_k=max(0, int(_number("top_k", request.top_k, model_defaults))),
        top_p=_number("top_p", request.top_p, model_defaults),
        min_p=_number("min_p", request.min_p, model_defaults),
        repetition_penalty=_number("repetition_penalty", request.repetition_penalty, model_defaults),
        presence_penalty=_number("presence_penalty", request.presence_penalty, model_defaults),
        frequency_penalty=_number("frequency_penalty", request.frequency_penalty, model_defaults),
        seed=secrets.randbits(32) if request.seed is None else request.seed,
        max_tokens=request.max_tokens
        if request.max_tokens is None
        else int(_checked("max_tokens", request.max_tokens)),
        stop=request.stop,
        apply_penalties=request.apply_penalties,
    )


def _number(key: str, given: float | None, model_defaults: Mapping[str, float | int]) -> float:
    value = model_defaults.get(key) if given is None else given
    fallback = SETTINGS[f"sampling.{key}"].fallback
    assert isinstance(fallback, (int, float))  # every sampling number declares one
    return float(fallback) if value is None else float(_checked(key, value))


def _checked(key: str, value: float) -> float:
    return cast("float", SETTINGS[f"sampling.{key}"].check(value))


class Sampler:
    """Draws one request's tokens; the same seed and logits give the same tokens."""

    def __init__(self, sampling: Sampling, vocab_size: int, prompt_ids: Sequence[int]) -> None:
        self._sampling = sampling
        self._rng = np.random.Generator(np.random.PCG64(sampling.seed & (2**64 - 1)))
        self._counts: NDArray[np.float32] | None = None
        if sampling.penalises:
            self._counts = np.zeros(vocab_size, dtype=np.float32)
            self._seen = np.zeros(vocab_size, dtype=np.bool_)
            self._seen[np.asarray(prompt_ids, dtype=np.intp)] = True

    def draw(self, logits: Logits) -> int:
        """The next token id for logits of shape (vocab,).

        Raises BadLogitsError when no token can be drawn (NaN, or nothing above minus infinity).
        """
        if self._counts is not None:
            logits = self._penalised(logits)
        token_id = int(np.argmax(logits))
        if not np.isfinite(logits[token_id]):  # argmax finds a NaN first, +inf next, and -inf last
            raise BadLogitsError(
                "The model returned numbers that no token can be drawn from.",
                remedy="Send the message again; if it happens again, unload and load the model.",
                unharmed="The conversation up to here is unharmed.",
                detail=f"logits[{token_id}] = {logits[token_id]}",
            )
        if not self._sampling.greedy:
            token_id = self._sampled(logits)
        if self._counts is not None:
            self._counts[token_id] += 1
            self._seen[token_id] = True
        return token_id

    def _penalised(self, logits: Logits) -> Logits:
        sampling, counts = self._sampling, self._counts
        assert counts is not None
        logits = logits.astype(np.float32, copy=True)
        if sampling.repetition_penalty != 1.0:
            seen = logits[self._seen]
            penalty = np.float32(sampling.repetition_penalty)
            logits[self._seen] = np.where(seen > 0, seen / penalty, seen * penalty)
        if sampling.frequency_penalty != 0.0:
            logits -= np.float32(sampling.frequency_penalty) * counts
        if sampling.presence_penalty != 0.0:
            logits -= np.float32(sampling.presence_penalty) * (counts > 0)
        return logits

    def _sampled(self, logits: Logits) -> int:
        """Draw after temperature, min-p, top-k and top-p."""
        sampling = self._sampling
        scaled = (logits - logits.max()) / np.float32(sampling.temperature)
        ids: NDArray[np.intp] | None = None
        if 0 < sampling.top_k < scaled.size:
            # Ties at the k-th logit all stay in, as in vLLM.
            kth = np.partition(scaled, scaled.size - sampling.top_k)[scaled.size - sampling.top_k]
            ids = np.flatnonzero(scaled >= kth)
            scaled = scaled[ids]
        weights = np.exp(scaled)
        if sampling.min_p > 0.0:
            kept = np.flatnonzero(weights >= np.float32(sampling.min_p))  # the likeliest weighs 1
            ids = kept if ids is None else ids[kept]
            weights = weights[kept]
        if sampling.top_p < 1.0:
            kept = _nucleus(weights, sampling.top_p)
            ids = kept if ids is None else ids[kept]
            weights = weights[kept]
        index = _pick(weights, self._rng.random())
        return index if ids is None else int(ids[index])


def _nucleus(weights: NDArray[np.float32], top_p: float) -> NDArray[np.intp]:
    """Positions of the likeliest weights whose share reaches `top_p`; at least one, of equals the first.

    Only weights above a floor are sorted: once those reach the share, the rest cannot be part of it.
    """
    goal = top_p * float(weights.sum(dtype=np.float64))
    heaviest = float(weights.max())
    for floor in _FLOORS:
        positions = np.flatnonzero(weights >= heaviest * floor)
        cumulative = np.cumsum(np.sort(weights[positions])[::-1], dtype=np.float64)
        if cumulative[-1] >= goal:
            break
    count = min(int(np.searchsorted(cumulative, goal)) + 1, positions.size)
    head = weights[positions]
    edge = np.partition(head, head.size - count)[head.size - count]
    above = np.flatnonzero(head > edge)
    equal = np.flatnonzero(head == edge)[: count - above.size]
    return positions[np.concatenate((above, equal))]


def _pick(weights: NDArray[np.float32], share: float) -> int:
    """The position at which the running sum of the weights reaches `share` (0..1) of their total.

    Sums of blocks come first, so that one block is summed item by item and not the vocabulary.
    """
    starts = np.arange(0, weights.size, _BLOCK)
    blocks = np.cumsum(np.add.reduceat(weights, starts, dtype=np.float64))
    goal = share * blocks[-1]
    block = min(int(np.searchsorted(blocks, goal, side="right")), starts.size - 1)
    inside = np.cumsum(weights[starts[block] : starts[block] + _BLOCK], dtype=np.float64)
    before = blocks[block - 1] if block else 0.0
    return int(starts[block]) + min(
        int(np.searchsorted(inside, goal - before, side="right")), inside.size - 1
    )
