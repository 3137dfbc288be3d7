"""The way out of a lane: every event passes it, and it can be shut on a thread that does not come back.

It knows which requests are unanswered and which models are loaded, so that somebody else can answer for the
lane. After that nothing of the lane gets out any more: a request is answered exactly once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from runtime.errors import ErrorInfo
from runtime.messages import (
    Cancelled,
    Command,
    Event,
    Failed,
    Finished,
    Generate,
    ModelFailed,
    ModelLoaded,
    ModelUnloaded,
    Transcribe,
    Transcribed,
)

_FINAL = (Finished, Failed, Cancelled, Transcribed)


class Gate:
    """Posts events until it is shut; used from the lane's thread, the listener's and the watchdog's."""

    def __init__(self, post: Callable[[Event], None]) -> None:
        self._post = post
        self._lock = threading.Lock()
        self._unanswered: dict[str, None] = {}
        self._models: dict[str, None] = {}
        self._shut = False

    @property
    def is_shut(self) -> bool:
        """Whether somebody else has answered for the lane."""
        return self._shut

    @property
    def busy(self) -> bool:
        """Whether a request is unanswered."""
        return bool(self._unanswered)

    def expect(self, command: Command) -> bool:
        """A command is about to be queued; False when the gate is shut and it would never be answered."""
        with self._lock:
            if self._shut:
                return False
            if isinstance(command, Generate | Transcribe):
                self._unanswered[command.request_id] = None
            return True

    def post(self, event: Event) -> None:
        """Let an event out; dropped once the gate is shut."""
        with self._lock:
            if self._shut:
                return
            if isinstance(event, _FINAL):
                self._unanswered.pop(event.request_id, None)
            elif isinstance(event, ModelLoaded):
                self._models[event.info.model_id] = None
            elif isinstance(event, ModelUnloaded | ModelFailed):
                self._models.pop(event.model_id, None)
            self._post(event)

    def shut(self, error: ErrorInfo) -> list[str]:
        """End every unanswered request and every loaded model with the error, and let nothing out any more.

        Returns the ids of the requests; does nothing the second time.
        """
        with self._lock:
            if self._shut:
                return []
            self._shut = True
            for request_id in self._unanswered:
                self._post(Failed(request_id, error))
            for model_id in self._models:
                self._post(ModelFailed(model_id, error))
            return list(self._unanswered)
