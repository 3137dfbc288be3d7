"""The playback lane: plays a file from any place, says where it is, and measures files for drawing."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from runtime.audio import portaudio
from runtime.audio.decode import AudioFile
from runtime.audio.pcm import Samples
from runtime.audio.waveform import FileOutline
from runtime.config import RuntimeConfig
from runtime.errors import AudioError, MbltError, MicrophoneError
from runtime.lanes.lane import CancelMarks, Post
from runtime.messages import (
    AudioOutlined,
    Command,
    Failed,
    OutlineAudio,
    PlayAudio,
    PlaybackEnded,
    PlaybackMoved,
    StopAudio,
)

_CHUNK_SECONDS = 0.05


class Output(Protocol):
    """An open loudspeaker."""

    rate: int
    latency: float
    """Seconds between writing a sample and hearing it."""

    def write(self, samples: Samples) -> None:
        """Play; waits while the device's buffer is full. Raises MicrophoneError when it is gone."""

    def close(self) -> None:
        """Stop at once."""


class PortAudioOutput:
    """The system's default output."""

    def __init__(self) -> None:
        found = portaudio.devices("output")
        if not found:
            raise MicrophoneError(
                "No loudspeaker was found.",
                remedy="Connect one, then press Play again.",
                unharmed="The transcript is unharmed.",
            )
        device = found[0]
        self.rate = device.rate or 48_000
        try:
            self._stream: Any = portaudio.open_stream(
                "output", device=device.index, channels=1, samplerate=self.rate, dtype="float32"
            )
        except portaudio.module().PortAudioError as error:
            raise _unusable(device.name, error) from None
        self._name = device.name
        self.latency = float(self._stream.latency)

    def write(self, samples: Samples) -> None:
        """Play; waits while the device's buffer is full."""
        try:
            self._stream.write(np.ascontiguousarray(samples.reshape(-1, 1)))
        except portaudio.module().PortAudioError as error:
            raise _unusable(self._name, error) from None

    def close(self) -> None:
        """Stop at once."""
        portaudio.close_stream(self._stream)


def _unusable(name: str, error: Exception) -> MicrophoneError:
    return MicrophoneError(
        f"The loudspeaker “{name}” cannot be used.",
        remedy="Close other programs that use it, or choose another output in the system's settings.",
        unharmed="The transcript is unharmed.",
        detail=str(error),
    )


class _Playing:
    def __init__(self, command: PlayAudio, output: Output) -> None:
        self.request_id = command.request_id
        self.output = output
        self._file = AudioFile(Path(command.path), output.rate)
        self._file.seek(command.start)
        self._chunks = self._cut(command.start)
        self._written_to = command.start

    @property
    def position(self) -> float:
        """What is heard now, in seconds from the start of the file."""
        return max(0.0, self._written_to - self.output.latency)

    def advance(self) -> bool:
        """Write the next chunk; False at the end of the file."""
        chunk = next(self._chunks, None)
        if chunk is None:
            return False
        self.output.write(chunk)
        self._written_to += len(chunk) / self.output.rate
        return True

    def close(self) -> None:
        """Stop."""
        self.output.close()
        self._file.close()

    def _cut(self, start: float) -> Iterator[Samples]:
        size = int(_CHUNK_SECONDS * self.output.rate)
        for block in self._file.blocks():
            early = start - (self._file.position - len(block) / self.output.rate)
            kept = block[max(0, int(early * self.output.rate)) :]
            for first in range(0, len(kept), size):
                yield kept[first : first + size]
        # What was written last is heard only when as much has been written after it.
        yield np.zeros(int(self.output.latency * self.output.rate), np.float32)


class PlaybackService:
    """See `runtime.lanes.lane.Service`. One file at a time."""

    def __init__(
        self,
        config: RuntimeConfig,
        post: Post,
        marks: CancelMarks,
        make_output: type[Output] = PortAudioOutput,
    ) -> None:
        del config, marks
        self._post = post
        self._make_output = make_output
        self._playing: _Playing | None = None
        self._outlining: tuple[str, FileOutline] | None = None

    def open(self) -> None:
        """Nothing to prepare."""

    def handle(self, command: Command) -> None:
        """Play, stop or begin to measure."""
        if isinstance(command, PlayAudio):
            self._stop(at_end=False)
            self._play(command)
        elif isinstance(command, StopAudio):
            self._stop(at_end=False)
        elif isinstance(command, OutlineAudio):
            self._begin_outline(command)

    def step(self) -> bool:
        """Play the next twentieth of a second, measure the next block; True while there is more."""
        if self._playing is not None:
            self._advance(self._playing)
        if self._outlining is not None:
            self._advance_outline(*self._outlining)
        return self._playing is not None or self._outlining is not None

    def close(self) -> None:
        """Stop."""
        self._stop(at_end=False)
        self._drop_outline()

    def _advance(self, playing: _Playing) -> None:
        try:
            more = playing.advance()
        except MbltError as error:
            self._playing = None
            playing.close()
            self._post(Failed(playing.request_id, error.info))
            return
        if more:
            self._post(PlaybackMoved(playing.request_id, playing.position))
        else:
            self._stop(at_end=True)

    def _play(self, command: PlayAudio) -> None:
        output: Output | None = None
        try:
            output = self._make_output()
            self._playing = _Playing(command, output)
        except MbltError as error:
            if output is not None:
                output.close()
            self._post(Failed(command.request_id, error.info))

    def _stop(self, *, at_end: bool) -> None:
        playing, self._playing = self._playing, None
        if playing is not None:
            playing.close()
            self._post(PlaybackEnded(playing.request_id, playing.position, at_end))

    def _begin_outline(self, command: OutlineAudio) -> None:
        self._drop_outline()
        try:
            self._outlining = (command.request_id, FileOutline(Path(command.path)))
        except AudioError:
            # Whoever transcribes or plays the file is told why; a drawing is no reason for a message.
            self._post(AudioOutlined(command.request_id, (), 0.0))

    def _advance_outline(self, request_id: str, outline: FileOutline) -> None:
        try:
            if outline.advance():
                return
            self._post(AudioOutlined(request_id, outline.bins(), outline.duration))
        except AudioError:
            self._post(AudioOutlined(request_id, (), 0.0))
        self._drop_outline()

    def _drop_outline(self) -> None:
        if self._outlining is not None:
            self._outlining[1].close()
            self._outlining = None
