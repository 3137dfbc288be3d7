"""The way out of a lane: every event passes it, and it can be shut on a thread that does not come back.

It knows what is unanswered and which models are loaded, so that somebody else can answer for the lane. After
that nothing of the lane gets out any more: a request is answered exactly once.
"""

from __future__ import annotations

import threading
from collections.abc import Callable

from runtime.errors import ErrorInfo
from runtime.lanes.refusals import cancelled, refusal
from runtime.layout.request import EffectiveLayout
from runtime.messages import (
    Cancelled,
    Command,
    Event,
    Failed,
    Finished,
    Generate,
    LoadModel,
    LoadSpeech,
    MeasurePrompt,
    ModelFailed,
    ModelInfo,
    ModelLoaded,
    ModelUnloaded,
    Queued,
    Transcribe,
    Transcribed,
)

_FINAL = (Finished, Failed, Cancelled, Transcribed)


class Gate:
    """Posts events until it is shut; used from the lane's thread, the listener's and the watchdog's."""

    def __init__(self, post: Callable[[Event], None]) -> None:
        self._post = post
        self._lock = threading.Lock()
        self._unanswered: dict[str, Generate | Transcribe] = {}
        self._measured: set[str] = set()
        """Questions for a prompt's length: short work, but whoever asked waits for the answer, too."""
        self._withdrawn: set[str] = set()
        """Requests answered as cancelled that the service does not know so of yet."""
        self._loads: dict[str, frozenset[str]] = {}
        """Models that are to be loaded, and the requests that come before each."""
        self._models: dict[str, ModelInfo] = {}
        self._shut = False

    @property
    def is_shut(self) -> bool:
        """Whether somebody else has answered for the lane."""
        return self._shut

    @property
    def busy(self) -> bool:
        """Whether a request or a load is unanswered."""
        return bool(self._unanswered or self._loads)

    def unanswered(self) -> tuple[str, ...]:
        """The requests that somebody still waits for, by id."""
        with self._lock:
            return tuple(self._unanswered)

    @property
    def loading(self) -> bool:
        """Whether a load is the next thing to be answered: nothing else would be cut short with it."""
        with self._lock:
            return self._is_loading()

    def _is_loading(self) -> bool:
        return any(self._unanswered.keys().isdisjoint(before) for before in self._loads.values())

    def layouts(self) -> list[EffectiveLayout]:
        """Where the loaded models run; kept when the gate is shut, because they may still do so."""
        with self._lock:
            return [info.layout for info in self._models.values() if info.layout is not None]

    def expect(self, command: Command) -> bool:
        """A command is about to be queued; False when the gate is shut and it would never be answered.

        A load keeps the service from saying that a request waits for it, so that is said here.
        """
        with self._lock:
            if self._shut:
                return False
            if isinstance(command, Generate | Transcribe):
                if self._loads:
                    self._post(Queued(command.request_id, len(self._unanswered), "loading"))
                self._unanswered[command.request_id] = command
            elif isinstance(command, MeasurePrompt):
                self._measured.add(command.request_id)
            elif isinstance(command, LoadModel | LoadSpeech):
                self._loads[command.model_id] = frozenset(self._unanswered)
            return True

    def withdraw(self, request_id: str) -> bool:
        """End a request that waits for a load, which nothing interrupts, as cancelled; whether it was one.

        The service finds the mark later; what it then says of the request is dropped.
        """
        with self._lock:
            if self._shut or request_id not in self._unanswered or not self._is_loading():
                return False
            self._withdrawn.add(request_id)
            self._post(cancelled(self._unanswered.pop(request_id)))
            return True

    def refuse(self, command: Command, error: ErrorInfo) -> None:
        """The service failed to take the command: end it with the error, unless it was answered before.

        What the service may still say of a request is dropped.
        """
        event = refusal(command, error)
        if isinstance(command, Generate | Transcribe):
            with self._lock:
                if self._shut or self._unanswered.pop(command.request_id, None) is None:
                    return
                self._withdrawn.add(command.request_id)
                self._post(Failed(command.request_id, error))
        elif event is not None:
            self.post(event)

    def post(self, event: Event) -> None:
        """Let an event out; dropped once the gate is shut, or if its request was withdrawn."""
        with self._lock:
            if self._shut:
                return
            request_id = getattr(event, "request_id", "")
            if request_id in self._withdrawn:
                if isinstance(event, _FINAL):
                    self._withdrawn.discard(request_id)
                return
            self._measured.discard(request_id)
            if isinstance(event, _FINAL):
                self._unanswered.pop(event.request_id, None)
            elif isinstance(event, ModelLoaded):
                self._models[event.info.model_id] = event.info
                self._loads.pop(event.info.model_id, None)
            elif isinstance(event, ModelFailed):
                self._models.pop(event.model_id, None)
                self._loads.pop(event.model_id, None)
            elif isinstance(event, ModelUnloaded):
                self._models.pop(event.model_id, None)
            self._post(event)

    def shut(self, error: ErrorInfo, *, as_wished: bool = False) -> list[str]:
        """Let nothing out any more: every model ends with the error, and then every unanswered request.

        In that order, so that who asks again as soon as a request has ended knows to load the model first.
        `as_wished`: the models end as unloaded. Returns the requests' ids; does nothing the second time.
        """
        with self._lock:
            if self._shut:
                return []
            self._shut = True
            for model_id in self._models | self._loads:
                gone = ModelUnloaded(model_id, cancelled=model_id in self._loads)
                self._post(gone if as_wished else ModelFailed(model_id, error))
            for request_id in (*self._unanswered, *self._measured):
                self._post(Failed(request_id, error))
            return list(self._unanswered)
