"""A way out between two calls of the NPU, also where the vendor's code makes several in one go.

A call cannot be interrupted, but a round of a draft, a mixture's step or a window of speech is many of them.
What computes in `qbruntime.Model` is wrapped once for the whole process, and looks before each call whether
the thread's work is still wanted. Calls that the vendor makes in threads of its own (a mixture's experts, the
cards of a batch) are not looked at: they run beside each other, and the thread that waits for them goes on to
its next call when all are back.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

_COMPUTING = ("infer", "infer_npu_data")
"""All that transformers-mblt computes with."""
_LOCK = threading.Lock()
_WORK = threading.local()


class _NotWantedError(Exception):
    """Ends what the vendor's code is in the middle of; nobody is told."""


@contextmanager
def ended_when(unwanted: Callable[[], bool]) -> Iterator[None]:
    """The block ends early, without an error, before the thread's next call of the NPU once it is unwanted.

    What is in the middle of being computed into a KV cache then is for the caller to put right.
    """
    before = getattr(_WORK, "unwanted", None)
    _WORK.unwanted = unwanted
    try:
        yield
    except _NotWantedError:
        pass
    finally:
        _WORK.unwanted = before


def watch_infers() -> None:
    """Make `ended_when` work for the models of the device that is in use; doing it again changes nothing."""
    import qbruntime

    with _LOCK:
        for name in _COMPUTING:
            computes = getattr(qbruntime.Model, name)
            if not hasattr(computes, "__wrapped__"):
                setattr(qbruntime.Model, name, _watched(computes))


def _watched(computes: Callable[..., Any]) -> Callable[..., Any]:
    @functools.wraps(computes)
    def watched(*args: Any, **kwargs: Any) -> Any:
        unwanted = getattr(_WORK, "unwanted", None)
        if unwanted is not None and unwanted():
            raise _NotWantedError
        return computes(*args, **kwargs)

    return watched
