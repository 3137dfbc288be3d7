"""A recording made ready to draw and to count: columns instead of objects, times from the recording's start.

A million spans are a few arrays here, so finding those in a stretch of time is a binary search and statistics
take milliseconds. Frozen and picklable, so it may cross the thread boundary; numpy is imported on first use.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from runtime.tracing.files import Checkpoint
from runtime.tracing.levels import Level, build_levels
from runtime.tracing.model import Metadata, Span, Trace, Track, TrackKind
from runtime.tracing.recorder import Args

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Times = npt.NDArray[np.int64]
    Numbers = npt.NDArray[np.int32]

MAX_LINES = 16
"""Spans nested deeper than this are counted, but not drawn."""


@dataclass(frozen=True, slots=True, eq=False)
class TrackView:
    """One track; every array has one element per span, sorted by start, parents first."""

    title: str
    kind: TrackKind
    tid: int
    start: Times
    """ns from the recording's start."""
    end: Times
    depth: Numbers
    name: Numbers
    """Index into `TraceView.names`."""
    request: Numbers
    """Index into `TraceView.requests`, -1 for none."""
    lines: tuple[tuple[Level, ...], ...]
    """For each depth, its spans at several resolutions, finest first."""
    args: dict[int, Args] = field(default_factory=dict)
    """Arguments by span index, for those that have any."""


@dataclass(frozen=True, slots=True, eq=False)
class CounterView:
    """A value over time."""

    name: str
    time: Times
    value: npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True)
class RequestView:
    """A request that the recording knows of."""

    request_id: str
    title: str


@dataclass(frozen=True, slots=True, eq=False)
class TraceView:
    """A whole recording."""

    metadata: Metadata
    duration_ns: int
    names: tuple[str, ...]
    tracks: tuple[TrackView, ...]
    counters: tuple[CounterView, ...]
    requests: tuple[RequestView, ...]
    flows: tuple[tuple[int, int, int, int], ...] = ()
    """Arrows as (track, span, track, span)."""
    notes: tuple[str, ...] = ()
    """What the file cannot say, was repaired, or is damaged, in words."""

    @property
    def count(self) -> int:
        """All spans."""
        return sum(len(track.start) for track in self.tracks)


class _Numbering:
    """Small numbers for strings, in order of first use."""

    def __init__(self) -> None:
        self.by_text: dict[str, int] = {}

    def of(self, text: str) -> int:
        return self.by_text.setdefault(text, len(self.by_text))


def make_view(trace: Trace, checkpoint: Checkpoint = lambda: None) -> TraceView:
    """Turn a trace into columns."""
    import numpy as np

    origin = _origin(trace)
    names, requests = _Numbering(), _Numbering()
    tracks = []
    for track in trace.tracks:
        checkpoint()
        tracks.append(_track(track, origin, names, requests))
    titles = {
        track.request: track.title for track in trace.tracks if track.kind == "request" and track.request
    }
    counters = tuple(
        CounterView(
            counter.name,
            np.array([time_ns - origin for time_ns, _value in counter.samples], dtype=np.int64),
            np.array([value for _time_ns, value in counter.samples], dtype=np.float64),
        )
        for counter in trace.counters
    )
    ends = [int(track.end.max()) for track in tracks if len(track.end)]
    return TraceView(
        metadata=trace.metadata,
        duration_ns=max([trace.metadata.duration_ns, 1, *ends]),
        names=tuple(names.by_text),
        tracks=tuple(tracks),
        counters=counters,
        requests=tuple(
            RequestView(request, titles.get(request, f"Request {request}")) for request in requests.by_text
        ),
        flows=tuple((*flow.source, *flow.target) for flow in trace.flows),
        notes=(*trace.metadata.warnings, *trace.damage),
    )


def _origin(trace: Trace) -> int:
    """The recording's start, or the first span's when one began before."""
    starts = [track.spans[0].start_ns for track in trace.tracks if track.spans]
    starts.extend(counter.samples[0][0] for counter in trace.counters if counter.samples)
    return min([trace.metadata.start_ns, *starts])


def _track(track: Track, origin: int, names: _Numbering, requests: _Numbering) -> TrackView:
    import numpy as np

    spans = track.spans
    start = np.array([span.start_ns - origin for span in spans], dtype=np.int64)
    end = np.array([span.end_ns - origin for span in spans], dtype=np.int64)
    depth = np.array(_depths(spans), dtype=np.int32)
    return TrackView(
        title=track.title,
        kind=track.kind,
        tid=track.tid,
        start=start,
        end=end,
        depth=depth,
        name=np.array([names.of(span.name) for span in spans], dtype=np.int32),
        request=np.array(
            [-1 if span.request is None else requests.of(span.request) for span in spans], dtype=np.int32
        ),
        lines=tuple(_lines(start, end, depth)),
        args={index: span.args for index, span in enumerate(spans) if span.args},
    )


def _lines(start: Times, end: Times, depth: Numbers) -> Iterator[tuple[Level, ...]]:
    import numpy as np

    for line in range(min(MAX_LINES, int(depth.max()) + 1) if len(depth) else 0):
        chosen = np.flatnonzero(depth == line).astype(np.int32)
        yield build_levels(start[chosen], end[chosen], chosen)


def _depths(spans: list[Span]) -> list[int]:
    depths = []
    ends: list[int] = []
    for span in spans:
        while ends and ends[-1] <= span.start_ns:
            ends.pop()
        depths.append(len(ends))
        ends.append(span.end_ns)
    return depths
