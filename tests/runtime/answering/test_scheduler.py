"""The scheduler's promises as properties: nothing starves, no slot has two, cancelled work never runs."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.answering.scheduler import PATIENCE, Admit
from runtime.messages import Queued
from tests.runtime.answering.scheduled import CHUNK, Device, request

WORK = st.lists(
    st.tuples(
        st.sampled_from("abcde"), st.booleans(), st.integers(1, 14), st.integers(1, 5), st.integers(0, 6)
    ),
    min_size=1,
    max_size=12,
)


@given(st.integers(1, 4), st.integers(1, 3), WORK)
def test_everything_that_is_asked_is_answered(
    slots: int, copies: int, work: list[tuple[str, bool, int, int, int]]
) -> None:
    device = Device(slots, min(slots, copies))
    for index, (conversation, background, prompt, answer, steps) in enumerate(work):
        device.add(request(f"r{index}", conversation, background=background), prompt, answer)
        for _ in range(steps):
            device.step()
    device.run()
    assert sorted(device.finished) == sorted(f"r{index}" for index in range(len(work)))


@given(st.integers(1, 3), st.integers(1, 3), WORK, st.data())
def test_cancelled_work_never_runs(
    slots: int, copies: int, work: list[tuple[str, bool, int, int, int]], data: st.DataObject
) -> None:
    device = Device(slots, min(slots, copies))
    for index, (conversation, background, prompt, answer, steps) in enumerate(work):
        device.add(request(f"r{index}", conversation, background=background), prompt, answer)
        for _ in range(steps):
            device.step()
        victims = data.draw(st.sets(st.integers(0, index), max_size=2))
        device.cancel(*(f"r{victim}" for victim in victims))
    device.run()
    assert device.gone.isdisjoint(device.finished)
    assert device.gone | set(device.finished) == {f"r{index}" for index in range(len(work))}


def test_prompts_on_different_copies_are_read_in_one_call_and_those_of_one_copy_in_turn() -> None:
    device = Device(4, copies=2)
    for name in "abcd":
        device.add(request(name), prompt=2 * CHUNK, answer=1)
    device.run()
    reads = [entry for entry in device.log if entry.startswith("prefill")]
    assert reads == ["prefill a b", "prefill c d", "prefill a b", "prefill c d"]


def test_who_is_asked_now_is_read_first_on_every_copy() -> None:
    device = Device(4, copies=2)
    for name, background in (("a", False), ("b", True), ("c", True), ("d", False)):
        device.add(request(name, background=background), prompt=2 * CHUNK, answer=1)
    device.run()
    reads = [entry for entry in device.log if entry.startswith("prefill")]
    assert reads[:2] == ["prefill a d", "prefill a d"]


def test_an_interactive_prompt_takes_the_slot_from_a_background_one_between_two_chunks() -> None:
    device = Device(1)
    device.add(request("long", background=True), prompt=40)
    device.step()
    device.step()
    device.add(request("quick"))
    device.log.clear()
    device.run()
    assert device.log[0] == "admit quick"
    assert device.finished == ["quick", "long"]


def test_a_conversation_goes_on_with_what_gave_way_before_its_next_request() -> None:
    device = Device(1)
    device.add(request("first", "c", background=True), prompt=40)
    device.step()
    device.step()
    device.add(request("other", "d"))
    device.step()
    device.add(request("second", "c"))
    device.run()
    assert device.finished == ["other", "first", "second"]


def test_an_answer_flows_on_while_another_prompt_is_read() -> None:
    device = Device(2)
    device.add(request("a"), prompt=4, answer=8)
    for _ in range(3):
        device.step()
    device.add(request("b"), prompt=12)
    device.log.clear()
    for _ in range(7):
        device.step()
    kinds = [entry.split()[0] for entry in device.log if not entry.startswith("admit")]
    assert kinds[:5] in (
        ["prefill", "decode", "prefill", "decode", "prefill"],
        ["decode", "prefill", "decode", "prefill", "decode"],
    )


def test_answers_of_all_slots_are_computed_in_one_call() -> None:
    device = Device(4)
    for name in "abcd":
        device.add(request(name), prompt=2, answer=6)
    device.run()
    assert "decode a b c d" in device.log


def test_conversations_are_served_in_turn() -> None:
    device = Device(1)
    for index in range(3):
        device.add(request(f"busy{index}", "busy"))
    device.add(request("other"))
    device.run()
    assert device.finished == ["busy0", "other", "busy1", "busy2"]


def test_who_comes_during_a_turn_still_takes_part_in_it() -> None:
    device = Device(1)
    for index in range(3):
        device.add(request(f"busy{index}", "busy"))
    device.add(request("other"))
    while not device.finished:
        device.step()
    device.add(request("late"))
    device.run()
    assert device.finished == ["busy0", "other", "late", "busy1", "busy2"]


def test_turns_that_were_cancelled_are_not_waited_for() -> None:
    device = Device(1)
    for index in range(9):
        device.add(request(f"busy{index}", "busy"))
    device.step()
    device.cancel(*(f"busy{index}" for index in range(1, 8)))
    while "admit busy8" not in device.log:
        device.step()
    device.add(request("busy9", "busy"))
    for index in range(9):
        device.add(request(f"new{index}"))
        while len(device.finished) < index + 2:
            device.step()
    assert "busy9" in device.finished[:6]


def test_a_background_request_gets_its_turn_among_many_interactive_ones() -> None:
    device = Device(1)
    device.add(request("behind", background=True))
    for index in range(PATIENCE * 5):
        device.add(request(f"r{index}"))
    device.run()
    assert device.finished.index("behind") <= 3 * PATIENCE


def test_a_conversation_goes_back_to_the_slot_that_holds_its_kv() -> None:
    device = Device(3)
    slots: dict[str, int] = {}
    for name in "abc":
        device.add(request(name))
        plan = device.scheduler.plan(CHUNK)
        assert isinstance(plan, Admit)
        slots[name] = plan.slot
        device.admit(plan)
        device.run()
    assert sorted(slots.values()) == [0, 1, 2]
    for name in "bca":
        device.add(request(f"{name}2", name))
        plan = device.scheduler.plan(CHUNK)
        assert isinstance(plan, Admit)
        assert plan.slot == slots[name]
        device.admit(plan)
        device.run()


def test_a_slot_that_another_conversation_has_used_since_is_no_home_any_more() -> None:
    device = Device(2)
    for name in ("a", "b", "c"):  # c takes the slot of a, unused for longest
        device.add(request(name))
        device.run()
    device.add(request("a2", "a"))
    device.step()
    assert device.on_slot[1].id == "a2"


def test_prompts_are_read_chunk_by_chunk_in_turn() -> None:
    device = Device(3)
    for name in "abc":
        device.add(request(name), prompt=3 * CHUNK)
    device.run()
    assert [entry for entry in device.log if entry.startswith("prefill")][:6] == [
        f"prefill {name}" for name in "abcabc"
    ]


def test_a_background_prompt_is_read_behind_interactive_ones_but_not_left_alone() -> None:
    device = Device(3)
    device.add(request("behind", background=True), prompt=2 * CHUNK)
    for name in "ab":
        device.add(request(name), prompt=2 * PATIENCE * CHUNK)
    device.run()
    read = [entry.split()[1] for entry in device.log if entry.startswith("prefill")]
    assert [index for index, name in enumerate(read) if name == "behind"] == [PATIENCE, 2 * PATIENCE + 1]


def test_the_background_request_that_came_last_gives_way_and_then_goes_on_before_later_ones() -> None:
    device = Device(2)
    for name in ("first", "second", "third"):
        device.add(request(name, background=True), prompt=40)
    for _ in range(5):
        device.step()
    device.add(request("quick"))
    device.step()
    assert {other.id for other in device.on_slot.values()} == {"first", "quick"}
    device.run()
    assert device.finished == ["quick", "first", "second", "third"]


def test_an_admission_says_why() -> None:
    device = Device(1)
    device.add(request("behind", background=True), prompt=40)
    reasons = [device.scheduler.plan(CHUNK)]
    device.admit(reasons[0])
    for index in range(PATIENCE + 1):
        device.add(request(f"r{index}"))
    while len(reasons) < PATIENCE + 2:
        plan = device.scheduler.plan(CHUNK)
        device.execute(plan)
        if isinstance(plan, Admit):
            reasons.append(plan)
    assert [plan.reason for plan in reasons] == [
        "a slot was free",
        "a background answer gave way",
        *["a slot was free"] * (PATIENCE - 1),
        f"after {PATIENCE} interactive requests",
    ]
    assert [plan.gave_way.id for plan in reasons if plan.gave_way] == ["behind"]


def places(device: Device) -> dict[str, int]:
    return {event.request_id: event.position for event in device.scheduler.moved()}


def test_who_waits_learns_how_many_come_before_and_only_when_that_changes() -> None:
    device = Device(2)
    for name in "abcd":
        device.add(request(name))
    assert places(device) == {"a": 0, "b": 0, "c": 1, "d": 2}
    device.step()
    device.step()
    assert places(device) == {}
    device.cancel("a")
    assert places(device) == {"c": 0, "d": 1}
    device.step()
    device.add(request("e", background=True))
    assert places(device) == {"e": 2}


def test_who_waits_learns_why() -> None:
    device = Device(1)
    device.add(request("now"))
    device.step()
    device.scheduler.moved()
    device.add(request("next"))
    device.add(request("again", "now"))
    device.add(request("behind", background=True))
    assert device.scheduler.moved() == [
        Queued("next", 1, "turn"),
        Queued("again", 2, "conversation", "now"),
        Queued("behind", 3, "interactive", "now"),
    ]
    device.cancel("now", "again", "next")
    assert device.scheduler.moved() == [Queued("behind", 0, "next")]


def test_a_second_request_waits_for_its_conversation_also_beside_a_free_slot() -> None:
    device = Device(2)
    device.add(request("first", "c"))
    device.step()
    device.add(request("second", "c"))
    assert device.scheduler.moved() == [Queued("second", 1, "conversation", "first")]


def test_among_background_requests_the_cause_is_the_turn() -> None:
    device = Device(1)
    for name in "ab":
        device.add(request(name, background=True))
    device.step()
    assert device.scheduler.moved() == [Queued("b", 1, "turn")]
    device.add(request("quick"))
    assert device.scheduler.moved()[-1] == Queued("b", 2, "interactive", "quick")
    device.step()
    assert Queued("a", 1, "gave_way", "quick") in device.scheduler.moved()


def test_a_background_answer_that_gave_way_learns_that_it_waits() -> None:
    device = Device(1)
    device.add(request("behind", background=True), prompt=40)
    assert places(device) == {"behind": 0}
    device.step()
    device.add(request("quick"))
    assert places(device) == {"quick": 0}
    device.step()
    assert places(device) == {"behind": 1}
