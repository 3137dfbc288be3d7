"""How far the longest stage of a load is: the vendor tells nothing before all networks are on the device.

A mixture of experts has thousands of them. `qbruntime.Model.launch` is wrapped once for the whole process; it
may run in threads of the vendor's own, and only one model is built at a time (`runtime.lanes.building`).
"""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_BETWEEN = 0.5
"""Seconds between two words about it."""

_LOCK = threading.Lock()
_counter: _Counter | None = None


class _Counter:
    """Counts, and tells now and then."""

    def __init__(self, tell: Callable[[int], None]) -> None:
        self._tell = tell
        self._count = 0
        self._told = time.monotonic()

    def launched(self) -> None:
        with _LOCK:
            self._count += 1
            now = time.monotonic()
            if now - self._told < _BETWEEN:
                return
            self._told = now
        self._tell(self._count)


@contextmanager
def each_launch(tell: Callable[[int], None]) -> Iterator[None]:
    """While the block loads a model, `tell` hears every half second how many networks are on the device.

    What it raises ends the load.
    """
    global _counter
    _wrap_once()
    mine = _counter = _Counter(tell)
    try:
        yield
    finally:
        if _counter is mine:  # not of a load that goes on after this one was given up
            _counter = None


def _wrap_once() -> None:
    import qbruntime

    with _LOCK:
        launch = qbruntime.Model.launch
        if hasattr(launch, "__wrapped__"):
            return

        @functools.wraps(launch)
        def counted(model: Any, *args: Any, **kwargs: Any) -> Any:
            result = launch(model, *args, **kwargs)
            counter = _counter
            if counter is not None:
                counter.launched()
            return result

        qbruntime.Model.launch = counted
