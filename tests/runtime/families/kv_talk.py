"""Conversations of numbers on a tiny model with one slot, each answer compared with the plain model's."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

from runtime.config import KvOptions
from runtime.messages import Reuse
from tests.runtime.families.numbers import ALWAYS, Lane

Expected = Callable[[Sequence[int], int], list[int]]
NAMES = map(str, itertools.count())
SYSTEM, QUESTION = ("system", [1, 2, 3]), ("user", list(range(10, 40)))


class Talk:
    """One conversation after another, on one slot."""

    def __init__(self, folder: Path, data: Path, expected: Expected, **kv: Any) -> None:
        self.lane = Lane(folder, data, KvOptions(**{"load_margin": ALWAYS, **kv}), max_batch_size=1)
        self._expected = expected

    def ask(self, conversation: str, *turns: tuple[str, list[int]], model_id: str = "tiny") -> list[int]:
        """The answer, right whatever was reused."""
        self.last = f"request-{next(NAMES)}"
        self.lane.ask_turns(self.last, conversation, turns, count=4, model_id=model_id)
        self.lane.run()
        answer = self.lane.answer(self.last)
        assert answer == self._expected([token for _, ids in turns for token in ids], 4)
        return answer

    @property
    def reuse(self) -> Reuse:
        found = self.lane.finished(self.last).reuse
        assert found is not None
        return found

    @property
    def cached(self) -> int:
        return self.lane.finished(self.last).usage.cached
