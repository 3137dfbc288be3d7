"""What of a conversation is reused, from where, and why no more: the engine on a tiny real model."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from runtime.messages import Finished, MissCause, Reuse
from tests.runtime.families.kv_talk import QUESTION, SYSTEM, Expected, Talk
from tests.runtime.families.numbers import turn


def test_the_next_turn_reuses_everything(start: Callable[..., Talk], name: str) -> None:
    talk = start()
    answer = talk.ask(name, SYSTEM, QUESTION)
    assert (talk.cached, talk.reuse) == (0, Reuse(0, "new"))
    talk.ask(name, SYSTEM, QUESTION, ("assistant", answer), ("user", [50, 51]))
    assert (talk.cached, talk.reuse) == (36, Reuse(36))  # the last token of the answer was never computed


@pytest.mark.parametrize(
    ("turns", "cause", "turn", "first"),
    [
        ([("system", [1, 9, 3]), QUESTION], "system", 0, 1),
        ([SYSTEM, ("user", [*range(10, 20), 77, 78])], "edited", 1, 13),
        ([SYSTEM, QUESTION, ("assistant", [88, 89]), ("user", [50])], "edited", 2, 33),
    ],
)
def test_a_miss_names_the_token_and_the_cause(
    start: Callable[..., Talk],
    name: str,
    turns: list[tuple[str, list[int]]],
    cause: MissCause,
    turn: int,
    first: int,
) -> None:
    talk = start()
    talk.ask(name, SYSTEM, QUESTION)
    talk.ask(name, *turns)
    token = f"{[token for _, ids in turns for token in ids][first]} "
    assert talk.reuse == Reuse(36, cause, first, token, turn)
    assert talk.cached == first


def test_what_was_dropped_and_what_was_reloaded_is_said(start: Callable[..., Talk], name: str) -> None:
    talk = start(conversations=1)
    talk.ask(name, QUESTION)
    talk.ask(f"{name}-other", QUESTION)
    talk.ask(name, QUESTION)
    assert (talk.cached, talk.reuse) == (0, Reuse(33, "evicted"))
    talk.lane.unload()
    talk.lane.load()
    talk.ask(name, QUESTION)
    assert (talk.cached, talk.reuse) == (0, Reuse(33, "layout"))  # four conversations in parallel now
    talk.lane.load()
    talk.ask(name, QUESTION)
    assert talk.reuse == Reuse(33, "reloaded")
    talk.lane.load("renamed")
    talk.ask(name, QUESTION, model_id="renamed")
    assert talk.reuse == Reuse(33, "model")


def test_kv_in_memory_is_loaded_if_that_beats_computing(start: Callable[..., Talk], name: str) -> None:
    talk = start(load_margin=1000.0)
    for conversation in (name, f"{name}-other", name):
        talk.ask(conversation, QUESTION)
    assert (talk.cached, talk.reuse) == (29, Reuse(33))
    talk.lane.set_kv(load_margin=1e-9)
    talk.ask(f"{name}-other", QUESTION)
    assert (talk.cached, talk.reuse) == (0, Reuse(33, "cheaper"))


def test_a_short_hit_is_computed_again(start: Callable[..., Talk], name: str) -> None:
    talk = start(minimum_hit=30)
    for conversation in (name, f"{name}-other", name):
        talk.ask(conversation, QUESTION)
    assert (talk.cached, talk.reuse.cause) == (0, "cheaper")
    talk.ask(name, QUESTION)
    assert talk.cached == 29  # what is on the device costs nothing


def test_kv_lost_in_memory_is_computed_again(start: Callable[..., Talk], name: str) -> None:
    talk = start()
    talk.ask(name, QUESTION)
    layer = talk.lane.engine._loaded.caches._caches.entries()[0][1].cache.layers[0]
    talk.ask(f"{name}-other", QUESTION)
    layer._host_valid_len = 3  # as after a board that was taken away
    talk.ask(name, QUESTION)
    assert (talk.cached, talk.reuse.cause) == (0, "rejected")


@pytest.mark.parametrize("steps", [2, 8])
def test_an_answer_whose_kv_is_lost_while_it_gives_way_comes_out_right(
    start: Callable[..., Talk], name: str, expected: Expected, steps: int
) -> None:
    lane = start().lane
    lane.ask(f"behind-{name}", name, QUESTION[1], priority="background")
    lane.run(steps)  # in the prompt, or in the answer
    layer = lane.engine._loaded.caches._caches.entries()[0][1].cache.layers[0]
    lane.ask(f"quick-{name}", f"{name}-other", [5, 6, 7])
    lane.run(4)
    layer._host_valid_len = 3
    lane.run()
    assert lane.answer(f"behind-{name}") == expected(QUESTION[1], 10)
    assert lane.answer(f"quick-{name}") == expected([5, 6, 7], 10)
    ended = lane.finished(f"behind-{name}")
    assert (ended.usage.cached, ended.reuse.cause) == (0, "rejected")  # said, too


def test_the_measurement_after_a_load_knows_both_times_and_leaves_nothing(
    start: Callable[..., Talk], name: str
) -> None:
    talk = start(calibrate=True)
    talk.lane.run()
    keeper = talk.lane.engine._loaded.caches
    assert keeper._costs.prefill_seconds(128) > 0
    assert keeper._costs.load_seconds(100_000) > 0
    assert keeper._caches.entries() == []
    talk.ask(name, QUESTION)
    assert talk.reuse == Reuse(0, "new")


def test_a_conversation_has_its_slot_back_after_measuring(start: Callable[..., Talk], name: str) -> None:
    talk = start(calibrate=True)
    talk.lane.run(3)
    talk.ask(name, QUESTION)  # goes on measuring when it has its answer
    keeper = talk.lane.engine._loaded.caches
    assert keeper._costs.prefill_seconds(128) > 0
    ((_, entry),) = keeper._caches.entries()
    assert entry.cache.is_resident
    talk.ask(name, QUESTION, ("assistant", [5]), ("user", [50, 51]))
    assert (talk.cached, talk.reuse.cause) == (30, "edited")


def test_a_question_amid_measuring_finds_its_kv_on_the_slot(start: Callable[..., Talk], name: str) -> None:
    """Computing again is made to seem cheaper than any load, so KV that is not on the slot would be lost."""
    lane = start(calibrate=True, load_margin=1e-9).lane
    keeper = lane.engine._loaded.caches
    keeper._costs.observe_load(1000, 1.0)
    lane.run(3)
    lane.ask("first", name, QUESTION[1])
    while not any(isinstance(event, Finished) for event in lane.events):
        assert turn(lane.engine)
    ((_, entry),) = keeper._caches.entries()
    while entry.cache.is_resident:  # until it has made room
        assert turn(lane.engine)
    lane.ask("second", name, [*QUESTION[1], *lane.answer("first"), 50])
    lane.run()
    assert lane.finished("second").usage.cached == 39


def test_no_conversations_kv_is_lost_for_a_measurement(start: Callable[..., Talk], name: str) -> None:
    talk = start(calibrate=True, host_mib=0)
    talk.lane.run(3)
    for cached in (0, 29, 29):
        talk.ask(name, QUESTION)
        assert talk.cached == cached
    costs = talk.lane.engine._loaded.caches._costs
    assert costs.load_seconds(1000) is None  # so nothing was measured
