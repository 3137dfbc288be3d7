"""What is left out of a long conversation, whatever its turns: properties, with one token a character."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.answering.context_policy import STEP_SHARE, Fit, answer_room, fit
from runtime.messages import TextPart, Turn
from runtime.sampling.params import ContextPolicy


@dataclass
class Letters:
    token_ids: str


def build(turns: Sequence[Turn]) -> Letters:
    return Letters("".join(turn.text for turn in turns))


def turn(role: str, text: str) -> Turn:
    return Turn(role, (TextPart(text),))  # type: ignore[arg-type]


@st.composite
def conversations(draw: st.DrawFn) -> tuple[Turn, ...]:
    """Perhaps a system prompt, then questions and answers in turn, ending with a question."""
    words = st.text("x", min_size=1, max_size=12)
    turns = [turn("system", draw(words))] if draw(st.booleans()) else []
    for _ in range(draw(st.integers(0, 12))):
        turns += [turn("user", draw(words)), turn("assistant", draw(words))]
    return (*turns, turn("user", draw(words)))


policies = st.sampled_from(("stop", "drop_middle", "rolling"))
limits, rooms = st.integers(4, 120), st.integers(1, 20)


def kept_with(turns: Sequence[Turn], policy: ContextPolicy, limit: int, room: int) -> Fit[Letters]:
    return fit(turns, policy, build, limit, room)


@given(conversations(), policies, limits, rooms)
def test_what_must_stay_stays_and_the_rest_goes_oldest_first(
    turns: tuple[Turn, ...], policy: ContextPolicy, limit: int, room: int
) -> None:
    kept = kept_with(turns, policy, limit, room)
    assert kept.left_out == len(turns) - len(kept.turns)
    assert kept.prompt == build(kept.turns)
    assert kept.whole == len(build(turns).token_ids)
    protected = 1 if turns[0].role == "system" else 0
    if policy == "drop_middle" and len(turns) - protected > 1:
        protected += 2
    # The start that stays, then one gap, then everything to the end: nothing is reordered or cut in two.
    assert kept.turns == turns[:protected] + turns[protected + kept.left_out :]
    assert kept.turns[-1] == turns[-1]
    assert kept.left_out % 2 == 0


@given(conversations(), policies, limits, rooms)
def test_hardly_more_goes_than_is_needed(
    turns: tuple[Turn, ...], policy: ContextPolicy, limit: int, room: int
) -> None:
    kept = kept_with(turns, policy, limit, room)
    if not kept.left_out:
        return
    start = sum(one.role == "system" for one in turns) + (2 if policy == "drop_middle" else 0)
    one_exchange_more = turns[:start] + turns[start + kept.left_out - 2 :]
    # Less than a step would be missing, had one exchange more been kept.
    assert len(build(one_exchange_more).token_ids) + room > limit - max(1, limit // STEP_SHARE)


@pytest.mark.parametrize("policy", ["drop_middle", "rolling"])
def test_the_same_turns_stay_out_for_several_turns(policy: ContextPolicy) -> None:
    turns = [turn("system", "s" * 20)]
    gaps: list[int] = []
    for _ in range(200):
        turns += [turn("user", "q" * 8)]
        gaps.append(kept_with(turns, policy, 800, 100).left_out)
        turns += [turn("assistant", "a" * 12)]
    changes = sum(before != after for before, after in pairwise(gaps))
    # 20 tokens a turn, and a step of 100: the gap grows with every fifth turn.
    assert changes == pytest.approx((200 - 35) / 5, abs=2)


@given(conversations(), limits, rooms)
def test_it_fits_unless_nothing_more_may_go(turns: tuple[Turn, ...], limit: int, room: int) -> None:
    kept = kept_with(turns, "rolling", limit, room)
    questions = sum(one.role == "user" for one in kept.turns)
    assert len(kept.prompt.token_ids) + room <= limit or questions == 1


@given(conversations(), limits, rooms)
def test_stop_leaves_nothing_out(turns: tuple[Turn, ...], limit: int, room: int) -> None:
    assert kept_with(turns, "stop", limit, room).turns == turns


@given(conversations(), policies, limits, rooms)
def test_what_was_fitted_fits(turns: tuple[Turn, ...], policy: ContextPolicy, limit: int, room: int) -> None:
    kept = kept_with(turns, policy, limit, room)
    again = kept_with(kept.turns, policy, limit, room)
    assert again.left_out == 0 or len(again.prompt.token_ids) + room > limit


def test_a_conversation_that_fits_is_built_once_and_a_long_one_not_often() -> None:
    turns = [turn("user" if index % 2 == 0 else "assistant", "x" * 10) for index in range(401)]
    calls: list[int] = []

    def counted(kept: Sequence[Turn]) -> Letters:
        calls.append(len(kept))
        return build(kept)

    assert fit(turns, "rolling", counted, 5000, 100).left_out == 0
    assert len(calls) == 1
    assert fit(turns, "rolling", counted, 500, 100).left_out == 366
    assert len(calls) < 13


@pytest.mark.parametrize(
    ("limit", "asked", "room"),
    [(4096, None, 256), (4096, 32, 32), (400, None, 100), (400, 5000, 100), (2, 1, 1)],
)
def test_room_is_kept_for_an_answer_but_never_most_of_the_context(
    limit: int, asked: int | None, room: int
) -> None:
    assert answer_room(limit, asked) == room
