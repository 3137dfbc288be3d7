"""The event trace, byte for byte as the vendor's runtime writes it.

A bare JSON array of B and E events: `ts` is CLOCK_MONOTONIC in whole microseconds, `tid` the native thread
id. Kept with its quirks, because the readers must cope with them: a second start answers True and is
ignored, a stop without a start does nothing, an unusable path answers False, an empty window is
`[\\n\\n]\\n`, and nothing reaches the file before 100 000 events or the stop.

The names are the vendor's; how they nest on hardware is not known, and the durations are this computer's.
"""

from __future__ import annotations

import atexit
import os
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import IO

FLUSH_EVERY = 100_000


class EventTrace:
    """One recording at a time, fed from any thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._file: IO[str] | None = None
        self._pending: list[str] = []
        self._separator = ""
        self.active = False

    def start(self, path: str) -> bool:
        """Open and truncate `path`; False when that is impossible, True without effect while recording."""
        if not isinstance(path, str):
            raise TypeError(
                "start_tracing_events(): incompatible function arguments. The following argument types are "
                f"supported:\n    1. (arg0: str) -> bool\n\nInvoked with: {path!r}"
            )
        with self._lock:
            if self._file is not None:
                return True
            try:
                self._file = open(path, "w", encoding="utf-8")  # noqa: SIM115 - closed by stop
            except (OSError, ValueError):
                return False
            self._pending = []
            self._separator = "[\n"
            self.active = True
            return True

    def stop(self) -> None:
        """Write what is left and close the array; nothing to do when not recording."""
        with self._lock:
            file, self._file = self._file, None
            self.active = False
            if file is None:
                return
            with file:
                self._flush(file)
                # An array that never got an element still has its opening and an empty line.
                file.write("\n]\n" if self._separator == ",\n" else "[\n\n]\n")

    def begin(self, name: str) -> None:
        """A span of this thread starts."""
        if self.active:
            self._add(name, "B")

    def end(self, name: str) -> None:
        """A span of this thread ends."""
        if self.active:
            self._add(name, "E")

    @contextmanager
    def span(self, name: str) -> Iterator[None]:
        """A span around a block; it also ends when the block fails."""
        self.begin(name)
        try:
            yield
        finally:
            self.end(name)

    def _add(self, name: str, phase: str) -> None:
        event = (
            f'{{"name":"{name}","cat":"","ph":"{phase}","pid":{os.getpid()},'
            f'"tid":{threading.get_native_id()},"ts":{time.monotonic_ns() // 1000}}}'
        )
        with self._lock:
            if self._file is None:
                return
            self._pending.append(event)
            if len(self._pending) >= FLUSH_EVERY:
                self._flush(self._file)
                self._file.flush()

    def _flush(self, file: IO[str]) -> None:
        if self._pending:
            file.write(self._separator + ",\n".join(self._pending))
            self._separator = ",\n"
            self._pending = []


TRACE = EventTrace()
atexit.register(TRACE.stop)
