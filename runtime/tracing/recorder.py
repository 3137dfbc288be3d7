"""Host spans: what the program does, on the clock of the NPU runtime's own trace.

`RECORDER` is always there and costs next to nothing while nobody records: `span` then returns one shared
object that does nothing. Any thread may call it. While a recording runs, each call appends one tuple to a
`deque`, whose `append` and `popleft` are documented as thread-safe; so no lock is taken on the way, but where
a request begins or ends. The recorder lane (`runtime.tracing.service`) takes the tuples out and writes them
to disk.

Times are `time.perf_counter_ns()` and thread ids `threading.get_native_id()`: on Linux exactly the clock and
the ids that qbruntime uses, so both merge without arithmetic. Arguments are numbers and short words; the text
of a prompt, an answer or a transcript never goes into a recording.
"""

from __future__ import annotations

import math
import threading
from collections import deque
from time import perf_counter_ns
from types import TracebackType
from typing import Final, Literal, TypeAlias

from runtime.errors import TraceError

Scalar: TypeAlias = str | int | float | bool
Args: TypeAlias = dict[str, Scalar]
HostEvent: TypeAlias = tuple[str, str, int, float, int, str | None, Args]
"""(kind, name, time ns, duration ns or value, native thread id, request id, arguments)."""

SPAN: Final = "span"
INSTANT: Final = "instant"
COUNTER: Final = "counter"
REQUEST_BEGIN: Final = "begin"
REQUEST_END: Final = "end"

TRUNCATED: Final = "truncated"
"""Argument set on what was still running when the recording began or ended."""

MAX_KNOWN_REQUESTS: Final = 1000

Limit: TypeAlias = Literal["events", "seconds"]


class NoSpan:
    """What `span` returns while nobody records."""

    __slots__ = ()

    def __enter__(self) -> NoSpan:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def note(self, **_args: Scalar) -> None:
        """Ignore the arguments."""


NO_SPAN: Final = NoSpan()


class Window:
    """One recording's events, from start to stop, within its limits."""

    __slots__ = (
        "_deadline_ns",
        "_drained",
        "_events",
        "_max_events",
        "limit",
        "opened",
        "refused",
        "start_ns",
    )

    def __init__(self, start_ns: int, max_events: int, max_seconds: float) -> None:
        self.start_ns = start_ns
        self.opened: dict[int, Span] = {}
        self.limit: Limit | None = None
        """The limit that was reached; nothing is taken in after it."""
        self.refused = 0
        """Counter values that are not numbers."""
        self._events: deque[HostEvent] = deque()
        self._drained = 0
        self._max_events = max_events
        self._deadline_ns = start_ns + int(max_seconds * 1e9)

    @property
    def count(self) -> int:
        """Events taken in so far."""
        return len(self._events) + self._drained

    def add(self, event: HostEvent, now_ns: int) -> None:
        """Take an event in, unless a limit is reached."""
        if self.limit is not None:
            return
        if now_ns > self._deadline_ns:
            self.limit = "seconds"
        elif len(self._events) + self._drained >= self._max_events:
            self.limit = "events"
        else:
            self._events.append(event)

    def add_closing(self, event: HostEvent) -> None:
        """Take in the end of something already counted; limits do not apply."""
        self._events.append(event)

    def drain(self) -> list[HostEvent]:
        """Take out everything taken in since the last call."""
        events = []
        while self._events:
            events.append(self._events.popleft())
            self._drained += 1
        return events


class Span:
    """A running span; made by `Recorder.span`."""

    __slots__ = ("args", "name", "request", "start_ns", "thread", "window")

    def __init__(self, window: Window, name: str, request: str | None, args: Args) -> None:
        self.window = window
        self.name = name
        self.request = request
        self.args = args
        self.start_ns = 0
        self.thread = 0

    def __enter__(self) -> Span:
        self.thread = threading.get_native_id()
        self.window.opened[id(self)] = self
        self.start_ns = perf_counter_ns()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        _error: BaseException | None,
        _trace: TracebackType | None,
    ) -> None:
        end_ns = perf_counter_ns()
        # Whoever takes the span out of `opened` records it: a stop may have done so already.
        if self.window.opened.pop(id(self), None) is None:
            return
        if kind is not None:
            self.args["error"] = kind.__name__
        self.window.add(self.event(end_ns), end_ns)

    def note(self, **args: Scalar) -> None:
        """Add arguments that are known only inside the span, e.g. a token count."""
        self.args.update(args)

    def event(self, end_ns: int) -> HostEvent:
        """This span as if it ended at `end_ns`."""
        return (SPAN, self.name, self.start_ns, end_ns - self.start_ns, self.thread, self.request, self.args)


