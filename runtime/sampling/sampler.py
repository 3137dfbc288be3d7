"""Drawing the next token on the host, with vLLM's semantics.

The pipeline: penalties, then greedy or temperature, min-p, top-k and top-p, then one draw. Repetition
penalty looks at prompt and answer, presence and frequency penalties at the answer only. The work a token
costs depends on the vocabulary, never on the answer's length: counts are kept up to date, not recounted.
"""

from __future__ import annotations

import logging
import math
import secrets
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import cast

import numpy as np
from numpy.typing import NDArray

from runtime.errors import BadLogitsError, SettingError
from runtime.families.base import Logits
from runtime.sampling.candidates import CandidateLog
from runtime.sampling.params import (
    ContextPolicy,
    SampledValue,
    SamplingRequest,
    UsedValue,
    ValueSource,
    ignored_penalties,
)
from runtime.sampling.penalties import Occurrences, after_each
from runtime.settings.table import SETTINGS

_log = logging.getLogger(__name__)

_FLOORS = (1e-2, 1e-4, 1e-6, 0.0)
"""Shares of the heaviest weight, the last of which leaves nothing out."""

_NUCLEUS_FLOORS = (1e-4, 1e-6, 0.0)
"""The same for the nucleus: a sharp distribution has few weights above the highest of these, too."""

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
    min_tokens: int
    max_tokens: int | None
    stop: tuple[str, ...]
    apply_penalties: bool
    context_policy: ContextPolicy
    report_candidates: bool
    used: tuple[UsedValue, ...]
    """The same values by name, each with its source."""

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
    number = {name: _number(name, request, model_defaults) for name in _NUMBERS}
    longest = _given("max_tokens", request, model_defaults)
    values: dict[str, SampledValue] = {
        **number,
        "top_k": max(0, int(number["top_k"])),
        "min_tokens": int(number["min_tokens"]),
        "seed": secrets.randbits(32) if request.seed is None else _checked("seed", request.seed),
        "max_tokens": None if longest is None else int(longest),
        **{name: _checked(name, getattr(request, name)) for name in _NO_NUMBERS},
    }
    if longest is not None and number["min_tokens"] > longest:
        raise SettingError(
            "sampling.min_tokens",
            f"The shortest answer ({values['min_tokens']} tokens) is longer than the longest "
            f"({values['max_tokens']}).",
            remedy="Lower the shortest answer, or raise the longest.",
            unharmed="Nothing was changed.",
        )
    used = tuple(
        UsedValue(name, value, _source(name, request, model_defaults)) for name, value in values.items()
    )
    return Sampling(**values, used=used)  # type: ignore[arg-type]  # checked by each Setting


_NUMBERS = (
    "temperature",
    "top_k",
    "top_p",
    "min_p",
    "repetition_penalty",
    "presence_penalty",
    "frequency_penalty",
    "min_tokens",
)
_NO_NUMBERS = ("stop", "apply_penalties", "context_policy", "report_candidates")


def _number(name: str, request: SamplingRequest, model_defaults: Mapping[str, float | int]) -> float:
    value = _given(name, request, model_defaults)
    fallback = SETTINGS[f"sampling.{name}"].fallback
    assert isinstance(fallback, (int, float))  # every sampling number declares one
    return float(fallback) if value is None else float(value)


def _given(name: str, request: SamplingRequest, model_defaults: Mapping[str, float | int]) -> float | None:
    """The request's value, else the model's; None when neither says one."""
    given = getattr(request, name)
    value = model_defaults.get(name) if given is None else given
    return None if value is None else cast("float", _checked(name, value))


def _source(name: str, request: SamplingRequest, model_defaults: Mapping[str, float | int]) -> ValueSource:
    if name in request.by_conversation:
        return "conversation"
    if getattr(request, name) != SETTINGS[f"sampling.{name}"].default:
        return "you"
    return "model" if name in model_defaults else "default"


def _checked(name: str, value: object) -> SampledValue:
    return cast("SampledValue", SETTINGS[f"sampling.{name}"].check(value))


def bad_logits(
    detail: str,
    model: str = "The model",
    *,
    again: str = "Send the message again",
    unharmed: str = "The conversation up to here is",
) -> BadLogitsError:
    """The model returned NaN, or nothing above minus infinity."""
    return BadLogitsError(
        f"{model} returned numbers that no word can be made of.",
        remedy=f"{again}; if it happens again, unload and load the model.",
        unharmed=f"{unharmed} unharmed.",
        detail=detail,
    )


class IgnoredPenalties:
    """Logs, once, which penalties are left out because the switch is off."""

    def __init__(self) -> None:
        self._said = False

    def note(self, sampling: Sampling) -> None:
        """A request with these values begins."""
        ignored = ignored_penalties(sampling.used)
        if ignored and not self._said:
            self._said = True
            _log.warning(
                "Penalties are off; ignored: %s", ", ".join(f"{one.name} {one.value}" for one in ignored)
            )


