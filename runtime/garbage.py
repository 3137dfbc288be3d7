"""When Python looks for garbage, and in which thread. Qt-free; used by every thread.

The collector runs in whichever thread makes one object too many, and looks through all there are. Both are
bad beside a window: an object of Qt that is destroyed by another thread than the window's takes the program
down, and torch, transformers and transformers-mblt are half a million objects that never go. So the window's
thread is the only one that collects (`mblt_desktop/collector.py`), a little at a time, and what stays for
good is set aside. Without a window Python's own way stays as it is.
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

_TIMES: Final = (1000, 10, 10)
"""Objects made since the youngest were looked through, and how often those were before older ones are: about
Python's own."""


class Garbage:
    """The one place that decides it; see `GARBAGE`."""

    def __init__(self) -> None:
        self._thread: int | None = None
        self._python: Callable[..., int] = gc.collect
        self._automatic = True
        """Whether Python collected by itself before anybody stopped it here."""
        self._asked = False
        """Whether another thread wanted everything looked through."""
        self._imports = 0
        self._lock = threading.Lock()
        """Of `_thread` and `_imports`: each stops Python's own way, and the last one gone brings it back."""

    def collect_here(self) -> None:
        """From now on only the calling thread collects: in `look`, or when it asks for it itself.

        `gc.collect()` of another thread (the vendor's mixture of experts calls it while it is loaded) is put
        off to the next `look`.
        """
        with self._lock:
            self._stop()
            self._thread = threading.get_ident()
        gc.collect = self._collect

    def collect_anywhere(self) -> None:
        """As before `collect_here`."""
        gc.collect = self._python
        with self._lock:
            self._thread = None
            self._go_on()

    def look(self) -> None:
        """Look through the youngest objects, and now and then through older ones, as Python itself would."""
        if self._imports:
            return
        if self._asked:
            self._asked = False
            self._python()
            return
        counts = gc.get_count()
        for generation in (2, 1, 0):
            if counts[generation] > _TIMES[generation]:
                self._python(generation)
                return

    def set_aside(self) -> None:
        """What is there now stays for good: nothing looks through it any more."""
        gc.freeze()

    @contextmanager
    def imported_for_good(self) -> Iterator[None]:
        """The block imports large packages: nothing looks through them, meanwhile or afterwards."""
        with self._lock:
            self._stop()
            self._imports += 1
        try:
            yield
        finally:
            self.set_aside()
            with self._lock:
                self._imports -= 1
                self._go_on()

    def _stop(self) -> None:
        """There will be one more reason why Python does not collect by itself."""
        if self._thread is None and not self._imports:
            self._automatic = gc.isenabled()
        gc.disable()

    def _go_on(self) -> None:
        """As before, when the last reason is gone."""
        if self._thread is None and not self._imports and self._automatic:
            gc.enable()

    def _collect(self, generation: int = 2) -> int:
        if threading.get_ident() == self._thread:
            return self._python(generation)
        self._asked = True
        return 0


GARBAGE: Final = Garbage()
