"""Starts and stops the one recording; shared by the tracing pane and the Record button of the status bar.

For the main window: `controller = recording_controller(context)` gives the same object everywhere;
`RecordButton(controller)` (in `record_button.py`) is the button for `StatusBar.add_right`, and the action
"Start or stop a trace recording" calls `controller.toggle()`.
"""

from __future__ import annotations

import secrets
import time
from datetime import datetime
from typing import Literal

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from mblt_desktop.context import AppContext
from runtime.messages import (
    RecordingFailed,
    RecordingFinished,
    RecordingInfo,
    RecordingStarted,
    StartRecording,
    StopRecording,
)
from runtime.tracing.recorder import RECORDER

State = Literal["idle", "starting", "recording", "stopping"]

TICK_MS = 200


class RecordingController(QObject):
    """The recording's state in the window; the recorder lane does the work."""

    state_changed = Signal(str)
    """The new `State`."""
    ticked = Signal(float, int)
    """Seconds since the start and events so far, a few times a second while recording."""
    finished = Signal(object)
    """A RecordingInfo; also for recordings that ended at a limit or were recovered."""

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._state: State = "idle"
        self._recording_id = ""
        self._began = 0.0
        self._timer = QTimer(self)
        self._timer.setInterval(TICK_MS)
        self._timer.timeout.connect(self._on_tick)
        context.dispatcher.recording_started.connect(self._on_started)
        context.dispatcher.recording_finished.connect(self._on_finished)
        context.dispatcher.recording_failed.connect(self._on_failed)

    @property
    def state(self) -> State:
        """What is going on."""
        return self._state

    @property
    def elapsed(self) -> float:
        """Seconds since the recording began, 0 when none runs."""
        return time.monotonic() - self._began if self._state == "recording" else 0.0

    @Slot()
    def toggle(self) -> None:
        """Start when idle, stop when recording; nothing while one of both is under way."""
        if self._state == "idle":
            self.start()
        elif self._state == "recording":
            self.stop()

    @Slot()
    def start(self) -> None:
        """Start recording with the limits of the settings."""
        if self._state != "idle":
            return
        now = datetime.now()
        self._recording_id = f"{now:%Y%m%d-%H%M%S}-{secrets.token_hex(2)}"
        self._set_state("starting")
        self._context.submit(
            StartRecording(
                self._recording_id,
                f"{now:%d %b, %H:%M:%S}",
                str(self._context.paths.recordings),
                max_seconds=self._limit("tracing.max_seconds"),
                max_events=int(self._limit("tracing.max_events")),
            )
        )

    @Slot()
    def stop(self) -> None:
        """Stop; the file is written and checked meanwhile."""
        if self._state == "recording":
            self._set_state("stopping")
            self._context.submit(StopRecording(self._recording_id))

    def _limit(self, key: str) -> float:
        value = self._context.preferences.get(key)
        assert isinstance(value, int | float), key
        return value

    @Slot(object)
    def _on_started(self, event: RecordingStarted) -> None:
        if event.recording_id == self._recording_id:
            self._began = time.monotonic()
            self._set_state("recording")

    @Slot(object)
    def _on_finished(self, event: RecordingFinished) -> None:
        info: RecordingInfo = event.info
        if info.recording_id == self._recording_id:
            self._recording_id = ""
            self._set_state("idle")
        self.finished.emit(info)

    @Slot(object)
    def _on_failed(self, event: RecordingFailed) -> None:
        if event.recording_id == self._recording_id:
            self._recording_id = ""
            self._set_state("idle")
        self._context.show_error(event.error)

    @Slot()
    def _on_tick(self) -> None:
        self.ticked.emit(self.elapsed, RECORDER.event_count)

    def _set_state(self, state: State) -> None:
        self._state = state
        if state == "recording":
            self._timer.start()
        else:
            self._timer.stop()
        self.state_changed.emit(state)


def recording_controller(context: AppContext) -> RecordingController:
    """The window's one controller, made at first need and kept by its dispatcher."""
    found: RecordingController | None = context.dispatcher.findChild(RecordingController)
    return found if found is not None else RecordingController(context, context.dispatcher)
