"""Events on their way to the listener: a locked list and one wake-up per batch."""

from __future__ import annotations

import threading
from collections.abc import Callable

from runtime.messages import Event


class Outbox:
    """Filled by the runtime threads, taken whole by the listener."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._events: list[Event] = []

    def post(self, event: Event) -> None:
        """Add an event; only the post that finds the box empty wakes the listener."""
        with self._lock:
            was_empty = not self._events
            self._events.append(event)
        if was_empty:
            self._wake()

    def take(self) -> list[Event]:
        """All events so far, in order; the box is empty afterwards."""
        with self._lock:
            events, self._events = self._events, []
        return events