class Sampler:
    """Draws one request's tokens; the same seed and logits give the same tokens."""

    def __init__(
        self, sampling: Sampling, prompt_ids: Sequence[int], eos_ids: frozenset[int] = frozenset()
    ) -> None:
        self._sampling = sampling
        self._rng = np.random.Generator(np.random.PCG64(sampling.seed & (2**64 - 1)))
        self._prompt_ids = prompt_ids
        self._occurred: Occurrences | None = None
        self._ends = sorted(eos_ids)
        self._count = 0
        self.log = CandidateLog(sampling) if sampling.report_candidates else None
        """What was likely at each step, when it was asked for."""

    def draw(self, logits: Logits) -> int:
        """The next token id for logits of shape (vocab,).

        Raises BadLogitsError when no token can be drawn (NaN, or nothing above minus infinity).
        """
        if self._count == 0:
            self._begin(logits.size)
        given = logits
        barred = self._ends if self._count < self._sampling.min_tokens else []
        if barred or self._occurred is not None:
            logits = self._changed(logits, barred, self._occurred)
        token_id = int(np.argmax(logits))
        if not np.isfinite(logits[token_id]):  # argmax finds a NaN first, +inf next, and -inf last
            raise bad_logits(f"logits[{token_id}] = {logits[token_id]}")
        if not self._sampling.greedy:
            token_id = self._sampled(logits, logits[token_id])
        if self.log is not None:
            self.log.add(given, token_id, self._occurred, barred)
        if self._occurred is not None:
            self._occurred.add(token_id)
        self._count += 1
        return token_id

    def _begin(self, vocab: int) -> None:
        """Leave aside tokens that the model scores not: a prompt or a configuration may name such."""
        self._ends = [token_id for token_id in self._ends if 0 <= token_id < vocab]
        if self._sampling.penalises:
            self._occurred = Occurrences([one for one in self._prompt_ids if 0 <= one < vocab])

    def _changed(self, logits: Logits, barred: list[int], occurred: Occurrences | None) -> Logits:
        """A copy without the tokens that have to wait, and with the penalties."""
        logits = logits.astype(np.float32, copy=True)
        logits[barred] = -np.inf
        if occurred is None:
            return logits
        ids, counts = occurred.ids, occurred.counts
        for _, values in after_each(self._sampling, logits[ids], np.True_, counts):
            logits[ids] = values
        return logits

    def _sampled(self, logits: Logits, peak: np.float32) -> int:
        """Draw after temperature, min-p, top-k and top-p; `peak` is the highest logit.

        Each of these keeps the tokens above some score, so the cheapest one goes first.
        """
        sampling = self._sampling
        scaled = logits - peak
        scaled /= np.float32(sampling.temperature)
        ids: NDArray[np.intp] | None = None
        if sampling.min_p > 0.0:
            ids = np.flatnonzero(scaled >= np.float32(math.log(sampling.min_p)))  # the likeliest is at 0
            scaled = scaled[ids]
        if 0 < sampling.top_k < scaled.size:
            kept = _highest(scaled, sampling.top_k)
            ids = kept if ids is None else ids[kept]
            scaled = scaled[kept]
        weights = np.exp(scaled, out=scaled)
        if sampling.top_p < 1.0:
            kept = _nucleus(weights, sampling.top_p)
            ids = kept if ids is None else ids[kept]
            weights = weights[kept]
        index = _pick(weights, self._rng.random())
        return index if ids is None else int(ids[index])


def _highest(scores: NDArray[np.float32], count: int) -> NDArray[np.intp]:
    """Positions of the `count` highest scores, 0 the highest of all; equals of the last all stay, as in vLLM.

    Only scores above a floor are partitioned, as long as there are enough of them.
    """
    for floor in _FLOORS:
        positions = np.flatnonzero(scores >= np.float32(math.log(floor) if floor else -math.inf))
        if positions.size >= count:
            break
    head = scores[positions]
    edge = np.partition(head, head.size - count)[head.size - count]
    return cast("NDArray[np.intp]", positions[head >= edge])


def _nucleus(weights: NDArray[np.float32], top_p: float) -> NDArray[np.intp]:
    """Positions of the likeliest weights whose share reaches `top_p`; at least one, of equals the first.

    The heaviest weighs 1. Only weights above a floor are sorted: once those reach the share, the rest cannot
    be part of it.
    """
    goal = top_p * float(weights.sum())  # NumPy adds in pairs: float32 is exact enough
    for floor in _NUCLEUS_FLOORS:
        positions = np.flatnonzero(weights >= np.float32(floor))
        head = weights[positions]
        if float(head.sum(dtype=np.float64)) >= goal:
            break
    ranked = np.sort(head)[::-1]
    cumulative = np.cumsum(ranked, dtype=np.float64)
    count = min(int(np.searchsorted(cumulative, goal)) + 1, ranked.size)
    edge = ranked[count - 1]
    kept = np.flatnonzero(head >= edge)
    if kept.size > count:  # of those that weigh as much as the last one, the first ones stay
        equal = np.flatnonzero(head[kept] == edge)
        kept = np.delete(kept, equal[count - kept.size :])
    return positions[kept]


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
