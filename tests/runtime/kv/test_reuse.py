"""Why a prompt was computed again: what the user did, told from the marks of the turns."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.kv.reuse import MOST_REMEMBERED, History, Said, came_before, compare
from runtime.messages import ImagePart, ModelInfo, Reuse, TextPart, Turn


def turn(role: str, text: str, *pictures: str) -> Turn:
    return Turn(role, (*(ImagePart(path) for path in pictures), TextPart(text)))  # type: ignore[arg-type]


def ids(turns: Sequence[Turn]) -> list[object]:
    """A character is a token; a picture is one position that carries its content, here its path."""
    made: list[object] = []
    for one in turns:
        made += ["<", one.role[0]]
        made += [(7, part.path) for part in one.parts if isinstance(part, ImagePart)]
        made += list(one.text)
    return made


TALK = (
    turn("system", "be kind"),
    turn("user", "hello", "a.png"),
    turn("assistant", "hi"),
    turn("user", "and?"),
)


def held_of(turns: Sequence[Turn], answer: str) -> tuple[list[object], Said]:
    said = Said.of(turns)
    said.answer += [answer[:2], answer[2:]]
    return [*ids(turns), "<", "a", *answer], said


@pytest.mark.parametrize(
    ("now", "cause", "changed"),
    [
        ((*TALK, turn("assistant", "well"), turn("user", "go on")), None, None),
        (TALK, None, None),  # answered once more
        ((turn("system", "be rude"), *TALK[1:]), "system", 0),
        (TALK[1:], "system", 0),
        ((TALK[0], turn("user", "hullo", "a.png"), *TALK[2:]), "edited", 1),
        ((TALK[0], turn("user", "hello", "b.png"), *TALK[2:]), "image", 1),
        ((TALK[0], turn("user", "hello"), *TALK[2:]), "image", 1),
        ((*TALK[:3], turn("user", "or?")), "edited", 3),
        ((*TALK, turn("assistant", "other"), turn("user", "go on")), "edited", 4),
    ],
)
def test_the_change_is_named(now: Sequence[Turn], cause: str | None, changed: int | None) -> None:
    held, before = held_of(TALK, "well")
    identity = [*ids(now), "<", "a"]
    reuse = compare(held, before, identity, Said.of(now))
    assert (reuse.cause, reuse.turn, reuse.held) == (cause, changed, len(held))
    if cause is None:
        assert reuse.first_different is None
    else:
        assert reuse.first_different is not None
        assert held[: reuse.first_different] == identity[: reuse.first_different]
        assert held[reuse.first_different] != identity[reuse.first_different]


def test_the_same_turns_as_other_tokens_are_the_templates_doing() -> None:
    held, before = held_of(TALK, "<thought>well")
    now = (*TALK, turn("assistant", "<thought>well"), turn("user", "go on"))
    shown = (*TALK, turn("assistant", "well"), turn("user", "go on"))  # history without the thoughts
    assert compare(held, before, ids(shown), Said.of(now)).cause == "template"


def test_another_picture_under_the_same_name_is_noticed() -> None:
    held, before = held_of(TALK, "well")
    identity = [(7, "other") if item == (7, "a.png") else item for item in ids(TALK)]
    assert compare(held, before, identity, Said.of(TALK)) == Reuse(
        len(held), "image", identity.index((7, "other"))
    )


def test_turns_left_out_are_told_from_turns_edited() -> None:
    held, before = held_of(TALK, "well")
    now = (TALK[0], turn("user", "go on"))
    assert compare(held, before, ids(now), Said.of(now, left_out=4)).cause == "shortened"


def test_what_differs_before_the_changed_turn_is_not_its_doing() -> None:
    reuse = Reuse(50, "edited", 20, turn=3)
    assert came_before(reuse, 22) == reuse
    assert came_before(reuse, 40) == Reuse(50, "template", 20)
    assert came_before(Reuse(50), 40) == Reuse(50)


ITEMS = st.lists(st.integers(0, 2), max_size=12)


@given(ITEMS, ITEMS.filter(bool))
def test_a_cause_is_given_exactly_if_more_could_have_been_reused(
    held: list[int], identity: list[int]
) -> None:
    said = Said.of([turn("user", "x")])
    reuse = compare(held, said, identity, said)
    shared = next((i for i, pair in enumerate(zip(held, identity[:-1])) if pair[0] != pair[1]), None)  # noqa: B905
    assert reuse.first_different == shared
    assert (reuse.cause is None) == (shared is None)


def info(model_id: str = "m", layout: object = "one") -> ModelInfo:
    return ModelInfo(model_id, "M", "chat", "llama", "", "", True, layout, 64, 16, {})  # type: ignore[arg-type]


def test_absent_kv_is_explained() -> None:
    history = History()
    assert history.why_absent("c", TALK[:2], info()) == Reuse(0, "new")
    assert history.why_absent("c", TALK, info()) == Reuse(0, "restarted")
    history.note("c", info(), 9, "evicted")
    assert history.why_absent("c", TALK, info()) == Reuse(9, "evicted")
    history.note("c", info(), 9, "reloaded")
    assert history.why_absent("c", TALK, info()) == Reuse(9, "reloaded")
    assert history.why_absent("c", TALK, info(layout="two")) == Reuse(9, "layout")
    assert history.why_absent("c", TALK, info("other")) == Reuse(9, "model")
    history.forget("c")
    assert history.why_absent("c", TALK[:2], info()) == Reuse(0, "new")


def test_only_so_much_is_remembered() -> None:
    history = History()
    for number in range(MOST_REMEMBERED + 1):
        history.note(str(number), info(), 1, "evicted")
    assert history.why_absent("0", TALK, info()).cause == "restarted"
    assert history.why_absent("1", TALK, info()).cause == "evicted"


def test_marks_do_not_tell_what_was_said() -> None:
    said = Said.of([turn("user", "a secret word")])
    said.answer.append("another secret")
    assert "secret" not in repr(said.marks())
