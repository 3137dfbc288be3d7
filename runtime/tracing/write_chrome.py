"""Writes a recording as Chrome's JSON trace format, for viewers that know no other.

The format has dozens of ways to be read wrongly without an error, so this writer keeps to the few that every
viewer reads alike: a bare array (a cut one still loads), one process name first (an empty array does not),
complete `X` events sorted by time with parents first, asynchronous `b`/`e` pairs for requests, small thread
numbers, microseconds printed from whole nanoseconds, UTF-8 as it is, and no number that JSON cannot hold.
"""

from __future__ import annotations

import gzip
import heapq
import json
import re
from collections import defaultdict
from collections.abc import Iterator
from pathlib import Path
from typing import IO, Any

from runtime.tracing.about import (
    ABOUT,
    APP_PID,
    APP_PROCESS,
    DEVICE_PID,
    KEY,
    about_args,
    device_process,
    label,
    printable,
)
from runtime.tracing.files import Checkpoint, written_whole
from runtime.tracing.model import Counter, Span, Trace, Track, walk
from runtime.tracing.recorder import Args

ABOUT_TID = 1
FIRST_TID = 2

_TRAPS = re.compile(r"\\[ubfr\\]")
"""Escapes that Perfetto shows as they stand; with a backslash before its end quote it even loses the file."""
_BACKSLASH = "\N{SET MINUS}"

Line = tuple[int, str]
"""Time in ns and the event as JSON."""


def write_chrome(trace: Trace, path: Path, checkpoint: Checkpoint = lambda: None) -> None:
    """Write `trace` to `path`, gzipped when its name ends in `.gz`; it appears only when complete.

    Raises:
        StorageError: the file cannot be written; what was there before is untouched.
    """
    with written_whole(path) as file:
        if path.suffix == ".gz":
            # No time and no name inside: the same recording gives the same bytes.
            with gzip.GzipFile(filename="", mode="wb", fileobj=file, compresslevel=6, mtime=0) as packed:
                _write(trace, packed, checkpoint)
        else:
            _write(trace, file, checkpoint)


def _write(trace: Trace, file: IO[bytes] | gzip.GzipFile, checkpoint: Checkpoint) -> None:
    separator = "[\n"
    for number, line in enumerate(_lines(trace)):
        if number % 4096 == 0:
            checkpoint()
        file.write((separator + line).encode("utf-8"))
        separator = ",\n"
    file.write(b"\n]\n")


def _lines(trace: Trace) -> Iterator[str]:
    yield from _names(trace)
    about = {"name": ABOUT, "ph": "i", "s": "t", "pid": APP_PID, "tid": ABOUT_TID, "args": about_args(trace)}
    yield _json(about, ts=trace.metadata.start_ns)
    starts = defaultdict(list)
    ends = defaultdict(list)
    for number, flow in enumerate(trace.flows, 1):
        starts[flow.source].append(number)
        ends[flow.target].append(number)
    # Of two events at the same time the one from the earlier stream goes first, and an arrow must
    # leave before it arrives; so the tracks that arrows leave from come first.
    sources = {track for track, _index in starts}
    places = sorted(range(len(trace.tracks)), key=lambda index: index not in sources)
    streams = [
        _request_lines(index, trace.tracks[index])
        if trace.tracks[index].kind == "request"
        else _span_lines(index, trace.tracks[index], starts, ends)
        for index in places
    ]
    streams.extend(_counter_lines(counter) for counter in trace.counters)
    for _time, line in heapq.merge(*streams, key=lambda item: item[0]):
        yield line


def _names(trace: Trace) -> Iterator[str]:
    yield _name("process_name", APP_PROCESS, APP_PID)
    if any(track.kind == "device" for track in trace.tracks):
        yield _name("process_name", device_process(trace.metadata), DEVICE_PID)
    yield _name("thread_name", "About this recording", APP_PID, ABOUT_TID)
    for index, track in enumerate(trace.tracks):
        if track.kind != "request":
            yield _name("thread_name", track.title, _pid(track), FIRST_TID + index)


def _name(what: str, name: str, pid: int, tid: int | None = None) -> str:
    event: dict[str, Any] = {"name": what, "ph": "M", "pid": pid, "args": {"name": label(name)}}
    if tid is not None:
        event["tid"] = tid
    return _json(event)


def _span_lines(
    index: int,
    track: Track,
    starts: dict[tuple[int, int], list[int]],
    ends: dict[tuple[int, int], list[int]],
) -> Iterator[Line]:
    place = {"pid": _pid(track), "tid": FIRST_TID + index}
    for number, span in enumerate(track.spans):
        event = {"name": label(span.name), **place, "cat": track.kind, "args": _args(span)}
        if span.instant:
            yield span.start_ns, _json({**event, "ph": "i", "s": "t"}, ts=span.start_ns)
        else:
            yield span.start_ns, _json({**event, "ph": "X"}, ts=span.start_ns, dur=span.duration_ns)
        arrow = {"name": "request", "cat": "flow", **place}
        for flow in starts.get((index, number), ()):
            yield span.start_ns, _json({**arrow, "ph": "s", "id": flow}, ts=span.start_ns)
        for flow in ends.get((index, number), ()):
            yield span.start_ns, _json({**arrow, "ph": "f", "bp": "e", "id": flow}, ts=span.start_ns)


def _request_lines(index: int, track: Track) -> Iterator[Line]:
    """A request's track: nested asynchronous events, so that requests may overlap."""
    event = {"pid": APP_PID, "tid": FIRST_TID + index, "cat": "request", "id": index + 1}
    for span, place in walk(track.spans):
        if place is None:
            yield span.end_ns, _json({**event, "ph": "e", "name": label(span.name)}, ts=span.end_ns)
        else:
            begin = {**event, "ph": "b", "name": label(span.name), "args": _args(span)}
            yield span.start_ns, _json(begin, ts=span.start_ns)
            if span.instant:
                yield span.start_ns, _json({**event, "ph": "e", "name": label(span.name)}, ts=span.start_ns)


def _counter_lines(counter: Counter) -> Iterator[Line]:
    for time_ns, value in counter.samples:
        event = {"name": label(counter.name), "ph": "C", "pid": APP_PID, "args": {"value": value}}
        yield time_ns, _json(event, ts=time_ns)


def _pid(track: Track) -> int:
    return DEVICE_PID if track.kind == "device" else APP_PID


def _args(span: Span) -> Args:
    return {"request": span.request, **span.args} if span.request is not None else span.args


def _json(event: dict[str, Any], **times_ns: int) -> str:
    """One event; times are printed in µs from whole ns, which a float could not hold exactly."""
    text = _dumps(event)
    if not text.isprintable() or _TRAPS.search(text):
        text = _dumps(_printable(event))
    times = "".join(f',"{key}":{ns // 1000}.{ns % 1000:03d}' for key, ns in times_ns.items())
    return f"{text[:-1]}{times}}}"


def _dumps(event: dict[str, Any]) -> str:
    return json.dumps(event, ensure_ascii=False, allow_nan=False, separators=(",", ":"))


def _printable(value: Any) -> Any:
    """The same event with text that every viewer shows as it is."""
    if isinstance(value, str):
        return printable(value).replace("\\", _BACKSLASH)
    if isinstance(value, dict):
        return {
            _printable(key): printable(inner) if key == KEY else _printable(inner)
            for key, inner in value.items()
        }
    return value
