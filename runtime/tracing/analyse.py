"""Numbers about a recording: statistics by name for a stretch of time, and where each token's time went."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from runtime.tracing.view import TraceView, TrackView

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Times = npt.NDArray[np.int64]

Phase: TypeAlias = Literal["run", "move", "sample", "host"]
PHASES: tuple[Phase, ...] = ("run", "move", "sample", "host")

STEP_NAMES = ("decode step", "transcribe window")
"""The spans of a request whose time is broken down one by one."""
RUN_NAMES = frozenset(("run npu",))
MOVE_NAMES = frozenset(
    (
        "copy to npu",
        "copy from npu",
        "wait core",
        "lock core",
        "acquire output data",
        "dump cache memory",
        "load cache memory",
    )
)
SAMPLE_NAMES = frozenset(("sample", "detokenise"))


@dataclass(frozen=True, slots=True)
class NameStatistics:
    """All spans of one name that begin in the range; times in ns."""

    name: str
    count: int
    total: int
    mean: float
    p50: float
    p95: float
    share: float
    """Part of the range, 0..1, during which at least one such span ran."""


@dataclass(frozen=True, slots=True)
class Step:
    """One token, or one window of speech: its time by phase, in ns. `total` is their sum."""

    start: int
    total: int
    phases: dict[Phase, int]


@dataclass(frozen=True, slots=True)
class RequestBreakdown:
    """Where one request's time went, step by step."""

    request: int
    """Index into `TraceView.requests`."""
    step_name: str
    steps: tuple[Step, ...]

    def median(self, phase: Phase) -> float:
        """The middle step's time in that phase, in ns."""
        import numpy as np

        return float(np.median([step.phases[phase] for step in self.steps])) if self.steps else 0.0

    def share(self, phase: Phase) -> float:
        """The phase's part of all steps' time, 0..1."""
        total = sum(step.total for step in self.steps)
        return sum(step.phases[phase] for step in self.steps) / total if total else 0.0


def statistics(view: TraceView, low: int, high: int) -> list[NameStatistics]:
    """Statistics by name for the range [low, high) in ns from the start; longest total first."""
    import numpy as np

    if high <= low or not view.tracks:
        return []
    names, starts, ends = _overlapping(view, low, high)
    if not len(names):
        return []
    order = np.lexsort((starts, names))
    names, starts, ends = names[order], starts[order], ends[order]
    edges = np.flatnonzero(np.diff(names)) + 1
    rows = []
    for part in zip(np.split(names, edges), np.split(starts, edges), np.split(ends, edges), strict=True):
        name, start, end = part
        share = _covered(np.maximum(start, low), np.minimum(end, high)) / (high - low)
        inside = start >= low
        lengths = (end - start)[inside]
        if len(lengths):
            p50, p95 = np.percentile(lengths, (50, 95))
            rows.append(
                NameStatistics(
                    view.names[int(name[0])],
                    len(lengths),
                    int(lengths.sum()),
                    float(lengths.mean()),
                    float(p50),
                    float(p95),
                    share,
                )
            )
    rows.sort(key=lambda row: (-row.total, row.name))
    return rows


def breakdown(view: TraceView, request: int) -> RequestBreakdown | None:
    """Each step of a request by phase; None when the recording holds no step of it."""
    for step_name in STEP_NAMES:
        steps = tuple(_steps(view, request, step_name))
        if steps:
            return RequestBreakdown(request, step_name, steps)
    return None


def requests_with_steps(view: TraceView) -> list[int]:
    """The requests that `breakdown` has something to say about, in the view's order."""
    import numpy as np

    wanted = _numbers(view, frozenset(STEP_NAMES))
    found: set[int] = set()
    for track in view.tracks:
        if track.kind == "thread":
            found.update(np.unique(track.request[np.isin(track.name, wanted)]).tolist())
    return sorted(found - {-1})


@dataclass(frozen=True, slots=True, eq=False)
class Hits:
    """Spans that were looked for, by start: hit k is span `span[k]` of track `track[k]`."""

    track: Times
    span: Times


