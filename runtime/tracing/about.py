"""What a written file says about itself: a moment named `recording` at its start.

People read its arguments in any viewer; this program reads `mblt`, which holds the metadata and what each
track is, and so gets back exactly what it wrote.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any

from runtime.tracing.model import Metadata, Trace, TrackKind
from runtime.tracing.recorder import Args

ABOUT = "recording"
KEY = "mblt"
APP_PROCESS = "MBLT Desktop"
APP_PID = 1
DEVICE_PID = 2

_CONTROLS = dict.fromkeys(range(32), " ")


@dataclass(frozen=True, slots=True)
class TrackNote:
    """A track as the file's own note tells it."""

    title: str
    kind: TrackKind
    tid: int
    request: str | None


@dataclass(frozen=True, slots=True)
class About:
    """A file's note about itself; `tracks` by the writer's track number, from 0."""

    metadata: Metadata
    tracks: tuple[TrackNote, ...]


def device_process(metadata: Metadata) -> str:
    """The name of the process that the device's events are shown under."""
    return f"qbruntime · {metadata.device}" if metadata.device else "qbruntime"


def about_args(trace: Trace) -> Args:
    """Arguments of the `recording` moment."""
    metadata = trace.metadata
    bound = metadata.clock_bound_ns
    args: Args = {
        "title": metadata.title,
        "device": metadata.device or "none",
        "simulated": metadata.simulated,
        "clock error": "unknown" if bound is None else f"± {bound / 1000:.1f} µs",
        "host events": metadata.host_events,
        "device events": metadata.device_events,
        "repaired device spans": metadata.repaired,
        "skipped device elements": metadata.skipped,
        "text of prompts and answers": "not recorded",
    }
    for name, version in metadata.versions.items():
        args[f"version of {name}"] = version
    for number, warning in enumerate(metadata.warnings, 1):
        args[f"note {number}"] = warning
    tracks = [[track.title, track.kind, track.tid, track.request] for track in trace.tracks]
    value = {"metadata": metadata.to_json(), "tracks": tracks}
    args[KEY] = json.dumps(value, ensure_ascii=False, allow_nan=False)
    return args


def parse_about(text: str) -> About | None:
    """Read `mblt` back; None when it is not exactly what this program writes."""
    try:
        value: Any = json.loads(text)
        metadata = Metadata.from_json(value["metadata"])
        tracks = tuple(_track_note(*row) for row in value["tracks"])
    except (TypeError, ValueError, KeyError, RecursionError):
        return None
    return About(metadata, tracks) if metadata is not None else None


def _track_note(title: Any, kind: Any, tid: Any, request: Any) -> TrackNote:
    if kind not in ("request", "thread", "device"):
        raise ValueError(kind)
    return TrackNote(str(title), kind, int(tid), None if request is None else str(request))


def printable(text: str) -> str:
    """Text that every viewer shows as it is.

    Lone surrogates, as undecodable file names have them, are not UTF-8 and become "?". Control characters
    become spaces: Perfetto's JSON importer would show their escapes as they stand.
    """
    return text.encode("utf-8", "replace").decode("utf-8").translate(_CONTROLS)


def label(text: str) -> str:
    """A name on one line; viewers trim names, each in its own way."""
    return " ".join(printable(text).split()) or "(no name)"
