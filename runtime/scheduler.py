"""Who runs next, and on which KV slot: pure decisions over requests, no model, no clock.

Each slot of the model holds one conversation at a time. A step is one of: put a waiting request on a slot,
compute one chunk of one prompt, or decode one token for every request that is past its prompt. Chunks and
decode steps take turns, so an answer goes on flowing while another prompt is read. Interactive requests
come before background ones and take a slot from them when none is free; every so often a background request
gets its turn all the same. Conversations are served in turn: a second request of one waits for the first
requests of all.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import TypeAlias

from runtime.request import Request

PATIENCE = 8
"""Interactive requests in a row before a waiting background request goes first."""

QUANTUM = 8
"""Steps it then has before it may have to give way again."""


@dataclass(frozen=True, slots=True)
class Admit:
    """Put the request on the slot: for the first time, or again after it gave way."""

    request: Request
    slot: int


@dataclass(frozen=True, slots=True)
class Prefill:
    """Compute prompt positions `start..end`."""

    request: Request
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Decode:
    """Compute one more token for each request, in one call."""

    requests: tuple[Request, ...]


Plan: TypeAlias = Admit | Prefill | Decode


class Scheduler:
    """The queue, and the requests that hold slots."""

    def __init__(self, slots: int = 1) -> None:
        self._waiting: list[tuple[int, Request]] = []
        """Each with its turn: a conversation's requests take one turn each, all conversations share them."""
        self._turn = 0
        self._next_turn: dict[str, int] = {}
        self._active: dict[int, Request] = {}
        self._slots = slots
        self._homes: dict[str, int] = {}
        self._last_use = dict.fromkeys(range(slots), 0)
        self._admitted = 0
        self._passed_over = 0
        self._shield = 0
        self._decoded_last = True
        self._prefilled_last: Request | None = None

    def resize(self, slots: int) -> None:
        """Another model with that many slots; nothing may be active."""
        assert not self._active
        self._slots = slots
        self._homes.clear()
        self._last_use = dict.fromkeys(range(slots), 0)

    def add(self, request: Request) -> None:
        """Queue a request."""
        turn = max(self._turn, self._next_turn.get(request.conversation_id, 0))
        self._next_turn[request.conversation_id] = turn + 1
        self._waiting.append((turn, request))

    def plan(self, prefill_chunk: int) -> Plan | None:
        """The next step, or None when there is nothing to do."""
        admit = self._admit()
        if admit is not None:
            return admit
        self._shield = max(0, self._shield - 1)
        reading = [request for request in self._active.values() if not request.prompt_done]
        writing = [request for request in self._active.values() if request.prompt_done]
        if reading and (self._decoded_last or not writing):
            self._decoded_last = False
            return self._chunk(reading, prefill_chunk)
        if writing:
            self._decoded_last = True
            return Decode(tuple(writing))
        return None

    def take_out(self, leaves: Callable[[Request], bool]) -> list[Request]:
        """Remove and return every request for which `leaves` is true, queued or active."""
        gone = [request for _, request in self._waiting if leaves(request)]
        self._waiting = [item for item in self._waiting if item[1] not in gone]
        for request in list(self._active.values()):
            if leaves(request):
                self.release(request)
                gone.append(request)
        return gone

    def release(self, request: Request) -> None:
        """The request is finished; its slot is free."""
        self._active = {slot: other for slot, other in self._active.items() if other is not request}

    def positions(self) -> list[tuple[Request, int]]:
        """Waiting requests with the number of requests that come before them."""
        ahead = 0 if len(self._active) < self._slots else 1
        return [(request, index + ahead) for index, request in enumerate(self._in_order())]

    # -- decisions ----------------------------------------------------------------------------------

    def _admit(self) -> Admit | None:
        # A conversation has one cache: what gave way in the middle of it comes first, not the next request.
        first = {request.conversation_id: request for _, request in self._waiting if request.running}
        first.update({request.conversation_id: request for request in self._active.values()})
        candidates = [
            request for request in self._in_order() if first.get(request.conversation_id, request) is request
        ]
        if not candidates:
            return None
        request = self._choose(candidates)
        if len(self._active) == self._slots and not self._make_room(request):
            return None
        turn = next(turn for turn, waiting in self._waiting if waiting is request)
        self._waiting = [item for item in self._waiting if item[1] is not request]
        self._turn = max(self._turn, turn)
        slot = self._free_slot(request.conversation_id)
        self._active[slot] = request
        self._admitted += 1
        self._homes[request.conversation_id] = slot
        self._last_use[slot] = self._admitted
        return Admit(request, slot)

    def _choose(self, candidates: list[Request]) -> Request:
        """The first candidate; after many interactive ones, a background request that waits behind them."""
        behind = [request for request in candidates if request.background]
        if not behind or len(self._active) == self._slots:
            return candidates[0]
        if self._passed_over >= PATIENCE or candidates[0].background:
            self._shield = QUANTUM if self._passed_over >= PATIENCE else 0
            self._passed_over = 0
            return behind[0]
        self._passed_over += 1
        return candidates[0]

    def _make_room(self, request: Request) -> bool:
        """Let the background request that came last give way to an interactive one."""
        behind = [other for other in self._active.values() if other.background]
        if request.background or not behind or self._shield:
            return False
        yielding = max(behind, key=lambda other: other.clock.submitted)
        self.release(yielding)
        self._waiting.append((self._turn, yielding))
        self._passed_over += 1
        return True

    def _free_slot(self, conversation_id: str) -> int:
        """Where the conversation's KV still is, if that slot is free; else the one unused for longest."""
        free = [slot for slot in range(self._slots) if slot not in self._active]
        home = self._homes.get(conversation_id)
        return home if home in free else min(free, key=self._last_use.__getitem__)

    def _in_order(self) -> list[Request]:
        """Waiting requests as they will be served: interactive first, then by turn, then by arrival."""
        return [
            request for _, request in sorted(self._waiting, key=lambda item: (item[1].background, item[0]))
        ]

    def _chunk(self, reading: Iterable[Request], prefill_chunk: int) -> Prefill:
        """The next chunk, interactive prompts first, else each in turn."""
        ordered = sorted(reading, key=lambda request: (request.background, request is self._prefilled_last))
        request = self._prefilled_last = ordered[0]
        running = request.running
        assert running is not None
        total = len(running.prompt.token_ids)
        return Prefill(request, running.computed, min(running.computed + prefill_chunk, total))
