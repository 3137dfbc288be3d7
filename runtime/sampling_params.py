"""Sampling values: what somebody asks for, and what takes effect with its source."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

ValueSource = Literal["you", "conversation", "model", "default"]


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
    max_tokens: int | None = None
    stop: tuple[str, ...] = ()
    apply_penalties: bool = True
