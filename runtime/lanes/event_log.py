"""What the log says of the runtime's events: which model, which failure.

Never what somebody wrote, said or showed, nor the words of an error, which may name a file: its code only.
"""

from __future__ import annotations

import logging

from runtime.layout.outcome import say_effective
from runtime.messages import (
    CallOverdue,
    Event,
    Failed,
    LaneFaulted,
    ModelFailed,
    ModelLoaded,
    ModelUnloaded,
    RecordingFailed,
)

_log = logging.getLogger(__name__)


def note(event: Event) -> None:
    """Log what is worth it; from the thread that posts the event."""
    if isinstance(event, ModelLoaded):
        info = event.info
        where = "no NPU" if info.layout is None else say_effective(info.layout)
        _log.info(
            "%s (%s) was loaded in %.1f s on %s: %s",
            info.model_id,
            info.family,
            info.load_seconds,
            info.device,
            where,
        )
    elif isinstance(event, ModelUnloaded):
        _log.info("%s was %s", event.model_id, "not loaded: cancelled" if event.cancelled else "unloaded")
    elif isinstance(event, ModelFailed):
        _log.warning("%s failed: %s", event.model_id, event.error.code)
    elif isinstance(event, CallOverdue):
        _log.warning("The device has not answered for %.0f s", event.limit)
    elif isinstance(event, Failed):
        _log.warning("A request failed: %s", event.error.code)
    elif isinstance(event, LaneFaulted):
        _log.warning("The thread “%s” had a fault: %s", event.lane, event.error.code)
    elif isinstance(event, RecordingFailed):
        _log.warning("A recording failed: %s", event.error.code)
