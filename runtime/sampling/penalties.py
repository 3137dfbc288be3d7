"""Penalties on tokens that already occurred, in vLLM's order: repetition, frequency, presence.

Only tokens that occurred can change, so the work is theirs, not the vocabulary's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Protocol

import numpy as np
from numpy.typing import NDArray


class PenaltyValues(Protocol):
    """The three penalties; 1, 0 and 0 change nothing."""

    @property
    def repetition_penalty(self) -> float:
        """For tokens of prompt and answer."""

    @property
    def frequency_penalty(self) -> float:
        """For each time the answer has the token."""

    @property
    def presence_penalty(self) -> float:
        """Once for a token of the answer."""


class Occurrences:
    """The distinct tokens of prompt and answer, and how often the answer has each."""

    def __init__(self, prompt_ids: Sequence[int]) -> None:
        self._ids: NDArray[np.intp] = np.unique(np.asarray(prompt_ids, dtype=np.intp))
        self._counts: NDArray[np.float32] = np.zeros(self._ids.size, dtype=np.float32)
        self._places = {int(token_id): place for place, token_id in enumerate(self._ids)}

    @property
    def ids(self) -> NDArray[np.intp]:
        """The distinct tokens."""
        return self._ids[: len(self._places)]

    @property
    def counts(self) -> NDArray[np.float32]:
        """How often the answer has each of `ids`."""
        return self._counts[: len(self._places)]

    def add(self, token_id: int) -> None:
        """The answer has one more of this token."""
        place = self._places.setdefault(token_id, len(self._places))
        if place == self._ids.size:  # room for as many again, so that growing costs nothing on average
            more = max(64, place)
            self._ids = np.concatenate((self._ids, np.zeros(more, np.intp)))
            self._counts = np.concatenate((self._counts, np.zeros(more, np.float32)))
        self._ids[place] = token_id
        self._counts[place] += 1

    def among(self, ids: Sequence[int]) -> tuple[NDArray[np.bool_], NDArray[np.float32]]:
        """Which of the tokens occurred, and how often the answer has each."""
        places = [self._places.get(token_id, -1) for token_id in ids]
        counts = [float(self._counts[place]) if place >= 0 else 0.0 for place in places]
        return np.array(places) >= 0, np.array(counts, np.float32)


def after_each(
    penalties: PenaltyValues,
    values: NDArray[np.float32],
    seen: NDArray[np.bool_] | np.bool_,
    counts: NDArray[np.float32],
) -> Iterator[tuple[str, NDArray[np.float32]]]:
    """The logits of some tokens after each penalty that is in force, with its name.

    `seen` says which of them occurred at all, `counts` how often the answer has each.
    """
    if penalties.repetition_penalty != 1.0:
        penalty = np.float32(penalties.repetition_penalty)
        lowered = np.where(values > 0, values / penalty, values * penalty)
        values = np.where(seen, lowered, values)
        yield "repetition", values
    if penalties.frequency_penalty != 0.0:
        values = values - np.float32(penalties.frequency_penalty) * counts
        yield "frequency", values
    if penalties.presence_penalty != 0.0:
        values = values - np.float32(penalties.presence_penalty) * (counts > 0)
        yield "presence", values
