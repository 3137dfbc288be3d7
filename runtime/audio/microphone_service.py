"""The microphone lane: lists inputs, and records one of them to disk with its level."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np

from runtime.audio.capture import Input, Inputs, PortAudioInputs, Take, no_microphone
from runtime.config import RuntimeConfig
from runtime.errors import ErrorInfo, MbltError, MicrophoneError, to_info
from runtime.lanes.lane import CancelMarks, Post
from runtime.messages import (
    Command,
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

LOST_AFTER = 1.0
"""Seconds without sound after which an input is lost: PortAudio says nothing when one is unplugged."""
FIRST_SOUND_WITHIN = 3.0
_LEVEL_EVERY = 0.05
_WAIT = 0.05


class _Running:
    """The take that is being recorded."""

    def __init__(self, request_id: str, source: Input, take: Take) -> None:
        self.request_id = request_id
        self.source = source
        self.take = take
        self.peak = 0.0
        self.last_sound = time.monotonic()
        self.last_level = 0.0
        self.heard = False

    @property
    def silent_too_long(self) -> bool:
        """Whether nothing, not even silence, was delivered for too long."""
        limit = LOST_AFTER if self.heard else FIRST_SOUND_WITHIN
        return time.monotonic() - self.last_sound > limit


class MicrophoneService:
    """See `runtime.lanes.lane.Service`. One take at a time."""

    def __init__(
        self, config: RuntimeConfig, post: Post, marks: CancelMarks, inputs: Inputs | None = None
    ) -> None:
        del config
        self._post = post
        self._marks = marks
        self._inputs = inputs or PortAudioInputs()
        self._listed: tuple[Microphone, ...] = ()
        self._running: _Running | None = None

    def open(self) -> None:
        """Nothing to prepare; the first command looks for PortAudio."""

    def handle(self, command: Command) -> None:
        """List, start or stop."""
        if isinstance(command, ListMicrophones):
            self._list()
        elif isinstance(command, StartTake):
            self._start(command)
        elif isinstance(command, StopTake) and self._runs(command.request_id):
            self._finish(None)

    def step(self) -> bool:
        """Take what the input delivered to the disk; True while a take runs."""
        running = self._running
        if running is None:
            return False
        if self._marks.is_cancelled(running.request_id):
            self._finish(None)
            return False
        block = running.source.read(_WAIT)
        if block is not None:
            self._keep(running, block)
        elif running.silent_too_long:
            self._finish(_lost(running.source.name))
        return self._running is not None

    def close(self) -> None:
        """Complete a running take."""
        if self._running is not None:
            self._finish(None)

    def _runs(self, request_id: str) -> bool:
        return self._running is not None and self._running.request_id == request_id

    def _list(self) -> None:
        if self._running is not None:
            self._post(MicrophonesListed(self._listed))
            return
        try:
            self._listed = self._inputs.list()
        except MicrophoneError as error:
            self._listed = ()
            self._post(MicrophonesListed((), error.info))
            return
        self._post(MicrophonesListed(self._listed, None if self._listed else no_microphone().info))

    def _start(self, command: StartTake) -> None:
        if self._running is not None:
            self._fail(command, MicrophoneError("A recording is running already.", remedy="Stop it first."))
            return
        try:
            source = self._inputs.open(command.microphone)
        except MbltError as error:
            self._fail(command, error)
            return
        try:
            take = Take(Path(command.path), source.rate)
        except MbltError as error:
            source.close()
            self._fail(command, error)
            return
        self._running = _Running(command.request_id, source, take)

    def _fail(self, command: StartTake, error: MbltError) -> None:
        self._post(Failed(command.request_id, error.info))
        self._marks.clear(command.request_id)

    def _keep(self, running: _Running, block: np.ndarray[tuple[int], np.dtype[np.float32]]) -> None:
        now = time.monotonic()
        if not running.heard:
            running.heard = True
            self._post(TakeStarted(running.request_id, running.source.name))
        running.last_sound = now
        running.peak = max(running.peak, float(np.abs(block).max(initial=0.0)))
        try:
            running.take.write(block)
        except MbltError as error:
            self._finish(error)
            return
        if now - running.last_level >= _LEVEL_EVERY:
            self._post(TakeLevel(running.request_id, running.take.seconds, min(1.0, running.peak)))
            running.last_level, running.peak = now, 0.0

    def _finish(self, reason: MbltError | None) -> None:
        running, self._running = self._running, None
        assert running is not None
        error: ErrorInfo | None = None if reason is None else reason.info
        running.source.close()
        if reason is None:
            error = self._drain(running)
        running.take.close()
        self._post(TakeFinished(running.request_id, str(running.take.path), running.take.seconds, error))
        self._marks.clear(running.request_id)

    def _drain(self, running: _Running) -> ErrorInfo | None:
        """The last words are still in the queue when Stop is pressed."""
        try:
            while (block := running.source.read(0)) is not None:
                running.take.write(block)
        except MbltError as error:
            return to_info(error)
        return None


def _lost(name: str) -> MicrophoneError:
    return MicrophoneError(
        f"The microphone “{name}” stopped delivering sound.",
        unharmed="Everything recorded before that is kept.",
        remedy="Check its plug, then record again.",
    )
