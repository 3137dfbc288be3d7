"""The main job done in the real window by itself: ask, transcribe, record a trace, take a picture.

For machines without a screen (`mblt-desktop demo`) and for the pictures of the documentation. It uses the
same widgets, commands and threads as a person does, and waits in event loops of its own.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QEventLoop, QObject, QTimer, SignalInstance, Slot
from PySide6.QtWidgets import QApplication

from mblt_desktop.app import Application
from mblt_desktop.paths import Paths
from mblt_desktop.session import ReportedError
from mblt_desktop.store.records import Message, TranscriptRecord
from runtime.config import DeviceChoice
from runtime.errors import DeviceStalledError, ErrorInfo, StorageError
from runtime.messages import ModelInfo, ModelLoaded, RecordingFinished, RecordingInfo

PATIENCE = 300.0
"""Seconds one step may take before the tour gives up."""


class Tour(QObject):
    """A program under way; `close` ends it."""

    def __init__(self, app: QApplication, paths: Paths, device: DeviceChoice | None) -> None:
        super().__init__()
        self.program = Application(app, paths, device)
        self.window = self.program.window
        self._loop = QEventLoop()
        self._got: Any = None
        self._error: ErrorInfo | None = None
        self._connect_failures()

    def start(self) -> ModelInfo:
        """Show the window and wait for the chat model."""
        event = self._wait(self.program.dispatcher.model_loaded, self.window.show)
        assert isinstance(event, ModelLoaded)
        return event.info

    def ask(self, prompt: str) -> Message:
        """Send a prompt as the composer does; returns the finished answer."""
        chat = self.window.chat

        def send() -> None:
            self.window.navigate("chat")
            chat.composer.submitted.emit(prompt, ())

        message = self._wait(chat.session.ended, send)
        assert isinstance(message, Message)
        if message.result.error is not None:
            raise ReportedError(message.result.error)
        return message

    def transcribe(self, source: Path) -> TranscriptRecord:
        """Open an audio file in its pane; returns the saved transcript."""
        transcripts = self.program.store.transcripts
        before = {summary.id for summary in transcripts.list()}
        self._wait(transcripts.changed, lambda: self.window.open_files([source]))
        (new,) = (summary.id for summary in transcripts.list() if summary.id not in before)
        record = transcripts.get(new)
        if record is None:
            raise StorageError("The transcript was not saved.", remedy="Check the free disk space.")
        return record

    def start_recording(self) -> None:
        """Press Record."""
        self._wait(self.program.dispatcher.recording_started, self.window.toggle_recording)

    def stop_recording(self) -> RecordingInfo:
        """Press Stop; returns the recording, written and checked."""
        event = self._wait(self.program.dispatcher.recording_finished, self.window.toggle_recording)
        assert isinstance(event, RecordingFinished)
        return event.info

    def settle(self, seconds: float) -> None:
        """Let the window catch up: animations, thumbnails, timers."""
        QTimer.singleShot(int(seconds * 1000), self._loop.quit)
        self._loop.exec()

    def picture(self, target: Path) -> None:
        """Save the window as it is."""
        if not self.window.grab().save(str(target)):
            raise StorageError(
                f"The picture {target} could not be written.", remedy="Check the folder and its free space."
            )

    def close(self) -> None:
        """End the program."""
        self.window.close()
        self.program.shut_down()

    def _connect_failures(self) -> None:
        dispatcher = self.program.dispatcher
        for signal in (dispatcher.model_failed, dispatcher.recording_failed, dispatcher.lane_faulted):
            signal.connect(self._on_failed)

    def _wait(self, signal: SignalInstance, begin: Callable[[], None]) -> Any:
        """Do `begin` and wait for the signal; returns what it carried."""
        self._got, self._error = None, None
        timer = QTimer(self, singleShot=True, interval=int(PATIENCE * 1000))
        timer.timeout.connect(self._on_timeout)
        timer.start()
        signal.connect(self._on_signal)
        QTimer.singleShot(0, begin)
        self._loop.exec()
        signal.disconnect(self._on_signal)
        timer.stop()
        if self._error is not None:
            raise ReportedError(self._error)
        return self._got

    @Slot()
    @Slot(object)
    def _on_signal(self, value: object = None) -> None:
        self._got = value
        self._loop.quit()

    @Slot(object)
    def _on_failed(self, event: Any) -> None:
        self._error = event.error
        self._loop.quit()

    @Slot()
    def _on_timeout(self) -> None:
        self._error = DeviceStalledError(
            f"Nothing happened for {PATIENCE:.0f} seconds.",
            remedy="Look at mblt-desktop doctor, then try again.",
        ).info
        self._loop.quit()
