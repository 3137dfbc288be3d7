"""A running recording on disk: one JSON value per line, appended as things happen.

Whatever ends the program, the lines written so far can be made into a recording at the next start. Arrays are
host events as `runtime.tracing.recorder` makes them; objects carry everything else under one key each:
`header` first, then `clock`, `threads` and `device` whenever they are known, and `stop` last.
"""

from __future__ import annotations

import contextlib
import json
import math
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO, Any, get_args

from runtime.errors import TraceError, storage_error
from runtime.tracing.model import ClockReading
from runtime.tracing.recorder import (
    COUNTER,
    INSTANT,
    REQUEST_BEGIN,
    REQUEST_END,
    SPAN,
    Args,
    HostEvent,
    Scalar,
)

VERSION = 1
MAX_TEXT = 120
"""Longest string kept in an argument; longer ones are cut."""

_KINDS = frozenset((SPAN, INSTANT, COUNTER, REQUEST_BEGIN, REQUEST_END))


@dataclass(slots=True)
class Journal:
    """A journal read back."""

    recording_id: str
    title: str
    started_at: float
    start_ns: int
    versions: dict[str, str] = field(default_factory=dict)
    events: list[HostEvent] = field(default_factory=list)
    threads: dict[int, str] = field(default_factory=dict)
    clocks: list[ClockReading] = field(default_factory=list)
    device: dict[str, Any] = field(default_factory=dict)
    stop_ns: int | None = None
    """None when the program ended before the recording did."""
    limit: str | None = None
    refused: int = 0


class JournalWriter:
    """Appends to a journal; each call ends with the lines handed to the system."""

    def __init__(self, path: Path, header: dict[str, Any]) -> None:
        self._path = path
        try:
            self._file: IO[str] = path.open("x", encoding="utf-8", errors="backslashreplace")
        except OSError as error:
            raise storage_error(error, str(path)) from error
        self.note("header", {"version": VERSION, **header})

    def note(self, key: str, value: Any) -> None:
        """Append one object."""
        self._append((json.dumps({key: value}, ensure_ascii=False, allow_nan=False),))

    def events(self, events: Iterable[HostEvent]) -> None:
        """Append host events."""
        self._append(
            json.dumps((*event[:6], clean(event[6])), ensure_ascii=False, allow_nan=False) for event in events
        )

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def _append(self, lines: Iterable[str]) -> None:
        try:
            self._file.writelines(line + "\n" for line in lines)
            self._file.flush()
        except OSError as error:
            raise storage_error(error, str(self._path)) from error


def clean(args: Args) -> Args:
    """Arguments that every export can hold: finite numbers, truth values, short strings."""
    return {str(name): value for name, raw in args.items() if (value := _scalar(raw)) is not None}


def _scalar(value: Any) -> Scalar | None:
    if isinstance(value, bool):
        return value
    if isinstance(value, int):
        return value if -(2**63) <= value < 2**63 else None
    if isinstance(value, float):
        return value if math.isfinite(value) else None
    return str(value)[:MAX_TEXT]


def read_journal(path: Path) -> Journal:
    """Read a journal, complete or cut short; lines that are not whole are left out.

    Raises:
        TraceError: there is no header, so nothing can be made of it.
    """
    try:
        with path.open(encoding="utf-8", errors="replace") as file:
            values = _values(file)
            journal = _opened(next(values, None), path)
            for value in values:
                # A line damaged by the crash may still be JSON; it is left out like a cut one.
                with contextlib.suppress(TypeError, ValueError, KeyError, AttributeError):
                    _take(journal, value)
    except OSError as error:
        raise storage_error(error, str(path)) from error
    return journal


def _values(lines: Iterable[str]) -> Iterator[Any]:
    for line in lines:
        try:
            yield json.loads(line)
        except ValueError:
            continue


def _opened(value: Any, path: Path) -> Journal:
    try:
        header = value["header"]
        return Journal(
            str(header["recording_id"]),
            str(header["title"]),
            float(header["started_at"]),
            int(header["start_ns"]),
            {str(k): str(v) for k, v in header["versions"].items()},
        )
    except (TypeError, KeyError, ValueError, AttributeError) as error:
        raise TraceError(
            f"The unfinished recording {path} holds nothing that can be recovered.",
            remedy="Nothing needs to be done; make a new recording.",
            unharmed="Finished recordings are unharmed.",
            detail=f"{type(error).__name__}: {error}",
        ) from error


def _take(journal: Journal, value: Any) -> None:
    if isinstance(value, list):
        if (event := host_event(value)) is not None:
            journal.events.append(event)
    elif isinstance(value, dict):
        if "clock" in value:
            journal.clocks.append(ClockReading(*value["clock"]))
        elif "threads" in value:
            journal.threads.update({int(tid): str(name) for tid, name in value["threads"].items()})
        elif "device" in value:
            journal.device = value["device"]
        elif "stop" in value:
            journal.stop_ns = int(value["stop"]["ns"])
            journal.limit = value["stop"]["limit"]
            journal.refused = int(value["stop"]["refused"])


def host_event(value: list[Any]) -> HostEvent | None:
    """A host event out of a JSON array, or None when it is not one."""
    if len(value) != len(get_args(HostEvent)):
        return None
    kind, name, time_ns, extent, thread, request, args = value
    right = (
        kind in _KINDS
        and isinstance(name, str)
        and isinstance(time_ns, int)
        and isinstance(extent, int | float)
        and isinstance(thread, int)
        and isinstance(request, str | None)
        and isinstance(args, dict)
    )
    return (kind, name, time_ns, extent, thread, request, args) if right else None
