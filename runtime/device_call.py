"""What a lane's thread is waiting for the device to do: written by that thread, read by the watchdog."""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that has not returned yet."""

    since_ns: int
    """`time.monotonic_ns()` when it began, or when it last showed a sign of life."""
    request_ids: tuple[str, ...]
    """Whose work it is."""


class DeviceCall:
    """One per lane. Reading and writing an attribute is atomic, so there is no lock."""

    def __init__(self) -> None:
        self.current: Waiting | None = None

    @contextmanager
    def made_for(self, *request_ids: str) -> Iterator[None]:
        """The block is one call of the device."""
        self.current = Waiting(time.monotonic_ns(), request_ids)
        try:
            yield
        finally:
            self.current = None

    def sign_of_life(self) -> None:
        """Something came back inside a long block; the clock starts again."""
        current = self.current
        if current is not None:
            self.current = Waiting(time.monotonic_ns(), current.request_ids)