class Recorder:
    """The one place that host events go to; see `RECORDER`."""

    def __init__(self) -> None:
        self.active = False
        """Whether a recording runs. Spans may be opened either way."""
        self._window: Window | None = None
        self._lock = threading.Lock()
        """Of the requests and the window: what begins or ends just then has both ends in it, or none."""
        self._threads: dict[int, str] = {}
        self._requests: dict[str, tuple[str, str]] = {}

    # -- called by everybody ---------------------------------------------------------------------

    def span(self, name: str, /, request: str | None = None, **args: Scalar) -> Span | NoSpan:
        """Measure the body of a `with` on the calling thread's track."""
        window = self._window
        if window is None:
            return NO_SPAN
        return Span(window, name, request, args)

    def complete(
        self, name: str, start_ns: int, end_ns: int, /, request: str | None = None, **args: Scalar
    ) -> None:
        """Record a span that is already over; `queue` and others that cross threads are made this way."""
        window = self._window
        if window is None or end_ns < max(start_ns, window.start_ns):
            return
        if start_ns < window.start_ns:
            start_ns, args = window.start_ns, {**args, TRUNCATED: True}
        event = (SPAN, name, start_ns, end_ns - start_ns, threading.get_native_id(), request, args)
        window.add(event, end_ns)

    def instant(self, name: str, /, request: str | None = None, **args: Scalar) -> None:
        """Record a moment on the calling thread's track."""
        window = self._window
        if window is not None:
            now = perf_counter_ns()
            window.add((INSTANT, name, now, 0, threading.get_native_id(), request, args), now)

    def counter(self, name: str, value: float, /) -> None:
        """Record a value over time; what is not a finite number is refused and counted."""
        window = self._window
        if window is None:
            return
        if not math.isfinite(value):
            window.refused += 1
            return
        now = perf_counter_ns()
        window.add((COUNTER, name, now, value, threading.get_native_id(), None, {}), now)

    def begin_request(self, request_id: str, title: str, kind: str) -> None:
        """Open the request's own track, from submit to finish. The title names it, never quotes it.

        Again for one that is open, it does nothing. Once for each request, so it may take the lock.
        """
        with self._lock:
            if request_id in self._requests:
                return
            if len(self._requests) >= MAX_KNOWN_REQUESTS:
                del self._requests[next(iter(self._requests))]
            self._requests[request_id] = (title, kind)
            if self._window is not None:
                now = perf_counter_ns()
                self._window.add(_begin(request_id, title, kind, now, {}), now)

    def end_request(self, request_id: str) -> None:
        """Close the request's track; ending twice, or an unknown one, is harmless."""
        with self._lock:
            known = self._requests.pop(request_id, None)
            if self._window is not None and known is not None:
                now = perf_counter_ns()
                thread = threading.get_native_id()
                self._window.add((REQUEST_END, known[0], now, 0, thread, request_id, {}), now)

    def name_thread(self, name: str) -> None:
        """Give the calling thread its role, e.g. "Chat engine"; remembered while nobody records."""
        self._threads[threading.get_native_id()] = name

    @property
    def event_count(self) -> int:
        """Events of the running recording, 0 when none runs."""
        window = self._window
        return window.count if window is not None else 0

    # -- called by the recorder lane -------------------------------------------------------------

    def start(self, *, max_events: int, max_seconds: float) -> Window:
        """Open a window; what is already running is recorded from now on.

        Raises:
            TraceError: a recording runs already.
        """
        with self._lock:
            if self._window is not None:
                raise TraceError(
                    "A recording is already running.",
                    remedy="Stop it first, then start a new one.",
                    unharmed="The running recording goes on.",
                )
            window = Window(perf_counter_ns(), max_events, max_seconds)
            for request_id, (title, kind) in self._requests.items():
                began = _begin(request_id, title, kind, window.start_ns, {TRUNCATED: True})
                window.add(began, window.start_ns)
            self._window = window
            self.active = True
            return window

    def stop(self) -> int:
        """Close the window and end what is open, marked as truncated; returns the time of the stop."""
        with self._lock:
            window, self._window = self._window, None
            self.active = False
            now = perf_counter_ns()
            if window is None:
                return now
            for key in list(window.opened):
                span = window.opened.pop(key, None)
                if span is None:
                    continue
                kind, name, start, length, thread, request, args = span.event(now)
                closing = (kind, name, start, length, thread, request, {**args, TRUNCATED: True})
                window.add_closing(closing)
            for request_id, (title, _kind) in self._requests.items():
                window.add_closing((REQUEST_END, title, now, 0, 0, request_id, {TRUNCATED: True}))
            return now

    def thread_names(self) -> dict[int, str]:
        """Role by native thread id, for every thread that named itself."""
        return dict(self._threads)


def _begin(request_id: str, title: str, kind: str, now_ns: int, args: Args) -> HostEvent:
    merged: Args = {"kind": kind, **args}
    return (REQUEST_BEGIN, title, now_ns, 0, threading.get_native_id(), request_id, merged)


RECORDER: Final = Recorder()
