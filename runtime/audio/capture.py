"""Recording an input: PortAudio's callback only copies into a queue; its reader does the rest."""

from __future__ import annotations

import queue
import time
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from runtime.audio import portaudio
from runtime.audio.pcm import Samples
from runtime.errors import MicrophoneError, storage_error
from runtime.messages import Microphone


def no_microphone() -> MicrophoneError:
    """There is nothing to record with."""
    return MicrophoneError(
        "No microphone was found.",
        remedy="Connect one and press Refresh, or drop an audio file instead.",
        unharmed="Transcribing files works without it.",
    )


class Input(Protocol):
    """An open input that delivers blocks of one channel."""

    name: str
    rate: int
    """Samples per second."""

    def read(self, seconds: float) -> Samples | None:
        """The next block, or None when none came within `seconds`."""

    def close(self) -> None:
        """Stop delivering; what was delivered can still be read."""


class Inputs(Protocol):
    """Where inputs come from; the tests bring their own."""

    def list(self) -> tuple[Microphone, ...]:
        """What is plugged in now, the default first. Raises MicrophoneError when nothing can be."""

    def open(self, key: str | None) -> Input:
        """Start an input by key, or the default. May take a while. Raises MicrophoneError."""


class PortAudioInputs:
    """The computer's own inputs."""

    def list(self) -> tuple[Microphone, ...]:
        """What is plugged in now, the default first."""
        return tuple(Microphone(key, device.name, device.is_default) for key, device in _by_key().items())

    def open(self, key: str | None) -> Input:
        """Start an input by key, or the default."""
        found = _by_key()
        if not found:
            raise no_microphone()
        if key is None:
            return PortAudioInput(next(iter(found.values())))
        if key not in found:
            raise MicrophoneError(
                f"The microphone “{key.split('/', 1)[-1]}” is not connected.",
                remedy="Connect it again, or choose another one.",
            )
        return PortAudioInput(found[key])


def _by_key() -> dict[str, portaudio.Device]:
    """Inputs by a key that outlives PortAudio's numbering: host and name, and a number for twins."""
    found: dict[str, portaudio.Device] = {}
    for device in portaudio.devices("input"):
        name = f"{device.host}/{device.name}"
        key, twin = name, 1
        while key in found:
            twin += 1
            key = f"{name} ({twin})"
        found[key] = device
    return found


class PortAudioInput:
    """One open input."""

    def __init__(self, device: portaudio.Device) -> None:
        self.name = device.name
        self.rate = device.rate or 48_000
        self._blocks: queue.SimpleQueue[Samples] = queue.SimpleQueue()
        self._stream = self._start(device)

    def read(self, seconds: float) -> Samples | None:
        """The next block, or None when none came within `seconds`."""
        try:
            return self._blocks.get(timeout=seconds)
        except queue.Empty:
            return None

    def close(self) -> None:
        """Stop delivering; what was delivered can still be read."""
        portaudio.close_stream(self._stream)

    def _start(self, device: portaudio.Device) -> Any:
        failure: Exception | None = None
        # Some devices refuse one channel; they are then recorded in stereo and mixed.
        for channels in {1: None, min(2, device.channels): None}:
            try:
                return portaudio.open_stream(
                    "input",
                    device=device.index,
                    channels=channels,
                    samplerate=self.rate,
                    dtype="float32",
                    callback=self._take,
                )
            except portaudio.module().PortAudioError as error:
                failure = error
        raise MicrophoneError(
            f"The microphone “{device.name}” cannot be opened.",
            remedy="Close other programs that use it, or choose another one.",
            detail=str(failure),
        )

    def _take(self, block: Samples, _frames: int, _times: object, _status: object) -> None:
        # PortAudio reuses the memory of `block`.
        self._blocks.put(block.mean(axis=1, dtype=np.float32))


class Take:
    """A recording on its way to the disk as 16-bit wav; readable at any moment, also after a crash."""

    _FLUSH_SECONDS = 0.5

    def __init__(self, path: Path, rate: int) -> None:
        import soundfile

        self.path = path
        self._rate = rate
        self._frames = 0
        self._flushed_at = time.monotonic()
        try:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.touch(exist_ok=False)
            self._file = soundfile.SoundFile(path, "w", rate, 1, "PCM_16", format="WAV")
        except OSError as error:
            raise storage_error(error, str(path)) from None

    @property
    def seconds(self) -> float:
        """Length so far."""
        return self._frames / self._rate

    def write(self, block: Samples) -> None:
        """Append; at least twice a second what was appended is on the disk. Raises StorageError."""
        import soundfile

        try:
            self._file.write(block)
            self._frames += len(block)
            if time.monotonic() - self._flushed_at >= self._FLUSH_SECONDS:
                self._file.flush()
                self._flushed_at = time.monotonic()
        except (OSError, soundfile.LibsndfileError) as error:
            cause = error if isinstance(error, OSError) else OSError(str(error))
            raise storage_error(cause, str(self.path), unharmed="What was recorded before is kept.") from None

    def close(self) -> None:
        """Complete the file."""
        self._file.close()
