"""Commands and events of the microphone and playback lanes."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.errors import ErrorInfo


@dataclass(frozen=True, slots=True)
class Microphone:
    """An input that can be recorded. `key` names it across restarts and re-plugging."""

    key: str
    name: str
    is_default: bool = False


# -- commands: microphone lane -------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListMicrophones:
    """Look for inputs again; answered by `MicrophonesListed`. The list stays as it is while a take runs."""


@dataclass(frozen=True, slots=True)
class StartTake:
    """Record an input to `path` (wav) until StopTake, or until the input stops delivering."""

    request_id: str
    path: str
    microphone: str | None
    """`Microphone.key`, or None for the system's default."""


@dataclass(frozen=True, slots=True)
class StopTake:
    """End the take; answered by `TakeFinished`."""

    request_id: str


# -- commands: playback lane ---------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class OutlineAudio:
    """Measure how loud a file is over its length; answered by `AudioOutlined`, also when it cannot be read.

    A newer request replaces one that is not finished.
    """

    request_id: str
    path: str


@dataclass(frozen=True, slots=True)
class PlayAudio:
    """Play a file from `start` seconds on; what played before stops."""

    request_id: str
    path: str
    start: float


@dataclass(frozen=True, slots=True)
class StopAudio:
    """Stop playing."""

    request_id: str


# -- events --------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class MicrophonesListed:
    """The inputs there are; `error` says why there are none."""

    microphones: tuple[Microphone, ...]
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class TakeStarted:
    """The input delivers sound and it goes to the disk."""

    request_id: str
    microphone: str
    """The input's name."""


@dataclass(frozen=True, slots=True)
class TakeLevel:
    """Several times a second: seconds on disk, and the loudest sample since the last one (0..1)."""

    request_id: str
    seconds: float
    peak: float


@dataclass(frozen=True, slots=True)
class TakeFinished:
    """The take is on disk. `error` is set when the input was lost; what came before it is kept."""

    request_id: str
    path: str
    seconds: float
    error: ErrorInfo | None = None


@dataclass(frozen=True, slots=True)
class AudioOutlined:
    """Loudest sample (0..1) of each of equally long parts of the file; none when it cannot be read."""

    request_id: str
    outline: tuple[float, ...]
    duration: float
    """Seconds."""


@dataclass(frozen=True, slots=True)
class PlaybackMoved:
    """Several times a second: seconds into the file."""

    request_id: str
    position: float


@dataclass(frozen=True, slots=True)
class PlaybackEnded:
    """It was stopped, or the end was reached."""

    request_id: str
    position: float
    at_end: bool
