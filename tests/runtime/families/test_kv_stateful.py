"""No cache is ever trusted for more than it holds: whatever people do, answers are those of the plain model.

Conversations grow, are edited, cancelled and deleted, in turns of the engine's steps; limits change, KV moves
between slots, memory and disk, and the model is loaded anew. Wrong KV would show as a wrong token.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, rule, run_state_machine_as_test

from runtime.messages import Finished, ForgetConversation
from runtime.simulator.build import build_artifact
from tests.runtime.families.numbers import Lane
from tests.simulator.checkpoints import greedy, make_checkpoint, plain_model

LONGEST = 70
RUNS = itertools.count()
LETTERS = st.sampled_from("abcde")
TOKENS = st.lists(st.integers(1, 40), min_size=1, max_size=24)
Expected = Callable[[Sequence[int], int], list[int]]


@dataclass
class Asked:
    """A request on its way."""

    request: str
    conversation: str
    prompt: list[int]
    count: int
    cancelled: bool = False


class Conversations(RuleBasedStateMachine):
    """Several people, one engine with two slots."""

    lane: Lane
    expected: Expected

    def __init__(self) -> None:
        super().__init__()
        self.run = next(RUNS)
        self.numbers = itertools.count()
        self.history: dict[str, list[int]] = {}
        self.pending: list[Asked] = []

    @rule(letter=LETTERS, extra=TOKENS, count=st.integers(1, 4), background=st.booleans())
    def go_on(self, letter: str, extra: list[int], count: int, background: bool) -> None:
        self._ask(letter, [*self.history.get(letter, []), *extra], count, background)

    @rule(letter=LETTERS, keep=st.floats(0, 1), extra=TOKENS, count=st.integers(1, 4))
    def edit(self, letter: str, keep: float, extra: list[int], count: int) -> None:
        history = self.history.get(letter, [])
        self._ask(letter, [*history[: int(keep * len(history))], *extra], count, False)

    @rule(letter=LETTERS, count=st.integers(1, 4))
    def regenerate(self, letter: str, count: int) -> None:
        history = self.history.get(letter)
        if history:
            self._ask(letter, history, count, False)

    @rule(steps=st.integers(1, 12))
    def work(self, steps: int) -> None:
        self.lane.run(steps)

    @rule(which=st.integers(0, 9))
    def cancel(self, which: int) -> None:
        if self.pending:
            asked = self.pending[which % len(self.pending)]
            asked.cancelled = True
            self.lane.marks.cancel(asked.request)

    @rule()
    def wait(self) -> None:
        self.lane.run()
        for asked in self.pending:
            self._check(asked)
        self.pending.clear()

    @rule(letter=LETTERS)
    def delete(self, letter: str) -> None:
        for asked in self.pending:
            asked.cancelled |= asked.conversation == letter
        self.lane.engine.handle(ForgetConversation(self._id(letter)))
        self.history.pop(letter, None)

    @rule(
        conversations=st.integers(1, 6),
        host_mib=st.sampled_from([0, 4096]),
        load_margin=st.sampled_from([1e-9, 0.9, 1e9]),
        keep_on_disk=st.booleans(),
    )
    def change_settings(self, **options: object) -> None:
        self.lane.set_kv(**options)

    @rule(again=st.integers(0, 5))
    def load_again(self, again: int) -> None:
        if again == 5:
            self.wait()
            self.lane.load()

    @invariant()
    def nothing_is_labelled_that_is_not_held(self) -> None:
        for _, entry in self.lane.engine._loaded.caches._caches.entries():
            drawn = 1  # a token is known one step before its position is computed
            assert len(entry.identity) <= entry.cache.get_seq_length() + drawn
            assert len(entry.held()) <= entry.cache.get_seq_length()

    def teardown(self) -> None:
        self.wait()

    def _ask(self, letter: str, prompt: list[int], count: int, background: bool) -> None:
        asked = Asked(f"{self.run}-{next(self.numbers)}", letter, prompt[-LONGEST:], count)
        self.pending.append(asked)
        priority = "background" if background else "interactive"
        self.lane.ask(asked.request, self._id(letter), asked.prompt, count=count, priority=priority)

    def _id(self, letter: str) -> str:
        return f"{self.run}-{letter}"

    def _check(self, asked: Asked) -> None:
        answer, finished = self.lane.answer(asked.request), self.lane.finished(asked.request)
        wanted = self.expected(asked.prompt, asked.count)
        assert answer == (wanted[: len(answer)] if asked.cancelled else wanted)
        self.history[asked.conversation] = [*asked.prompt, *answer]
        if finished.reuse is not None:
            self._check_report(asked, finished)

    def _check_report(self, asked: Asked, finished: Finished) -> None:
        reuse, cached = finished.reuse, finished.usage.cached
        assert reuse is not None
        assert cached < len(asked.prompt)
        if reuse.cause is None:
            assert cached == min(reuse.held, len(asked.prompt) - 1)
        elif reuse.first_different is not None and reuse.cause not in ("cheaper", "rejected"):
            assert cached == reuse.first_different
            assert reuse.token == f"{asked.prompt[cached]} "
        else:
            assert cached == 0


@pytest.fixture(scope="module")
def lane(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lane]:
    folder = tmp_path_factory.mktemp("stateful")
    checkpoint = make_checkpoint(folder / "checkpoint", "llama")
    build_artifact(checkpoint, folder / "artifact", max_batch_size=2, context_length=96, prefill_chunk=16)
    plain = plain_model(checkpoint)
    known: dict[tuple[tuple[int, ...], int], list[int]] = {}

    def expected(prompt: Sequence[int], count: int) -> list[int]:
        key = tuple(prompt), count
        if key not in known:
            known[key] = greedy(plain, list(prompt), count)
        return known[key]

    Conversations.expected = staticmethod(expected)
    Conversations.lane = Lane(folder / "artifact", Path(folder / "data"), max_batch_size=2)
    yield Conversations.lane
    Conversations.lane.engine.close()


def test_whatever_people_do_answers_are_those_of_the_plain_model(lane: Lane) -> None:
    run_state_machine_as_test(
        Conversations,
        settings=settings(
            max_examples=40,
            stateful_step_count=30,
            deadline=None,
            suppress_health_check=[HealthCheck.too_slow],
        ),
    )
