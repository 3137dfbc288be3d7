"""Several conversations on one batch artifact, through the engine, against plain transformers one by one."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.config import KvOptions
from runtime.layout.request import LayoutRequest
from runtime.messages import Finished, LoadModel, ModelUnloaded
from runtime.sampling.params import SamplingRequest
from runtime.simulator.build import build_artifact
from tests.runtime.families.numbers import ALWAYS, COUNT, K, Lane
from tests.simulator.checkpoints import greedy, make_checkpoint, plain_model


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("batch") / "checkpoint", "llama")


@pytest.fixture(scope="module")
def folder(checkpoint: Path) -> Path:
    made = checkpoint.parent / "artifact"
    build_artifact(checkpoint, made, max_batch_size=K, context_length=96, prefill_chunk=16)
    return made


@pytest.fixture(scope="module")
def expected(checkpoint: Path) -> Callable[[Sequence[int], int], list[int]]:
    plain = plain_model(checkpoint)
    return lambda prompt, count: greedy(plain, list(prompt), count)


@pytest.fixture(scope="module")
def lane(folder: Path) -> Iterator[Lane]:
    lane = Lane(folder)
    yield lane
    lane.engine.close()


Expected = Callable[[Sequence[int], int], list[int]]
PROMPTS = [list(range(start, start + length)) for start, length in ((1, 5), (40, 23), (7, 1), (60, 17))]


def test_four_conversations_share_each_call_and_do_not_mix(lane: Lane, expected: Expected) -> None:
    lane.rows.clear()
    for index, prompt in enumerate(PROMPTS):
        lane.ask(f"four-{index}", f"four-{index}", prompt)
    lane.run()
    for index, prompt in enumerate(PROMPTS):
        assert lane.answer(f"four-{index}") == expected(prompt, COUNT)
    assert max(lane.rows) == K
    assert len(lane.rows) < 2 * COUNT


def test_rows_join_and_leave_at_every_step(lane: Lane, expected: Expected) -> None:
    for index, prompt in enumerate(PROMPTS * 2):
        lane.ask(f"join-{index}", f"join-{index}", prompt, count=3 + index)
        lane.run(steps=4)
    lane.run()
    for index, prompt in enumerate(PROMPTS * 2):
        assert lane.answer(f"join-{index}") == expected(prompt, 3 + index)


def test_more_conversations_than_slots_come_back_to_their_kv(lane: Lane, expected: Expected) -> None:
    for turn in range(2):
        for index in range(K + 2):
            prompt = [10 + index, *range(30, 50), *([90 + index] * turn)]
            lane.ask(f"many-{turn}-{index}", f"many-{index}", prompt, count=4)
        lane.run()
    for index in range(K + 2):
        prompt = [10 + index, *range(30, 50), 90 + index]
        assert lane.answer(f"many-1-{index}") == expected(prompt, 4)
        finished = next(
            e for e in lane.events if isinstance(e, Finished) and e.request_id == f"many-1-{index}"
        )
        assert finished.usage.cached == 21


def test_a_background_request_gives_way_and_goes_on_where_it_was(lane: Lane, expected: Expected) -> None:
    long = list(range(1, 60))
    for index in range(K):
        lane.ask(f"behind-{index}", f"behind-{index}", [index + 1, *long], priority="background")
    lane.run(steps=2 * K + 3)
    lane.ask("quick", "quick", PROMPTS[0])
    lane.run()
    order = [e.request_id for e in lane.events if isinstance(e, Finished)]
    assert order.index("quick") < order.index("behind-3")
    assert lane.answer("quick") == expected(PROMPTS[0], COUNT)
    for index in range(K):
        assert lane.answer(f"behind-{index}") == expected([index + 1, *long], COUNT)


def test_a_seed_gives_the_same_answer_alone_and_among_other_rows(lane: Lane) -> None:
    values = SamplingRequest(
        temperature=1.2, top_p=0.97, repetition_penalty=1.1, frequency_penalty=0.1, max_tokens=40
    )
    drawn = set()
    for seed in range(8):
        sampling = replace(values, seed=seed)
        lane.ask(f"alone-{seed}", f"alone-{seed}", PROMPTS[0], sampling=sampling)
        lane.run()
        lane.rows.clear()
        lane.ask(f"among-{seed}", f"among-{seed}", PROMPTS[0], sampling=sampling)
        for row in range(1, K):
            other = replace(values, seed=100 * seed + row, max_tokens=10 * row)
            lane.ask(f"other-{seed}-{row}", f"other-{seed}-{row}", PROMPTS[row], sampling=other)
            lane.run(steps=3)
        lane.run()
        assert {len(set(lane.rows)) > 1, max(lane.rows) == K} == {True}
        assert lane.answer(f"among-{seed}") == lane.answer(f"alone-{seed}")
        drawn.add(tuple(lane.answer(f"alone-{seed}")))
    assert len(drawn) == 8, "the seeds matter"


def test_two_models_side_by_side_make_twice_the_slots(folder: Path, expected: Expected) -> None:
    lane = Lane(folder, max_batch_size=2 * K)
    for index in range(2 * K):
        lane.ask(f"r{index}", f"r{index}", [index + 1, *range(20, 30)])
    lane.run()
    for index in range(2 * K):
        assert lane.answer(f"r{index}") == expected([index + 1, *range(20, 30)], COUNT)
    assert max(lane.rows) == 2 * K
    lane.engine.handle(LoadModel("tiny", str(folder), LayoutRequest()))
    assert any(isinstance(event, ModelUnloaded) for event in lane.events)
    lane.engine.close()


def test_a_batch_model_told_to_hold_one_conversation_takes_them_one_by_one(
    folder: Path, expected: Expected
) -> None:
    lane = Lane(folder, max_batch_size=1)
    for index, prompt in enumerate(PROMPTS):
        lane.ask(f"one-{index}", f"one-{index}", prompt)
    lane.run()
    for index, prompt in enumerate(PROMPTS):
        assert lane.answer(f"one-{index}") == expected(prompt, COUNT)
    assert set(lane.rows) == {1}
    lane.engine.close()


NAMES = itertools.count()


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    st.lists(
        st.tuples(
            st.sampled_from("abcdef"),
            st.lists(st.integers(1, 20), min_size=1, max_size=30),
            st.integers(1, 5),
            st.booleans(),
            st.integers(0, 8),
        ),
        min_size=1,
        max_size=9,
    )
)
def test_any_composition_equals_the_plain_model(
    lane: Lane, expected: Expected, work: list[tuple[str, list[int], int, bool, int]]
) -> None:
    run = next(NAMES)
    for index, (conversation, prompt, count, background, steps) in enumerate(work):
        lane.ask(
            f"p{run}-{index}",
            f"p{run % 3}-{conversation}",  # conversations of earlier examples come back
            prompt,
            count=count,
            priority="background" if background else "interactive",
        )
        lane.run(steps)
    lane.run()
    for index, (_, prompt, count, _, _) in enumerate(work):
        assert lane.answer(f"p{run}-{index}") == expected(prompt, count)


def test_a_request_that_is_withdrawn_takes_nothing_from_the_answer_before_it(
    folder: Path, expected: Expected
) -> None:
    lane = Lane(folder, kv=KvOptions(conversations=1, load_margin=ALWAYS))
    lane.ask("first", "same", PROMPTS[1], count=20)
    lane.run(steps=6)
    lane.ask("second", "same", PROMPTS[0])
    lane.marks.cancel("second")
    lane.run(steps=1)
    assert lane.finished("second").reason == "cancelled"
    lane.ask("other", "other", PROMPTS[3])
    lane.run()
    assert lane.answer("first") == expected(PROMPTS[1], 20)
    assert lane.answer("other") == expected(PROMPTS[3], COUNT)
    lane.engine.close()
