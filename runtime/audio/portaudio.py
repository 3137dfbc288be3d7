"""The one door to PortAudio: found or explained, its device list renewed, its calls kept apart.

PortAudio freezes its list of devices when it is initialised and is not thread-safe. So the list is renewed by
initialising it again, never while a stream is open, and opening, closing and listing hold one lock.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Literal

from runtime.errors import MicrophoneError

Direction = Literal["input", "output"]

_LOCK = threading.RLock()
_open_streams = 0
_kept_handler: Any = None


@dataclass(frozen=True, slots=True)
class Device:
    """One input or output of PortAudio's current list."""

    index: int
    name: str
    host: str
    channels: int
    rate: int
    is_default: bool


def module() -> Any:
    """The sounddevice module. Raises MicrophoneError when PortAudio is not installed."""
    _silence_alsa()
    try:
        import sounddevice
    except OSError as error:
        raise MicrophoneError(
            "Recording and playing sound need the PortAudio library, which is not installed.",
            remedy="Install it with: sudo apt install libportaudio2",
            unharmed="Transcribing files works without it.",
            detail=str(error),
        ) from None
    return sounddevice


def devices(direction: Direction) -> list[Device]:
    """What is plugged in now, the system's default first. Raises MicrophoneError without PortAudio."""
    sounddevice = module()
    with _LOCK:
        _renew(sounddevice)
        found = [_describe(sounddevice, index, direction) for index in _all(sounddevice)]
    usable = [device for device in found if device is not None and device.channels > 0]
    return sorted(usable, key=lambda device: not device.is_default)


def open_stream(direction: Direction, **options: Any) -> Any:
    """A started stream; give it back with `close_stream`. Raises sounddevice.PortAudioError."""
    global _open_streams
    sounddevice = module()
    make = sounddevice.InputStream if direction == "input" else sounddevice.OutputStream
    with _LOCK:
        stream = make(**options)
        try:
            stream.start()
        except sounddevice.PortAudioError:
            stream.close()
            raise
        _open_streams += 1
    return stream


def close_stream(stream: Any) -> None:
    """Drop what is still buffered and close; a device that is gone does not matter."""
    global _open_streams
    sounddevice = module()
    with _LOCK:
        _open_streams -= 1
        for call in (stream.abort, stream.close):
            _quietly(sounddevice, call)


def _quietly(sounddevice: Any, call: Callable[[], object]) -> None:
    try:
        call()
    except sounddevice.PortAudioError:
        return


def _renew(sounddevice: Any) -> None:
    if _open_streams == 0:
        sounddevice._terminate()  # noqa: SLF001 - the only way to see newly plugged devices
        sounddevice._initialize()  # noqa: SLF001


def _all(sounddevice: Any) -> range:
    return range(sum(len(host["devices"]) for host in sounddevice.query_hostapis()))


def _describe(sounddevice: Any, index: int, direction: Direction) -> Device | None:
    try:
        info = sounddevice.query_devices(index)
        host = sounddevice.query_hostapis(info["hostapi"])
    except (sounddevice.PortAudioError, UnicodeDecodeError):
        return None  # a device whose name is not text; the others are still good
    return Device(
        index=index,
        name=info["name"].strip() or f"Device {index}",
        host=host["name"],
        channels=info[f"max_{direction}_channels"],
        rate=int(info["default_samplerate"]),
        is_default=index == _default_index(sounddevice, direction),
    )


def _default_index(sounddevice: Any, direction: Direction) -> int:
    pair = sounddevice.default.device
    chosen = int(pair[0 if direction == "input" else 1])
    if chosen >= 0:
        return chosen
    for host in sounddevice.query_hostapis():
        index = int(host[f"default_{direction}_device"])
        if index >= 0:
            return index
    return -1


def _silence_alsa() -> None:
    """ALSA prints a line to stderr for every device it tries in vain."""
    global _kept_handler
    if _kept_handler is not None:
        return
    kind = ctypes.CFUNCTYPE(
        None, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p, ctypes.c_int, ctypes.c_char_p
    )
    _kept_handler = kind(_ignore)
    try:
        ctypes.cdll.LoadLibrary("libasound.so.2").snd_lib_error_set_handler(_kept_handler)
    except (OSError, AttributeError):
        return


def _ignore(_file: bytes, _line: int, _function: bytes, _error: int, _format: bytes) -> None:
    return
