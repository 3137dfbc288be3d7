"""Commands and events of recordings; the recorder lane answers them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.errors import ErrorInfo

if TYPE_CHECKING:
    from runtime.tracing.view import TraceView


@dataclass(frozen=True, slots=True)
class RecordingInfo:
    """A finished recording on disk."""

    recording_id: str
    path: str
    title: str
    started_at: float
    """Wall clock, seconds since the epoch."""
    duration: float
    """Seconds."""
    host_events: int
    device_events: int
    simulated: bool
    bytes: int = 0
    warnings: tuple[str, ...] = ()
    """What the file cannot say or had to repair, in words."""
    device: str = ""
    """The device in words; empty when none took part."""
    checked: bool = False
    """Whether the file was read back and found whole when it was written."""


# -- commands -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class StartRecording:
    """Start a recording that ends at StopRecording or at one of its limits."""

    recording_id: str
    title: str
    folder: str
    max_seconds: float = 600.0
    max_events: int = 2_000_000


@dataclass(frozen=True, slots=True)
class StopRecording:
    """Stop, merge, write and check the recording."""

    recording_id: str


@dataclass(frozen=True, slots=True)
class ExportRecording:
    """Write `source` (.pftrace) to `target` as Chrome JSON, plain or gzipped by its name."""

    request_id: str
    source: str
    target: str


@dataclass(frozen=True, slots=True)
class AnalyseRecording:
    """Read a recording for the tracing pane; answered by `RecordingAnalysed`."""

    request_id: str
    path: str


@dataclass(frozen=True, slots=True)
class ListRecordings:
    """Look at the folder of recordings; answered by `RecordingsListed`."""

    folder: str


@dataclass(frozen=True, slots=True)
class ImportRecording:
    """Copy a trace file from elsewhere into `folder` as a recording; answered by `RecordingFinished`."""

    request_id: str
    source: str
    folder: str


@dataclass(frozen=True, slots=True)
class RenameRecording:
    """Give a recording another title; answered by `RecordingsListed`."""

    path: str
    title: str


@dataclass(frozen=True, slots=True)
class RemoveRecording:
    """Take a recording off the list; it can be restored for a day. Answered by `RecordingsListed`."""

    path: str


@dataclass(frozen=True, slots=True)
class RestoreRecording:
    """Bring a removed recording back; answered by `RecordingsListed`."""

    path: str


# -- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class RecordingStarted:
    """The recording runs."""

    recording_id: str
    started_at: float


@dataclass(frozen=True, slots=True)
class RecordingFinished:
    """The recording is on disk and passed its checks."""

    info: RecordingInfo


@dataclass(frozen=True, slots=True)
class RecordingFailed:
    """The recording could not be started or written."""

    recording_id: str
    error: ErrorInfo


@dataclass(frozen=True, slots=True)
class RecordingsListed:
    """The recordings in a folder, newest first; `notice` says what could not be read, in words."""

    folder: str
    rows: tuple[RecordingInfo, ...]
    notice: str = ""


@dataclass(frozen=True, slots=True)
class RecordingAnalysed:
    """A recording made ready to draw."""

    request_id: str
    path: str
    view: TraceView
