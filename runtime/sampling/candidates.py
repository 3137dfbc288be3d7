"""A report of the likeliest tokens of each step, before and after each penalty. Off unless asked for."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from runtime.messages import Candidate, CandidatesReported, DrawnToken
from runtime.sampling.penalties import Occurrences, PenaltyValues, after_each

CANDIDATES = 5
KEPT_TOKENS = 512


class ReportedValues(PenaltyValues, Protocol):
    """The sampling values that change logits before the temperature."""

    @property
    def min_tokens(self) -> int:
        """Before this many tokens the answer does not end by itself."""


@dataclass(frozen=True, slots=True)
class _Step:
    index: int
    token_id: int
    ids: list[int]
    stages: list[NDArray[np.float32]]
    """Logits of `ids`, as the model gave them and after each step."""


class CandidateLog:
    """The last `KEPT_TOKENS` steps of one answer."""

    def __init__(self, sampling: ReportedValues) -> None:
        self._sampling = sampling
        self._names: tuple[str, ...] = ("model",)
        self._steps: deque[_Step] = deque(maxlen=KEPT_TOKENS)
        self._count = 0

    def add(
        self,
        logits: NDArray[np.float32],
        token_id: int,
        occurred: Occurrences | None,
        barred: Sequence[int] = (),
    ) -> None:
        """Keep the likeliest tokens of the model's own logits, shape (vocab,), and the drawn one.

        `barred` are tokens that may not be drawn yet, because the answer would be too short.
        """
        count = min(CANDIDATES, logits.size)
        top = np.argpartition(logits, logits.size - count)[logits.size - count :]
        ids = [int(one) for one in top[np.argsort(-logits[top], kind="stable")]]
        if token_id not in ids:
            ids.append(token_id)
        names, stages = ["model"], [logits[ids].astype(np.float32)]
        if self._sampling.min_tokens > 0:
            names.append("min_tokens")
            stages.append(np.where(np.isin(ids, barred), np.float32(-np.inf), stages[0]))
        if occurred is not None:
            seen, counts = occurred.among(ids)
            for name, values in after_each(self._sampling, stages[-1], seen, counts):
                names.append(name)
                stages.append(values)
        self._names = tuple(names)
        self._steps.append(_Step(self._count, token_id, ids, stages))
        self._count += 1

    def report(self, request_id: str, text_of: Callable[[int], str]) -> CandidatesReported:
        """Everything kept, with the tokens' texts."""
        texts = {one: text_of(one) for one in {one for step in self._steps for one in step.ids}}
        tokens = tuple(
            DrawnToken(step.index, step.token_id, texts[step.token_id], _candidates(step, texts))
            for step in self._steps
        )
        return CandidatesReported(request_id, self._names, tokens)


def _candidates(step: _Step, texts: Mapping[int, str]) -> tuple[Candidate, ...]:
    return tuple(
        Candidate(token_id, texts[token_id], tuple(float(stage[place]) for stage in step.stages))
        for place, token_id in enumerate(step.ids)
    )
