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
_OWN = threading.local()
_log = logging.getLogger(__name__)
_newest: _Load | None = None


class _Load:
    """What one load has launched so far."""

    def __init__(self) -> None:
        self._tell: Callable[[int], None] | None = None
        self._models: list[weakref.ref[Any]] = []
        self._told = 0.0

    def tell(self, listener: Callable[[int], None] | None) -> None:
        """Who hears of it from now on."""
        self._tell, self._told = listener, time.monotonic()

    def launched(self, model: Any) -> None:
        with _LOCK:
            self._models.append(weakref.ref(model))
            tell, now, count = self._tell, time.monotonic(), len(self._models)
            if tell is None or now - self._told < _BETWEEN:
                return
            self._told = now
        tell(count)

    def take_back(self) -> None:
        for model in filter(None, (reference() for reference in self._models)):
            try:
                model.dispose()
            except Exception as error:  # noqa: BLE001 - a device that is lost has lost the model, too
                _log.warning("A network could not be taken off the device: %s", type(error).__name__)


@contextmanager
def taken_back_on_failure() -> Iterator[None]:
    """Nothing of what the block loads stays on the device when it fails."""
    global _newest
    mine = _newest = _OWN.load = _Load()
    try:
        yield
    except BaseException:
        mine.take_back()
        raise
    finally:
        _OWN.load = None
        if _newest is mine:
            _newest = None


@contextmanager
def each_launch(tell: Callable[[int], None]) -> Iterator[None]:
    """While the block launches, `tell` hears every half second how many networks are on the device.

    What it raises ends the load, which is that of `taken_back_on_failure`.
    """
    _wrap_once()
    load = _load_of_this_thread() or _Load()
    load.tell(tell)
    try:
        yield
    finally:
        load.tell(None)


def _load_of_this_thread() -> _Load | None:
    """A thread of the vendor's own works for the newest: an earlier load that goes on was given up."""
    return getattr(_OWN, "load", None) or _newest


def _wrap_once() -> None:
    import qbruntime

    with _LOCK:
        launch = qbruntime.Model.launch
        if hasattr(launch, "__wrapped__"):
            return

        @functools.wraps(launch)
        def noted(model: Any, *args: Any, **kwargs: Any) -> Any:
            result = launch(model, *args, **kwargs)
            load = _load_of_this_thread()
            if load is not None:
                load.launched(model)
            return result

        qbruntime.Model.launch = noted
