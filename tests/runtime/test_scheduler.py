"""The scheduler's promises as properties: nothing starves, no slot has two, cancelled work never runs."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from runtime.messages import Generate
from runtime.request import Request
from runtime.sampling_params import SamplingRequest
from runtime.scheduler import PATIENCE, Admit, Decode, Prefill, Scheduler

CHUNK = 4


def request(name: str, conversation: str = "", *, background: bool = False) -> Request:
    priority = "background" if background else "interactive"
    return Request.of(Generate(name, conversation or name, "m", (), SamplingRequest(), len(name), priority))


@dataclass
class Device:
    """Executes plans, and checks at each what must hold at all times."""

    slots: int
    prompts: dict[str, int] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    scheduler: Scheduler = field(init=False)
    on_slot: dict[int, Request] = field(default_factory=dict)
    begun: list[Request] = field(default_factory=list)
    finished: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.slots)

    def add(self, new: Request, prompt: int = 6, answer: int = 3) -> Request:
        self.prompts[new.id], self.answers[new.id] = prompt, answer
        self.scheduler.add(new)
        return new

    def step(self) -> bool:
        plan = self.scheduler.plan(CHUNK)
        if plan is None:
            return False
        if isinstance(plan, Admit):
            self._admit(plan)
        elif isinstance(plan, Prefill):
            self._prefill(plan)
        else:
            self._decode(plan)
        return True

    def run(self) -> None:
        for _ in range(10_000):
            if not self.step():
                return
        raise AssertionError("the scheduler never comes to an end")

    def _admit(self, plan: Admit) -> None:
        assert 0 <= plan.slot < self.slots
        assert plan.request.id not in self.gone
        self.on_slot = {
            slot: other
            for slot, other in self.on_slot.items()
            if other.id not in self.finished and other.id not in self.gone and slot != plan.slot
        }
        others = [other for other in self.on_slot.values() if other is not plan.request]
        assert plan.request.conversation_id not in {other.conversation_id for other in others}
        ended = {*self.finished, *self.gone}
        halfway = {other.conversation_id for other in self.begun if other.id not in ended}
        assert plan.request in self.begun or plan.request.conversation_id not in halfway, "its KV is in use"
        self.begun.append(plan.request)
        self.on_slot[plan.slot] = plan.request
        self.log.append(f"admit {plan.request.id}")
        if plan.request.running is None:
            running: Any = SimpleNamespace(
                computed=0, prompt=SimpleNamespace(token_ids=[0] * self.prompts[plan.request.id])
            )
            plan.request.running = running

    def _prefill(self, plan: Prefill) -> None:
        running: Any = plan.request.running
        assert plan.request.id not in self.gone
        assert plan.start == running.computed < plan.end <= self.prompts[plan.request.id]
        assert plan.end - plan.start <= CHUNK
        self.log.append(f"prefill {plan.request.id}")
        running.computed = plan.end
        if plan.request.prompt_done:
            self._token(plan.request)

    def _decode(self, plan: Decode) -> None:
        assert 0 < len(plan.requests) <= self.slots
        assert len({other.conversation_id for other in plan.requests}) == len(plan.requests)
        self.log.append("decode " + " ".join(other.id for other in plan.requests))
        for other in plan.requests:
            assert other.prompt_done
            assert other.id not in self.gone
            self._token(other)

    def _token(self, done: Request) -> None:
        done.output_ids.append(0)
        assert len(done.output_ids) <= self.answers[done.id]
        if len(done.output_ids) == self.answers[done.id]:
            self.finished.append(done.id)
            self.scheduler.release(done)


WORK = st.lists(
    st.tuples(
        st.sampled_from("abcde"), st.booleans(), st.integers(1, 14), st.integers(1, 5), st.integers(0, 6)
    ),
    min_size=1,
    max_size=12,
)


@given(st.integers(1, 4), WORK)
def test_everything_that_is_asked_is_answered(
    slots: int, work: list[tuple[str, bool, int, int, int]]
) -> None:
    device = Device(slots)
    for index, (conversation, background, prompt, answer, steps) in enumerate(work):
        device.add(request(f"r{index}", conversation, background=background), prompt, answer)
        for _ in range(steps):
            device.step()
    device.run()
    assert sorted(device.finished) == sorted(f"r{index}" for index in range(len(work)))


@given(st.integers(1, 3), WORK, st.data())
def test_cancelled_work_never_runs(
    slots: int, work: list[tuple[str, bool, int, int, int]], data: st.DataObject
) -> None:
    device = Device(slots)
    for index, (conversation, background, prompt, answer, steps) in enumerate(work):
        device.add(request(f"r{index}", conversation, background=background), prompt, answer)
        for _ in range(steps):
            device.step()
        victims = data.draw(st.sets(st.integers(0, index), max_size=2))
        taken = device.scheduler.take_out(lambda other, v=victims: int(other.id[1:]) in v)
        device.gone |= {other.id for other in taken}
    device.run()
    assert device.gone.isdisjoint(device.finished)
    assert device.gone | set(device.finished) == {f"r{index}" for index in range(len(work))}


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


def test_a_background_request_gets_its_turn_among_many_interactive_ones() -> None:
    device = Device(1)
    device.add(request("behind", background=True))
    for index in range(PATIENCE * 3):
        device.add(request(f"r{index}"))
    device.run()
    assert device.finished.index("behind") <= 3 * PATIENCE - 2


def test_a_conversation_goes_back_to_the_slot_that_holds_its_kv() -> None:
    device = Device(3)
    slots: dict[str, int] = {}
    for name in "abc":
        device.add(request(name))
        plan = device.scheduler.plan(CHUNK)
        assert isinstance(plan, Admit)
        slots[name] = plan.slot
        device._admit(plan)
        device.run()
    assert sorted(slots.values()) == [0, 1, 2]
    for name in "bca":
        device.add(request(f"{name}2", name))
        plan = device.scheduler.plan(CHUNK)
        assert isinstance(plan, Admit)
        assert plan.slot == slots[name]
        device._admit(plan)
        device.run()
