"""What a load has put on the device so far: to tell how far it is, and to take it off again when it fails.

The vendor tells nothing before all networks are on the device, of which a mixture of experts has thousands;
and it keeps half a model that failed in circles, which only the garbage collector would find. So
`qbruntime.Model.launch` is wrapped once for the whole process. It may run in threads of the vendor's own, and
only one model is built at a time (`runtime.lanes.building`).
"""

from __future__ import annotations

import functools
import logging
import threading
import time
import weakref
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_BETWEEN = 0.5
"""Seconds between two words about it."""

_LOCK = threading.Lock()
_log = logging.getLogger(__name__)
_counter: _Counter | None = None
_launched: list[weakref.ref[Any]] | None = None
"""By the load that is going on."""


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


@contextmanager
def taken_back_on_failure() -> Iterator[None]:
    """Nothing of what the block loads stays on the device when it fails."""
    global _launched
    mine: list[weakref.ref[Any]] = []
    _launched = mine
    try:
        yield
    except BaseException:
        for model in filter(None, (reference() for reference in mine)):
            _dispose(model)
        raise
    finally:
        if _launched is mine:
            _launched = None


def _dispose(model: Any) -> None:
    try:
        model.dispose()
    except Exception as error:  # noqa: BLE001 - a device that is lost has lost the model, too
        _log.warning("A network could not be taken off the device: %s", type(error).__name__)


def _wrap_once() -> None:
    import qbruntime

    with _LOCK:
        launch = qbruntime.Model.launch
        if hasattr(launch, "__wrapped__"):
            return

        @functools.wraps(launch)
        def noted(model: Any, *args: Any, **kwargs: Any) -> Any:
            result = launch(model, *args, **kwargs)
            launched, counter = _launched, _counter
            if launched is not None:
                launched.append(weakref.ref(model))
            if counter is not None:
                counter.launched()
            return result

        qbruntime.Model.launch = noted
