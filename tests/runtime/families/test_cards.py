"""A batch artifact on two cards: the conversations of both in one step, each answer the plain model's."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from runtime.device.active import activate
from runtime.simulator.build import build_artifact
from runtime.simulator.device import BOARDS, Fleet, NativeAccelerator
from tests.runtime.families.numbers import K, Lane
from tests.simulator.checkpoints import greedy, make_checkpoint, plain_model

LONG = 40
"""Tokens of answers that last until all prompts are read."""

Begin = Callable[..., Lane]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("cards") / "checkpoint", "llama")


@pytest.fixture(scope="module")
def folder(checkpoint: Path) -> Path:
    made = checkpoint.parent / "artifact"
    build_artifact(checkpoint, made, max_batch_size=K, context_length=96, prefill_chunk=16)
    return made


@pytest.fixture
def begin(folder: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Begin]:
    activate("simulated")
    monkeypatch.setattr(NativeAccelerator, "fleet", Fleet(BOARDS["aries-rb"], 2, None))
    lanes: list[Lane] = []

    def begin(**layout: Any) -> Lane:
        lanes.append(Lane(folder, **layout))
        return lanes[-1]

    yield begin
    for lane in lanes:
        lane.engine.close()


def watch(lane: Lane) -> list[list[tuple[int, int]]]:
    """The (compiled model, cache id) of every row of every decode step from now on."""
    model: Any = lane.engine._loaded.model
    steps: list[list[tuple[int, int]]] = []
    decode = model.decode

    def watched(token_ids: Sequence[int], caches: Sequence[Any]) -> Any:
        steps.append([cache.slot_of(0) for cache in caches])
        return decode(token_ids, caches)

    model.decode = watched
    return steps


def prompt(index: int) -> list[int]:
    return [index + 1, *range(20, 30 + index)]


def test_conversations_spread_over_both_cards_in_turn(begin: Begin, checkpoint: Path) -> None:
    lane = begin(dev_no=(0, 1), max_batch_size=2 * K)
    steps = watch(lane)
    for index in range(2 * K):
        lane.ask(f"r{index}", f"r{index}", prompt(index), count=LONG)
    lane.run()
    plain = plain_model(checkpoint)
    for index in range(2 * K):
        assert lane.answer(f"r{index}") == greedy(plain, prompt(index), LONG)
    every = [(model, cache_id) for cache_id in range(K) for model in range(2)]
    assert max(steps, key=len) == every
    assert next(step for step in steps if len(step) == 2) == [(0, 0), (1, 0)]
    assert all(len(set(step)) == len(step) for step in steps)


def test_prompts_on_both_cards_are_read_at_the_same_time(begin: Begin, checkpoint: Path) -> None:
    lane = begin(dev_no=(0, 1), max_batch_size=2 * K)
    model: Any = lane.engine._loaded.model
    calls: list[list[tuple[int, int]]] = []
    prefill = model.prefill

    def watched(chunks: Sequence[Any]) -> Any:
        calls.append([(chunk.cache.slot_of(0)[0], chunk.end - chunk.start) for chunk in chunks])
        return prefill(chunks)

    model.prefill = watched
    lengths = (40, 7, 18, 33)
    for index, length in enumerate(lengths):
        lane.ask(f"r{index}", f"r{index}", [index + 1] * length, count=4)
    lane.run()
    plain = plain_model(checkpoint)
    for index, length in enumerate(lengths):
        assert lane.answer(f"r{index}") == greedy(plain, [index + 1] * length, 4)
    assert sum(length for call in calls for _, length in call) == sum(lengths)
    assert all(len({card for card, _ in call}) == len(call) for call in calls)
    both = [[length for _, length in call] for call in calls if len(call) == 2]
    assert [16, 7] in both  # of unequal length, too
    assert len(calls) <= 5  # one after the other they are nine


def test_more_conversations_than_both_cards_hold_come_back_to_their_kv(
    begin: Begin, checkpoint: Path
) -> None:
    lane = begin(dev_no=(0, 1), max_batch_size=2 * K)
    plain = plain_model(checkpoint)
    for turn in range(2):
        for index in range(2 * K + 3):
            lane.ask(f"r{turn}-{index}", f"c{index}", [*prompt(index), *[90] * turn], count=4)
        lane.run()
    for index in range(2 * K + 3):
        assert lane.answer(f"r1-{index}") == greedy(plain, [*prompt(index), 90], 4)
        assert lane.finished(f"r1-{index}").usage.cached == len(prompt(index))


def test_a_number_of_conversations_that_fills_no_card_is_no_limit_to_the_last_one(begin: Begin) -> None:
    lane = begin(dev_no=(0, 1), max_batch_size=K + 1)
    for index in range(2 * K + 1):
        lane.ask(f"r{index}", f"r{index}", prompt(index), count=LONG)
    lane.run()
    assert max(lane.rows) == 2 * K
    assert all(len(lane.answer(f"r{index}")) == LONG for index in range(2 * K + 1))
