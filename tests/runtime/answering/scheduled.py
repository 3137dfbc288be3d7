"""A device that executes the scheduler's plans, and checks at each what must hold at all times."""

from __future__ import annotations

from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from runtime.answering.request import Request
from runtime.answering.scheduler import Admit, Decode, Plan, Prefill, Scheduler
from runtime.messages import Generate
from runtime.sampling.params import SamplingRequest

CHUNK = 4


def request(name: str, conversation: str = "", *, background: bool = False) -> Request:
    priority = "background" if background else "interactive"
    return Request.of(Generate(name, conversation or name, "m", (), SamplingRequest(), 1, priority))


@dataclass
class Device:
    """What the engine and a model would do with the plans, in numbers of tokens only."""

    slots: int
    copies: int = 1
    prompts: dict[str, int] = field(default_factory=dict)
    answers: dict[str, int] = field(default_factory=dict)
    scheduler: Scheduler = field(init=False)
    on_slot: dict[int, Request] = field(default_factory=dict)
    begun: dict[str, Request] = field(default_factory=dict)
    """Put on a slot at least once, and not at an end."""
    finished: list[str] = field(default_factory=list)
    gone: set[str] = field(default_factory=set)
    log: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.scheduler = Scheduler(self.slots, self.copies)

    def add(self, new: Request, prompt: int = 6, answer: int = 3) -> Request:
        self.prompts[new.id], self.answers[new.id] = prompt, answer
        new.clock.submitted = len(self.prompts)
        self.scheduler.add(new)
        return new

    def cancel(self, *names: str) -> None:
        for taken in self.scheduler.take_out(lambda other: other.id in names):
            self.gone.add(taken.id)
            self._left(taken)

    def step(self) -> bool:
        plan = self.scheduler.plan(CHUNK)
        if plan is not None:
            self.execute(plan)
        return plan is not None

    def execute(self, plan: Plan) -> None:
        if isinstance(plan, Admit):
            self.admit(plan)
        elif isinstance(plan, Prefill):
            self._prefill(plan)
        else:
            self._decode(plan)

    def run(self) -> None:
        for _ in range(10_000):
            if not self.step():
                return
        raise AssertionError("the scheduler never comes to an end")

    def admit(self, plan: Admit) -> None:
        new = plan.request
        assert 0 <= plan.slot < self.slots
        assert new.id not in self.gone
        assert new.id not in self.finished
        before = self.on_slot.pop(plan.slot, None)
        assert before is plan.gave_way, "the slot is somebody's"
        assert before is None or (before.background and not new.background)
        assert new.conversation_id not in {other.conversation_id for other in self.on_slot.values()}
        halfway = {other.conversation_id for other in self.begun.values()}
        assert new.id in self.begun or new.conversation_id not in halfway, "its KV is in use"
        self.begun[new.id] = self.on_slot[plan.slot] = new
        self.log.append(f"admit {new.id}")
        if new.running is None:
            running: Any = SimpleNamespace(
                computed=0, prompt=SimpleNamespace(token_ids=[0] * self.prompts[new.id])
            )
            new.running = running

    def _prefill(self, plan: Prefill) -> None:
        slots = self._holds_slots(*plan.requests)
        assert len({slot % self.copies for slot in slots}) == len(slots), "one chunk a copy"
        self.log.append("prefill " + " ".join(other.id for other in plan.requests))
        for chunk in plan.chunks:
            running: Any = chunk.request.running
            assert chunk.start == running.computed < chunk.end <= self.prompts[chunk.request.id]
            assert chunk.end - chunk.start == min(CHUNK, self.prompts[chunk.request.id] - chunk.start)
            running.computed = chunk.end
            if chunk.request.prompt_done:
                self._token(chunk.request)

    def _decode(self, plan: Decode) -> None:
        self._holds_slots(*plan.requests)
        assert all(other.prompt_done for other in plan.requests)
        self.log.append("decode " + " ".join(other.id for other in plan.requests))
        for other in plan.requests:
            self._token(other)

    def _holds_slots(self, *requests: Request) -> list[int]:
        """Each request has a slot of its own, and nobody computes who was cancelled or has ended."""
        assert requests
        slots = [slot for each in requests for slot, other in self.on_slot.items() if other is each]
        assert len(set(slots)) == len(slots) == len(requests)
        return slots

    def _token(self, done: Request) -> None:
        assert len(done.output_ids) < self.answers[done.id]
        done.output_ids.append(0)
        if len(done.output_ids) == self.answers[done.id]:
            self.finished.append(done.id)
            self.scheduler.release(done)
            self._left(done)

    def _left(self, left: Request) -> None:
        self.begun.pop(left.id, None)
        self.on_slot = {slot: other for slot, other in self.on_slot.items() if other is not left}
