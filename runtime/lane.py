"""One runtime thread's loop: take a command, do a step, look again. Qt-free.

A `Service` does the work of one lane (chat, speech, recorder, library). The `Lane` owns its inbox and calls
it from one thread only, so a service needs no locks of its own. Cancelling does not queue behind work: it is
a mark that the service looks at between steps.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable
from typing import Protocol

from runtime.errors import to_info
from runtime.messages import Command, Event, LaneFaulted

Post = Callable[[Event], None]


class CancelMarks:
    """Request ids that somebody wants stopped; set from any thread, read by the services."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: set[str] = set()

    def cancel(self, request_id: str) -> None:
        """Mark the request; it is acknowledged by its final event."""
        with self._lock:
            self._ids.add(request_id)

    def is_cancelled(self, request_id: str) -> bool:
        """Whether the request is marked."""
        return request_id in self._ids

    def clear(self, request_id: str) -> None:
        """Forget the mark once the final event is posted."""
        with self._lock:
            self._ids.discard(request_id)


class Service(Protocol):
    """The work of one lane. Every method is called from the lane's thread."""

    name: str

    def open(self) -> None:
        """Do the slow imports and set-up."""

    def handle(self, command: Command) -> None:
        """Take one command: do it, or queue it for `step`."""

    def step(self) -> bool:
        """Do one unit of work; True while more is waiting."""

    def close(self) -> None:
        """Release everything."""


class Lane:
    """Runs a service in the thread that calls `run`."""

    def __init__(self, name: str, make_service: Callable[[], Service], post: Post) -> None:
        self.name = name
        self._make_service = make_service
        self._post = post
        self._inbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()

    def put(self, command: Command) -> None:
        """Queue a command; returns at once, from any thread."""
        self._inbox.put(command)

    def stop(self) -> None:
        """Ask `run` to return after the step it is in."""
        self._inbox.put(None)

    def run(self) -> None:
        """Loop until `stop`; a fault outside a request is posted and the loop goes on."""
        service = self._make_service()
        try:
            if not self._guarded(service.open):
                return
            while self._turn(service):
                pass
        finally:
            self._guarded(service.close)

    def _turn(self, service: Service) -> bool:
        busy = self._guarded_step(service)
        while True:
            try:
                command = self._inbox.get(block=not busy)
            except queue.Empty:
                return True
            if command is None:
                return False
            self._guarded(service.handle, command)
            busy = True

    def _guarded_step(self, service: Service) -> bool:
        more = False

        def step() -> None:
            nonlocal more
            more = service.step()

        return self._guarded(step) and more

    def _guarded(self, call: Callable[..., None], *args: Command) -> bool:
        try:
            call(*args)
        except Exception as error:  # noqa: BLE001 - the top of the thread; the fault is shown
            self._post(LaneFaulted(self.name, to_info(error)))
            return False
        return True
