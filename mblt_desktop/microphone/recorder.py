"""The microphone as the pane sees it: which inputs there are, and the take that is being recorded."""

from __future__ import annotations

import uuid
from pathlib import Path
from typing import Literal

from PySide6.QtCore import QObject, Signal, Slot

from mblt_desktop.context import AppContext
from mblt_desktop.microphone.takes import TakeFolder
from runtime.errors import ErrorInfo
from runtime.messages import (
    Event,
    Failed,
    ListMicrophones,
    Microphone,
    MicrophonesListed,
    StartTake,
    StopTake,
    TakeFinished,
    TakeLevel,
    TakeStarted,
)

State = Literal["idle", "opening", "recording", "stopping"]
SETTING = "audio.device"


class Recorder(QObject):
    """Sends the microphone lane its commands; never waits for it."""

    devices_changed = Signal()
    state_changed = Signal()
    level_changed = Signal(float, float)
    """Seconds on disk, loudest sample since the last one (0..1)."""
    take_finished = Signal(object)
    """TakeFinished: there is a file, perhaps cut short."""
    failed = Signal(object)
    """ErrorInfo: nothing was recorded."""

    def __init__(self, context: AppContext, takes: TakeFolder, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._takes = takes
        self._request_id = ""
        self.path = Path()
        """The take being recorded."""
        self.state: State = "idle"
        self.devices: tuple[Microphone, ...] = ()
        self.problem: ErrorInfo | None = None
        """Why there is no input, once that is known."""
        self.listed = False
        context.dispatcher.event_received.connect(self._on_event)

    @property
    def chosen(self) -> str | None:
        """The key of the chosen input; None for the system's default."""
        wanted = self._context.preferences.text(SETTING)
        return wanted if any(device.key == wanted for device in self.devices) else None

    def choose(self, key: str | None) -> None:
        """Record another input from the next take on."""
        self._context.preferences.set(SETTING, key)

    def refresh(self) -> None:
        """Look for inputs again."""
        self._context.submit(ListMicrophones())

    def start(self) -> None:
        """Begin a take."""
        if self.state != "idle":
            return
        self._request_id = uuid.uuid4().hex
        self.path = self._takes.new_path()
        self._context.submit(StartTake(self._request_id, str(self.path), self.chosen))
        self._enter("opening")

    def stop(self) -> None:
        """End the take; its file follows."""
        if self.state in ("opening", "recording"):
            self._context.submit(StopTake(self._request_id))
            self._enter("stopping")

    def _enter(self, state: State) -> None:
        self.state = state
        self.state_changed.emit()

    @Slot(object)
    def _on_event(self, event: Event) -> None:
        if isinstance(event, MicrophonesListed):
            self.devices, self.problem, self.listed = event.microphones, event.error, True
            self.devices_changed.emit()
        elif getattr(event, "request_id", None) == self._request_id:
            self._on_take_event(event)

    def _on_take_event(self, event: Event) -> None:
        if isinstance(event, TakeLevel):
            self.level_changed.emit(event.seconds, event.peak)
        elif isinstance(event, TakeStarted) and self.state == "opening":
            self._enter("recording")
        elif isinstance(event, TakeFinished):
            self._enter("idle")
            self.take_finished.emit(event)
            self._look_again(event.error)
        elif isinstance(event, Failed):
            self._enter("idle")
            self.failed.emit(event.error)
            self._look_again(event.error)

    def _look_again(self, error: ErrorInfo | None) -> None:
        """After a failure the list of inputs is likely another one."""
        if error is not None:
            self.refresh()
