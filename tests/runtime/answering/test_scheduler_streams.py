"""What the scheduler promises while new requests never cease to come: nobody starves, nobody waits long."""

from __future__ import annotations

import itertools
from collections.abc import Callable

from hypothesis import given
from hypothesis import strategies as st

from runtime.answering.request import Request
from runtime.answering.scheduler import PATIENCE, QUANTUM
from tests.runtime.answering.scheduled import CHUNK, Device, request

SHAPES = st.lists(st.tuples(st.integers(1, 14), st.integers(1, 5)), min_size=1, max_size=5)
"""Prompt and answer lengths of the requests that keep coming, in turn."""

LONGEST = 1 + -(-14 // CHUNK) + 5
"""Steps of the longest of them, alone on its slot, its admission included."""


class Busy:
    """A device with more interactive requests than it can ever answer, each of another conversation."""

    def __init__(self, slots: int, shapes: list[tuple[int, int]], warm_up: int, copies: int = 1) -> None:
        self.device = Device(slots, min(slots, copies))
        self._shapes = itertools.cycle(shapes)
        self._numbers = itertools.count()
        self._kept_busy: list[Request] = []
        for _ in range(warm_up):
            self.step()

    def step(self) -> None:
        self._kept_busy = [each for each in self._kept_busy if each.id not in self.device.finished]
        while len(self._kept_busy) < self.device.slots + 2:
            self._kept_busy.append(
                self.device.add(request(f"busy{next(self._numbers)}"), *next(self._shapes))
            )
        self.device.step()

    def steps_until(self, done: Callable[[], bool], limit: int) -> int:
        for steps in range(limit):
            if done():
                return steps
            self.step()
        raise AssertionError("starves: " + ", ".join(self.device.log[-60:]))


@given(
    st.integers(1, 4),
    st.integers(1, 3),
    SHAPES,
    st.integers(0, 40),
    st.lists(st.tuples(st.integers(1, 14), st.integers(1, 5)), min_size=1, max_size=3),
)
def test_background_requests_are_answered_among_interactive_ones_without_end(
    slots: int, copies: int, shapes: list[tuple[int, int]], warm_up: int, behind: list[tuple[int, int]]
) -> None:
    busy = Busy(slots, shapes, warm_up, copies)
    watched = [
        busy.device.add(request(f"behind{index}", background=True), prompt, answer)
        for index, (prompt, answer) in enumerate(behind)
    ]
    # Each chunk and each token may have to wait for its turn among the others.
    work = sum(-(-prompt // CHUNK) + answer for prompt, answer in behind)
    turn = (PATIENCE + 2) * LONGEST
    busy.steps_until(lambda: {each.id for each in watched} <= {*busy.device.finished}, turn * (work + 1))


@given(
    st.integers(1, 4), st.integers(1, 3), SHAPES, st.integers(0, 40), st.integers(1, 14), st.integers(1, 5)
)
def test_an_interactive_request_waits_for_those_before_it_only(
    slots: int, copies: int, shapes: list[tuple[int, int]], warm_up: int, prompt: int, answer: int
) -> None:
    busy = Busy(slots, shapes, warm_up, copies)
    watched = busy.device.add(request("watched"), prompt, answer)
    before = slots + 3  # on the slots, and waiting
    busy.steps_until(lambda: watched.id in busy.device.finished, 2 * (before + 1) * LONGEST)


@given(st.integers(1, 4), SHAPES, st.integers(0, 60), st.integers(2, 6))
def test_one_conversation_with_many_requests_does_not_hold_up_another(
    slots: int, shapes: list[tuple[int, int]], warm_up: int, many: int
) -> None:
    busy = Busy(slots, shapes, warm_up)
    for index in range(many):
        busy.device.add(request(f"many{index}", "many"))
    busy.device.add(request("one"))
    busy.steps_until(lambda: "one" in busy.device.finished, 10_000)
    assert sum(name.startswith("many") for name in busy.device.finished) <= 1 + slots // 2


@given(st.integers(1, 4), SHAPES, st.integers(0, 40), st.integers(2, 5))
def test_a_second_request_of_a_conversation_does_not_wait_for_all_that_come_after_it(
    slots: int, shapes: list[tuple[int, int]], warm_up: int, many: int
) -> None:
    busy = Busy(slots, shapes, warm_up)
    watched = {busy.device.add(request(f"many{index}", "many")).id for index in range(many)}
    before = many * (slots + 4)
    busy.steps_until(lambda: watched <= {*busy.device.finished}, 2 * (before + 1) * LONGEST)


@given(st.integers(1, 4), SHAPES, st.integers(1, 60), st.integers(1, 3 * QUANTUM))
def test_background_work_that_comes_first_gets_on_at_once_and_then_gives_way(
    slots: int, shapes: list[tuple[int, int]], prompt: int, answer: int
) -> None:
    busy = Busy(slots, shapes, warm_up=slots + 1)
    busy.device.add(request("behind", background=True), prompt, answer)
    busy.steps_until(lambda: "behind" in busy.device.finished, 10_000)
    turns = " | ".join(busy.device.log).split("admit behind | ")[1:]
    for turn in turns:
        computed = [entry for entry in turn.split(" | ") if not entry.startswith("admit")]
        assert any("behind" in entry for entry in computed[:2])
        if slots == 1:  # so that no other slot's work is between
            own = list(itertools.takewhile(lambda entry: "behind" in entry, computed))
            assert own in (["prefill behind"], ["decode behind"] * min(len(own), QUANTUM))


@given(
    st.integers(1, 4),
    st.integers(1, 3),
    st.integers(1, 4 * PATIENCE),
    st.integers(0, 40),
    st.integers(1, 60),
)
def test_an_interactive_prompt_never_waits_for_more_than_a_chunk_of_what_is_behind(
    slots: int, copies: int, interactive: int, steps: int, prompt: int
) -> None:
    device = Device(slots, min(slots, copies))
    for index in range(slots + 2):
        device.add(request(f"behind{index}", background=True), prompt, answer=40)
    for index in range(interactive):  # so many that background work gets turns of its own
        device.add(request(f"r{index}"), prompt=CHUNK, answer=1)
        device.step()
    while len([name for name in device.finished if name.startswith("r")]) < interactive:
        device.step()
    for _ in range(steps):
        device.step()
    device.log.clear()
    device.add(request("quick"))
    while not any(entry.startswith("prefill") and "quick" in entry for entry in device.log):
        device.step()
    others = [entry.split()[0] for entry in device.log[:-1]]
    assert others.count("prefill") <= 1
    assert others.count("decode") <= QUANTUM
