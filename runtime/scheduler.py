"""Who runs next: pure decisions over requests, no model, no clock.

A model with one KV slot answers one conversation at a time: switching in the middle of an answer would copy
its whole KV twice a step. So requests run in the order they came, and a prefill is cut into chunks so that
a cancel is seen between them.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias

from runtime.request import Request


@dataclass(frozen=True, slots=True)
class Admit:
    """Start the request: render, tokenise, find its cache."""

    request: Request


@dataclass(frozen=True, slots=True)
class Prefill:
    """Compute prompt positions `start..end`."""

    request: Request
    start: int
    end: int


@dataclass(frozen=True, slots=True)
class Decode:
    """Compute one more token."""

    request: Request


Plan: TypeAlias = Admit | Prefill | Decode


class Scheduler:
    """The queue and the request that holds the slot."""

    def __init__(self) -> None:
        self._waiting: deque[Request] = deque()
        self._active: Request | None = None

    def add(self, request: Request) -> None:
        """Queue a request."""
        self._waiting.append(request)

    def plan(self, prefill_chunk: int) -> Plan | None:
        """The next step, or None when there is nothing to do."""
        if self._active is None:
            if not self._waiting:
                return None
            self._active = self._waiting.popleft()
        request = self._active
        running = request.running
        if running is None:
            return Admit(request)
        total = len(running.prompt.token_ids)
        if running.computed < total:
            return Prefill(request, running.computed, min(running.computed + prefill_chunk, total))
        return Decode(request)

    def take_out(self, leaves: Callable[[Request], bool]) -> list[Request]:
        """Remove and return every request for which `leaves` is true, queued or active."""
        gone = [request for request in self._waiting if leaves(request)]
        self._waiting = deque(request for request in self._waiting if request not in gone)
        if self._active is not None and leaves(self._active):
            gone.append(self._active)
            self._active = None
        return gone

    def release(self, request: Request) -> None:
        """The active request is finished; its slot is free."""
        if self._active is request:
            self._active = None

    def positions(self) -> list[tuple[Request, int]]:
        """Waiting requests with their place in the queue; 0 runs next."""
        ahead = 0 if self._active is None else 1
        return [(request, index + ahead) for index, request in enumerate(self._waiting)]
