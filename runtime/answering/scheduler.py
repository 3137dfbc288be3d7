"""Who runs next, and on which KV slot: pure decisions over requests, no model, no clock.

Each slot of the model holds one conversation at a time. A step is one of: put a waiting request on a slot,
compute a chunk of one prompt on each copy of the model, or decode one token for every request that is past
its prompt. Chunks and decode steps take turns, so an answer goes on flowing while another prompt is read.
Interactive requests come before background ones and take a slot from them when none is free; every so often a
background request gets its turn all the same. Conversations are served in turn: a second request of one waits
for the first requests of all.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from runtime.answering.request import Request
from runtime.messages import Queued

PATIENCE = 8
"""Interactive requests, or chunks of their prompts, in a row before background work that waits goes first."""

QUANTUM = 8
"""Tokens that a request which so came to a slot has before it may have to give way again; a chunk counts
for all of them, so that nobody waits longer for it than for one chunk."""


@dataclass(frozen=True, slots=True)
class Admit:
    """Put the request on the slot: for the first time, or again after it gave way."""

    request: Request
    slot: int
    reason: str
    """Why now, in words."""
    gave_way: Request | None = None
    """The request that had the slot and waits again."""


@dataclass(frozen=True, slots=True)
class Chunk:
    """Prompt positions `start..end`."""

    request: Request
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Prefill:
    """Compute the chunks, each on another copy of the model, in one call."""

    chunks: tuple[Chunk, ...]

    @property
    def requests(self) -> tuple[Request, ...]:
        """Whose prompts are read."""
        return tuple(chunk.request for chunk in self.chunks)

    def alone(self) -> list[Prefill]:
        """The same as one call for each."""
        return [Prefill((chunk,)) for chunk in self.chunks]


@dataclass(frozen=True, slots=True)
class Decode:
    """Compute one more token for each request, in one call."""

    requests: tuple[Request, ...]

    def alone(self) -> list[Decode]:
        """The same as one call for each."""
        return [Decode((request,)) for request in self.requests]


Plan: TypeAlias = Admit | Prefill | Decode


class Scheduler:
    """The queue, and the requests that hold slots."""

    def __init__(self, slots: int = 1, copies: int = 1) -> None:
        self._waiting: list[Request] = []
        self._active: dict[int, Request] = {}
        self._turn = 0.0
        """A conversation's requests take one turn each, and a turn is over when so many have ended as there
        are conversations: who comes while it lasts still takes part in it, but cannot hold up the next."""
        self._passed_over = 0
        """Interactive requests admitted in a row while a background one waited."""
        self._chunks_passed_over = 0
        """The same of chunks, while a background prompt was being read."""
        self._shielded = ""
        """The request that does not give way, by id, so that nothing of it is kept once it has ended."""
        self._credit = 0
        """What it has left of its quantum."""
        self._decoded_last = True
        self._told: dict[str, Queued] = {}
        self.resize(slots, copies)

    def resize(self, slots: int, copies: int = 1) -> None:
        """Another model with that many slots, dealt to its copies in turn; nothing may be active."""
        assert not self._active
        self._slots = slots
        self._copies = copies
        self._count = 0
        """Admissions and chunks, to tell what was longer ago."""
        self._last_use = dict.fromkeys(range(slots), 0)
        self._last_chunk = dict.fromkeys(range(slots), 0)
        self._tenants: dict[int, str] = {}
        """The conversation whose KV each slot held last."""

    def add(self, request: Request) -> None:
        """Queue a request."""
        of_conversation = (
            other.turn + 1
            for other in (*self._waiting, *self._active.values())
            if other.conversation_id == request.conversation_id
        )
        request.turn = max(self._turn, *of_conversation, 0)
        self._waiting.append(request)

    def plan(self, prefill_chunk: int) -> Plan | None:
        """The next step, or None when there is nothing to do."""
        admit = self._admit()
        if admit is not None:
            return admit
        reading = {slot: request for slot, request in self._active.items() if not request.prompt_done}
        writing = tuple(request for request in self._active.values() if request.prompt_done)
        if reading and (self._decoded_last or not writing):
            self._decoded_last = False
            return self._prefill(reading, prefill_chunk)
        if writing:
            self._decoded_last = True
            self._spend(1, *writing)
            return Decode(writing)
        return None

    def take_out(self, leaves: Callable[[Request], bool]) -> list[Request]:
        """Remove and return every request for which `leaves` is true, queued or active."""
        gone = [request for request in (*self._waiting, *self._active.values()) if leaves(request)]
        if gone:
            ids = {id(request) for request in gone}
            self._waiting = [request for request in self._waiting if id(request) not in ids]
        for request in gone:
            self.release(request)
        return gone

    def release(self, request: Request) -> None:
        """The request has ended, or waits no more; its slot is free."""
        if any(other is request for other in self._active.values()):
            everyone = (*self._waiting, *self._active.values())
            self._turn += 1 / len({other.conversation_id for other in everyone})
        self._drop(request)

    def _drop(self, request: Request) -> None:
        self._waiting = [other for other in self._waiting if other is not request]
        self._active = {slot: other for slot, other in self._active.items() if other is not request}

    def moved(self) -> list[Queued]:
        """Waiting requests whose place, or its cause, has changed since the last call; a place is the number
        of requests that have to end, or get a slot, before it."""
        free = self._slots - len(self._active)
        held = sum(other.background for other in self._active.values())
        holders, first = self._holders(), self._asked_now()
        places = {}
        for index, request in enumerate(self._in_order()):
            within_reach = free if request.background else free + held
            place = max(0, index + 1 - within_reach)
            holder = holders.get(request.conversation_id, request)
            if holder is not request:
                places[request.id] = Queued(request.id, max(1, place), "conversation", holder.id)
            else:
                places[request.id] = _place(request, place, first)
        news = [place for request_id, place in places.items() if self._told.get(request_id) != place]
        self._told = places
        return news

    def _asked_now(self) -> Request | None:
        """The interactive request that background ones wait for: one being answered, or the first to be."""
        everyone = (*self._active.values(), *self._in_order())
        return next((request for request in everyone if not request.background), None)

    # -- slots --------------------------------------------------------------------------------------

    def _admit(self) -> Admit | None:
        full = len(self._active) == self._slots
        candidates = [] if full and not self._can_give_way() else self._candidates()
        if not candidates:
            return None
        request = self._choose(candidates, full=full)
        gave_way = self._make_room() if full and not request.background else None
        if full and gave_way is None:
            return None
        overdue = request.background and not candidates[0].background
        passed_over = gave_way is not None or any(other.background for other in candidates)
        self._passed_over = self._passed_over + 1 if passed_over and not request.background else 0
        if overdue:
            self._shielded, self._credit = request.id, QUANTUM
        self._turn = max(self._turn, request.turn)
        self._waiting = [other for other in self._waiting if other is not request]
        return Admit(request, self._put_on_slot(request), _reason(gave_way, overdue=overdue), gave_way)

    def _candidates(self) -> list[Request]:
        """Waiting requests that may run, in their order: of each conversation one at a time.

        A conversation has one cache: what gave way in the middle of it comes first, not its next request.
        """
        holders = self._holders()
        return [
            request
            for request in self._in_order()
            if holders.get(request.conversation_id, request) is request
        ]

    def _holders(self) -> dict[str, Request]:
        """By conversation, the request that its cache belongs to until it has ended."""
        holders = {request.conversation_id: request for request in self._waiting if request.running}
        return holders | {request.conversation_id: request for request in self._active.values()}

    def _choose(self, candidates: list[Request], *, full: bool) -> Request:
        """The first candidate; after many interactive ones, a background request that waits behind them."""
        if not full and self._passed_over >= PATIENCE:
            return next((request for request in candidates if request.background), candidates[0])
        return candidates[0]

    def _can_give_way(self) -> list[Request]:
        return [other for other in self._active.values() if other.background and other.id != self._shielded]

    def _make_room(self) -> Request | None:
        """Let the background request that came last give way."""
        yielding = max(self._can_give_way(), key=lambda other: other.clock.submitted, default=None)
        if yielding is not None:
            self._drop(yielding)
            self._waiting.insert(0, yielding)
        return yielding

    def _put_on_slot(self, request: Request) -> int:
        """Where the conversation's KV still is, if that slot is free; else the one unused for longest."""
        self._count += 1
        slot = min(
            (slot for slot in range(self._slots) if slot not in self._active),
            key=lambda slot: (self._tenants.get(slot) != request.conversation_id, self._last_use[slot]),
        )
        self._active[slot] = request
        self._tenants[slot] = request.conversation_id
        self._last_use[slot] = self._last_chunk[slot] = self._count
        return slot

    def _in_order(self) -> list[Request]:
        """Waiting requests as they will be served: interactive first, then by turn, then by arrival."""
        return sorted(self._waiting, key=lambda request: (request.background, request.turn))

    # -- steps --------------------------------------------------------------------------------------

    def _prefill(self, reading: dict[int, Request], prefill_chunk: int) -> Prefill:
        """The next chunk of the prompt whose turn it is, and one on each copy that would be idle."""
        slots = [self._reader(reading)]
        for copy in range(self._copies):
            if copy != slots[0] % self._copies:
                slots += self._first_on(copy, reading)
        self._count += 1
        self._last_chunk.update(dict.fromkeys(slots, self._count))
        chunks = tuple(_chunk(reading[slot], prefill_chunk) for slot in slots)
        self._spend(QUANTUM, *(chunk.request for chunk in chunks))
        return Prefill(chunks)

    def _first_on(self, copy: int, reading: dict[int, Request]) -> list[int]:
        """The slot to read on there, if any: interactive prompts first, else in turn."""
        slots = [slot for slot in reading if slot % self._copies == copy]
        return sorted(slots, key=lambda slot: (reading[slot].background, self._last_chunk[slot]))[:1]

    def _reader(self, reading: dict[int, Request]) -> int:
        """The slot to read on: interactive prompts in turn, and one in the background every so often."""
        behind = [slot for slot, request in reading.items() if request.background]
        ahead = [slot for slot in reading if slot not in behind]
        shielded = [slot for slot in behind if reading[slot].id == self._shielded]
        overdue = bool(behind) and self._chunks_passed_over >= PATIENCE
        chosen = shielded or (behind if overdue or not ahead else ahead)
        self._chunks_passed_over = self._chunks_passed_over + 1 if behind and chosen is ahead else 0
        return min(chosen, key=self._last_chunk.__getitem__)

    def _spend(self, amount: int, *requests: Request) -> None:
        """A step is for these requests: a shielded one among them uses up its quantum."""
        if any(request.id == self._shielded for request in requests):
            self._credit -= amount
            if self._credit <= 0:
                self._shielded = ""


def _chunk(request: Request, longest: int) -> Chunk:
    """The next positions of a prompt that is being read."""
    running = request.require_running()
    total = len(running.prompt.token_ids)
    return Chunk(request, running.computed, min(running.computed + longest, total))


def _place(request: Request, place: int, first: Request | None) -> Queued:
    """Where a request is that could run, and why it does not yet; `first` is what somebody asks now."""
    if place == 0:
        return Queued(request.id, 0, "next")
    if not request.background or first is None:
        return Queued(request.id, place, "turn")
    return Queued(request.id, place, "interactive" if request.running is None else "gave_way", first.id)


def _reason(gave_way: Request | None, *, overdue: bool) -> str:
    if gave_way is not None:
        return "a background answer gave way"
    return f"after {PATIENCE} interactive requests" if overdue else "a slot was free"