def find(view: TraceView, text: str) -> Hits:
    """The spans whose name holds `text`; case does not matter, and nothing matches an empty text."""
    import numpy as np

    wanted = text.casefold().strip()
    numbers = [number for number, name in enumerate(view.names) if wanted and wanted in name.casefold()]
    spans = [np.flatnonzero(np.isin(track.name, numbers)) for track in view.tracks]
    if not spans:
        return Hits(np.zeros(0, np.int64), np.zeros(0, np.int64))
    starts = np.concatenate([track.start[chosen] for track, chosen in zip(view.tracks, spans, strict=True)])
    tracks = np.repeat(np.arange(len(spans)), [len(chosen) for chosen in spans])
    order = np.argsort(starts, kind="stable")
    return Hits(tracks[order], np.concatenate(spans)[order])


def _overlapping(view: TraceView, low: int, high: int) -> tuple[Times, Times, Times]:
    import numpy as np

    parts = []
    for track in view.tracks:
        stop = int(np.searchsorted(track.start, high))
        chosen = np.flatnonzero((track.end[:stop] > low) | (track.start[:stop] >= low))
        parts.append((track.name[chosen], track.start[chosen], track.end[chosen]))
    names, starts, ends = (np.concatenate(column) for column in zip(*parts, strict=True))
    return names, starts, ends


def _covered(starts: Times, ends: Times) -> int:
    """Length of the union of intervals sorted by start."""
    import numpy as np

    if not len(starts):
        return 0
    reached = np.maximum.accumulate(ends)
    gaps = np.maximum(starts[1:] - reached[:-1], 0)
    return int(reached[-1] - starts[0] - gaps.sum())


def _steps(view: TraceView, request: int, step_name: str) -> Iterator[Step]:
    """A step lasts from its begin to the next one's, so that what follows it on its thread counts as well."""
    import numpy as np

    if step_name not in view.names:
        return
    number = view.names.index(step_name)
    for track in view.tracks:
        if track.kind != "thread":
            continue
        mine = np.flatnonzero((track.name == number) & (track.request == request))
        device = [other for other in view.tracks if other.kind == "device" and other.tid == track.tid]
        for place, index in enumerate(mine):
            low = int(track.start[index])
            following = int(track.start[mine[place + 1]]) if place + 1 < len(mine) else None
            high = _step_end(view, track, int(index), following)
            run = sum(_time_in(view, other, RUN_NAMES, low, high) for other in device)
            move = sum(_time_in(view, other, MOVE_NAMES, low, high) for other in device)
            sample = _time_in(view, track, SAMPLE_NAMES, low, high, request)
            host = max(0, high - low - run - move - sample)
            yield Step(low, high - low, {"run": run, "move": move, "sample": sample, "host": host})


def _step_end(view: TraceView, track: TrackView, index: int, following: int | None) -> int:
    """Where a step's time ends: at the last sampling after it, and never after the next step's begin."""
    import numpy as np

    own_end = int(track.end[index])
    limit = following if following is not None else own_end + 1_000_000_000
    stop = int(np.searchsorted(track.start, limit))
    later = slice(index + 1, stop)
    wanted = np.isin(track.name[later], _numbers(view, SAMPLE_NAMES))
    same = track.request[later] == track.request[index]
    ends = track.end[later][wanted & same]
    return max(own_end, int(ends.max())) if len(ends) else own_end


def _time_in(
    view: TraceView, track: TrackView, names: frozenset[str], low: int, high: int, request: int | None = None
) -> int:
    """Time in [low, high) during which a span of these names ran on the track."""
    import numpy as np

    first = int(np.searchsorted(track.start, low))
    last = int(np.searchsorted(track.start, high))
    part = slice(first, last)
    wanted = np.isin(track.name[part], _numbers(view, names))
    if request is not None:
        wanted &= track.request[part] == request
    return _covered(track.start[part][wanted], np.minimum(track.end[part][wanted], high))


def _numbers(view: TraceView, names: frozenset[str]) -> list[int]:
    return [number for number, name in enumerate(view.names) if name in names]
