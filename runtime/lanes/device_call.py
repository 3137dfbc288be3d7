"""What a lane's thread is waiting for the device to do: told by that thread, read by the watchdog."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace

from runtime.errors import MbltError
from runtime.messages import Event, ModelLoading


class NotWantedError(MbltError):
    """Somebody else has answered for the work already: it ends here, and nobody is told."""


@dataclass(frozen=True, slots=True)
class Waiting:
    """A call that has not returned yet."""

    since_ns: int
    """`time.monotonic_ns()` when it began, or when it last showed a sign of life."""
    request_ids: tuple[str, ...]
    """Whose work it is."""
    loading: bool = False
    """A model is being loaded: long by nature, so with a limit of its own."""


class DeviceCall:
    """One per lane.

    Anybody may read: reading an attribute is atomic. Writing `current` takes the lock: a load's stages may
    come from threads of the vendor's, and one that comes late must not bring back a call that is over.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self.current: Waiting | None = None
        self.wanted = True
        """Cleared from any thread when nobody waits for the lane any more; a load ends at its next stage."""

    @contextmanager
    def made_for(self, *request_ids: str) -> Iterator[None]:
        """The block is one call of the device."""
        with self._waiting(Waiting(time.monotonic_ns(), request_ids)):
            yield

    @contextmanager
    def loading(
        self, model_id: str, post: Callable[[Event], None]
    ) -> Iterator[Callable[[str, float | None], None]]:
        """The block loads a model and calls what it is given with every stage (in words) and fraction (0..1).

        That posts the stage, is a sign of life, and raises NotWantedError once nobody waits for the model. It
        may be called from any thread; when the block is over it does nothing.
        """

        def progress(stage: str, fraction: float | None) -> None:
            if not self.wanted:
                raise NotWantedError(f"{model_id} is not wanted any more.", remedy="Load it again.")
            if self.sign_of_life():
                post(ModelLoading(model_id, stage, fraction))

        with self._waiting(Waiting(time.monotonic_ns(), (), loading=True)):
            yield progress

    def sign_of_life(self) -> bool:
        """Something came back inside a long block, so the clock starts again; False when none is going on."""
        with self._lock:
            if self.current is None:
                return False
            self.current = replace(self.current, since_ns=time.monotonic_ns())
            return True

    @contextmanager
    def _waiting(self, call: Waiting) -> Iterator[None]:
        self._set(call)
        try:
            yield
        finally:
            self._set(None)

    def _set(self, call: Waiting | None) -> None:
        with self._lock:
            self.current = call
