"""A generation in the engine's hands. Mutable; never leaves the runtime."""

from __future__ import annotations

import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.messages import Finished, Generate, Reuse, Speculation, StopReason, Timings, Turn, Usage

if TYPE_CHECKING:
    from runtime.answering.context_policy import Fit
    from runtime.answering.stop_strings import StopStrings
    from runtime.families.base import Prompt, Round, TokenStream
    from runtime.kv.cache import KvCache
    from runtime.sampling.sampler import Sampler, Sampling


@dataclass(slots=True)
class Clock:
    """When each phase began or ended, in perf_counter_ns; 0 means not yet."""

    submitted: int
    admitted: int = 0
    rendered: int = 0
    tokenised: int = 0
    prefilled: int = 0
    first_token: int = 0
    finished: int = 0
    gave_way: int = 0
    waited_to_read: int = 0
    """Time without a slot before the prompt was read, after it had been begun."""
    waited_to_write: int = 0
    """The same in the middle of the answer."""

    def give_way(self, now: int) -> None:
        """The slot is somebody else's from now on."""
        self.gave_way = now

    def go_on(self, now: int) -> None:
        """The slot is given back, or the request ends without one."""
        if self.gave_way and self.prefilled:
            self.waited_to_write += now - self.gave_way
        elif self.gave_way:
            self.waited_to_read += now - self.gave_way
        self.gave_way = 0

    def end(self, now: int) -> None:
        """The request has ended."""
        self.go_on(now)
        self.finished = now

    def timings(self) -> Timings:
        """The phases in seconds; a phase that was never reached is 0."""

        def between(start: int, end: int) -> float:
            return max(0, end - start) / 1e9 if start and end else 0.0

        waited = (self.waited_to_read + self.waited_to_write) / 1e9
        return Timings(
            queue=between(self.submitted, self.admitted or self.finished) + waited,
            template=between(self.admitted, self.rendered),
            tokenise=between(self.rendered, self.tokenised),
            prefill=between(self.tokenised, self.prefilled or self.finished) - self.waited_to_read / 1e9,
            decode=between(self.prefilled, self.finished) - self.waited_to_write / 1e9,
            first_token=between(self.submitted, self.first_token),
            total=between(self.submitted, self.finished),
        )


@dataclass(slots=True)
class Running:
    """What a request owns once it is admitted."""

    prompt: Prompt
    turns: tuple[Turn, ...]
    """The turns the prompt was made of; earlier ones may have been left out."""
    left_out: int
    """Turns left out so far."""
    cache: KvCache
    reuse: Reuse
    """How the prompt met what was kept of the conversation."""
    sampling: Sampling
    sampler: Sampler
    stream: TokenStream
    stops: StopStrings
    prompt_tokens: int
    """Length of the prompt when the answer began."""
    cached: int
    """Its positions reused."""
    computed: int
    """Prompt positions in the cache, reused ones included."""
    budget: int
    """Most tokens this answer may have."""
    budget_reason: StopReason
    """Why it would stop there: its own limit or the model's context."""
    began: int = field(init=False)
    """Prompt positions that were reused when the reading that is going on, or was the last, began."""

    speculation: Speculation | None = None
    """How the draft did so far, of a model that has one."""

    def __post_init__(self) -> None:
        self.began = self.computed

    def count(self, settled: Round) -> None:
        """A round of speculation is over; the one that only began the answer had no draft to check."""
        before = self.speculation or Speculation(0, 0, 0)
        self.speculation = Speculation(
            before.rounds + (settled.drafted > 0),
            before.drafted + settled.drafted,
            before.accepted + settled.accepted,
        )

    def lose_kv(self) -> None:
        """Nothing of the prompt is in the cache any more, for its KV was lost or not what it should be."""
        self.computed = self.began = self.cached = 0
        self.reuse = Reuse(self.reuse.held, "rejected")

    def read_again(self, fitted: Fit[Prompt], cache: KvCache, kept: int) -> None:
        """Go on after a shorter prompt, which ends with the answer so far; `kept` positions are computed."""
        self.prompt, self.turns = fitted.prompt, fitted.turns
        self.left_out += fitted.left_out
        self.cache, self.computed, self.began = cache, kept, kept


@dataclass(slots=True)
class Request:
    """One `Generate` from queue to finish."""

    command: Generate
    clock: Clock
    running: Running | None = None
    output_ids: list[int] = field(default_factory=list)
    turn: float = 0.0
    """Its conversation's place among the others; the scheduler's."""

    @classmethod
    def of(cls, command: Generate) -> Request:
        """A request that has just arrived."""
        return cls(command, Clock(submitted=command.submitted_ns or time.perf_counter_ns()))

    @property
    def id(self) -> str:
        """The request id."""
        return self.command.request_id

    @property
    def conversation_id(self) -> str:
        """Whose KV cache it uses; only one request of a conversation runs at a time."""
        return self.command.conversation_id

    @property
    def background(self) -> bool:
        """Whether it gives way to what somebody waits for."""
        return self.command.priority == "background"

    @property
    def room(self) -> int:
        """Tokens that its answer may still have."""
        return self.running.budget - len(self.output_ids) if self.running is not None else 0

    def require_running(self) -> Running:
        """The same as `running`, of a request that is known to have been admitted."""
        assert self.running is not None, f"{self.id} has not been admitted"
        return self.running

    @property
    def prompt_done(self) -> bool:
        """Whether every position of the prompt is computed."""
        running = self.running
        return running is not None and running.computed >= len(running.prompt.token_ids)

    def usage(self) -> Usage:
        """Token counts so far."""
        running = self.running
        if running is None:
            return Usage(0, 0, 0)
        return Usage(running.prompt_tokens, running.cached, len(self.output_ids))

    def finished(self, reason: StopReason, device: str) -> Finished:
        """How it came out."""
        running = self.running
        return Finished(
            self.id,
            reason,
            self.usage(),
            self.clock.timings(),
            device,
            sampling=running.sampling.used if running is not None else (),
            left_out=running.left_out if running is not None else 0,
            reuse=running.reuse if running is not None else None,
            speculation=running.speculation if running is not None else None,
        )
