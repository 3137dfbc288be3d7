"""Building a model: one at a time, nothing of a failed one left, and no waiting for one that hangs.

transformers changes defaults of the whole process while it builds (the data type of new tensors, how weights
are initialised), so only one thread has the turn. When it hangs in the device, its turn is taken away.
"""

from __future__ import annotations

import sys
import threading
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from runtime.device.launches import taken_back_on_failure

_LOOK_AGAIN = 0.5
"""Seconds between two signs of life of a load that waits for another one."""


class Turn:
    """Whose turn it is. Every method may be called from any thread."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._owner: int | None = None
        """The thread, by `threading.get_ident()`."""

    def take(self, seconds: float) -> bool:
        """Have the turn, waiting at most so long for it; False when somebody else still has it."""
        with self._changed:
            if not self._changed.wait_for(lambda: self._owner is None, seconds):
                return False
            self._owner = threading.get_ident()
            return True

    def give_back(self) -> None:
        """The calling thread is done; does nothing when its turn was taken away meanwhile."""
        self._end(threading.get_ident())

    def take_away(self, thread: int) -> None:
        """That thread does not come back, so what it had changed is undone. Nothing if it is not its turn."""
        if self._end(thread):
            _restore_data_type()

    def _end(self, thread: int) -> bool:
        """Whether it was that thread's turn."""
        with self._changed:
            if self._owner != thread:
                return False
            self._owner = None
            self._changed.notify_all()
            return True


TURN = Turn()


@contextmanager
def building(progress: Callable[[str, float | None], None]) -> Iterator[None]:
    """The block builds a model: alone, and with nothing of it left on the device when it fails."""
    if not TURN.take(0):
        progress("Waiting for another model to be loaded", None)
        while not TURN.take(_LOOK_AGAIN):
            progress("Waiting for another model to be loaded", None)
    try:
        with taken_back_on_failure():
            yield
    except Exception as error:
        drop_what_it_holds(error)
        raise
    finally:
        TURN.give_back()


def _restore_data_type() -> None:
    """New tensors are float32 again, as torch begins with.

    torch may be in the middle of being imported by any thread, and then has no functions yet. To import it
    here would be to wait for that thread, which perhaps hangs.
    """
    torch = sys.modules.get("torch")
    if torch is not None and not getattr(torch.__spec__, "_initializing", False):
        torch.set_default_dtype(torch.float32)


def drop_what_it_holds(error: BaseException) -> None:
    """Let go of what is on the device for the sake of work that ended with this error.

    The frames the error came through hold it: the tensors between two networks, or a half-built model. What
    nobody holds any more leaves the device.
    """
    seen: set[int] = set()
    link: BaseException | None = error
    while link is not None and id(link) not in seen:
        seen.add(id(link))
        traceback.clear_frames(link.__traceback__)
        link = link.__cause__ or link.__context__
