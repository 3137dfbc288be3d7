"""The runtime for one command: submit, and hand each event to whoever waits for it.

The command line's counterpart of the window's dispatcher: it may wait, because it has nothing else to do.
"""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from types import TracebackType
from typing import ClassVar, TypeVar

from runtime.config import RuntimeConfig
from runtime.errors import ErrorInfo, MbltError
from runtime.lanes.host import Host
from runtime.messages import Command, Event, Failed, LaneFaulted, ModelFailed, RecordingFailed

EventT = TypeVar("EventT")


class ReportedError(MbltError):
    """A failure that the runtime reported as an event."""

    def __init__(self, error: ErrorInfo, request_id: str = "") -> None:
        super().__init__(error.summary, remedy=error.remedy, unharmed=error.unharmed, detail=error.detail)
        self._info = error
        self.request_id = request_id
        """The request that failed, if it was one; others go on."""

    @property
    def info(self) -> ErrorInfo:
        """The failure as the runtime said it."""
        return self._info


class Session:
    """A running host; leave the `with` block to end it."""

    left_behind: ClassVar[bool] = False
    """Whether a thread of this process hangs, in the device or in a load: the end must not run into it."""

    def __init__(self, config: RuntimeConfig) -> None:
        self._awake = threading.Event()
        self._host = Host(config, self._awake.set)
        self._pending: deque[Event] = deque()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._host.stop():
            Session.left_behind = True

    def submit(self, command: Command) -> None:
        """Send a command to its lane."""
        self._host.submit(command)

    def cancel(self, request_id: str) -> None:
        """Ask for a request to end."""
        self._host.cancel(request_id)

    def next_event(self) -> Event:
        """Wait for the next event; raises ReportedError for a failure."""
        while not self._pending:
            # With a time limit the wait lets Ctrl+C through on every platform.
            self._awake.wait(1.0)
            self._awake.clear()
            self._pending.extend(self._host.take_events())
        event = self._pending.popleft()
        if isinstance(event, Failed | ModelFailed | LaneFaulted | RecordingFailed):
            raise ReportedError(event.error, event.request_id if isinstance(event, Failed) else "")
        return event

    def wait_for(self, kind: type[EventT], watch: Callable[[Event], None] | None = None) -> EventT:
        """The next event of that kind; `watch` sees the others on the way."""
        while True:
            event = self.next_event()
            if isinstance(event, kind):
                return event
            if watch is not None:
                watch(event)

    @contextmanager
    def cancelling(self, *request_ids: str) -> Iterator[None]:
        """Ctrl+C inside the block cancels the requests before it leaves."""
        try:
            yield
        except KeyboardInterrupt:
            for request_id in request_ids:
                self.cancel(request_id)
            raise
