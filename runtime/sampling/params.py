"""Sampling values: what somebody asks for, and what takes effect with its source."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal, TypeAlias

ValueSource = Literal["you", "conversation", "model", "default"]
ContextPolicy = Literal["stop", "drop_middle", "rolling"]
SampledValue: TypeAlias = "float | int | bool | str | tuple[str, ...] | None"

NEUTRAL_PENALTIES: dict[str, float] = {
    "repetition_penalty": 1.0,
    "presence_penalty": 0.0,
    "frequency_penalty": 0.0,
}
"""The penalties, each with the value that changes nothing."""

NOT_IN_ROUNDS: dict[str, SampledValue] = {
    "min_p": 0.0,
    **NEUTRAL_PENALTIES,
    "apply_penalties": True,
    "min_tokens": 0,
    "seed": None,
    "report_candidates": False,
}
"""What a model that answers by speculation cannot follow, each with the value that asks for nothing: the
vendor's rounds draw the tokens themselves, with temperature, top-k and top-p."""


@dataclass(frozen=True, slots=True)
class SamplingRequest:
    """Values set by the user or the conversation; None leaves it to the model, then the default."""

    temperature: float | None = None
    top_k: int | None = None
    """0 or -1 turns it off."""
    top_p: float | None = None
    min_p: float | None = None
    repetition_penalty: float | None = None
    presence_penalty: float | None = None
    frequency_penalty: float | None = None
    seed: int | None = None
    min_tokens: int = 0
    """Before this many tokens the answer ends neither by itself nor at a stop string."""
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    apply_penalties: bool = True
    context_policy: ContextPolicy = "stop"
    report_candidates: bool = False
    """Report the likeliest tokens of each step, before and after the penalties."""
    by_conversation: frozenset[str] = frozenset()
    """Names of the values that the conversation set; the others given are the user's."""


@dataclass(frozen=True, slots=True)
class UsedValue:
    """A value that an answer was made with, by its name in `SamplingRequest`, and who set it."""

    name: str
    value: SampledValue
    source: ValueSource
    applied: bool = True
    """Not what the model states for itself and, answering by speculation, does not follow."""


def by_speculation(title: str) -> str:
    """Why a model that is called so cannot follow every value; the beginning of a sentence."""
    return f"{title} answers by speculation, which takes temperature, top-k and top-p only"


def ignored_penalties(used: Iterable[UsedValue]) -> tuple[UsedValue, ...]:
    """The penalties that were set to something but not applied, because the switch was off."""
    values = {one.name: one for one in used}
    switch = values.get("apply_penalties")
    if switch is None or switch.value:
        return ()
    return tuple(
        values[name]
        for name, neutral in NEUTRAL_PENALTIES.items()
        if name in values and values[name].value != neutral
    )
