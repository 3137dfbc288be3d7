"""Playing the recording that a transcript came from, through the playback lane."""

from __future__ import annotations

import uuid
from pathlib import Path

from PySide6.QtCore import QObject, Signal, Slot

from mblt_desktop.context import AppContext
from runtime.messages import (
    AudioOutlined,
    Event,
    Failed,
    OutlineAudio,
    PlayAudio,
    PlaybackEnded,
    PlaybackMoved,
    StopAudio,
)


class Player(QObject):
    """One file at a time. Playing starts where `position` is."""

    outlined = Signal(object, float)
    """Loudness 0..1 over the length (empty when the file cannot be read), seconds."""
    moved = Signal(float)
    playing_changed = Signal(bool)
    failed = Signal(object)

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._path = Path()
        self._outline_id = ""
        self._play_id = ""
        self.position = 0.0
        self.playing = False
        context.dispatcher.event_received.connect(self._on_event)

    def load(self, path: Path) -> None:
        """Get ready for another file; its outline follows."""
        self.stop()
        self._path = path
        self._move_to(0.0)
        self._outline_id = uuid.uuid4().hex
        self._context.submit(OutlineAudio(self._outline_id, str(path)))

    def toggle(self) -> None:
        """Play, or pause."""
        if self.playing:
            self.stop()
        else:
            self._play()

    def seek(self, seconds: float) -> None:
        """Go somewhere; goes on playing when it does."""
        self._move_to(seconds)
        if self.playing:
            self._play()

    def play_from(self, seconds: float) -> None:
        """Play from there."""
        self._move_to(seconds)
        self._play()

    def stop(self) -> None:
        """Pause; the place is kept."""
        if self.playing:
            self._context.submit(StopAudio(self._play_id))
            self._play_id = ""
            self._set_playing(False)

    def _play(self) -> None:
        self._play_id = uuid.uuid4().hex
        self._context.submit(PlayAudio(self._play_id, str(self._path), self.position))
        self._set_playing(True)

    def _move_to(self, seconds: float) -> None:
        self.position = seconds
        self.moved.emit(seconds)

    def _set_playing(self, playing: bool) -> None:
        if self.playing != playing:
            self.playing = playing
            self.playing_changed.emit(playing)

    @Slot(object)
    def _on_event(self, event: Event) -> None:
        if isinstance(event, AudioOutlined):
            if event.request_id == self._outline_id:
                self.outlined.emit(event.outline, event.duration)
        elif getattr(event, "request_id", None) != self._play_id:
            return
        elif isinstance(event, PlaybackMoved):
            self._move_to(event.position)
        elif isinstance(event, PlaybackEnded):
            self._set_playing(False)
            self._move_to(0.0 if event.at_end else event.position)
        elif isinstance(event, Failed):
            self._set_playing(False)
            self.failed.emit(event.error)
