"""Numbers about a recording: statistics by name for a stretch of time, and where each token's time went."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Literal, TypeAlias

from runtime.tracing.device_time import DeviceTime, Stretches
from runtime.tracing.view import TraceView, TrackView

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Times = npt.NDArray[np.int64]

Phase: TypeAlias = Literal["run", "move", "sample", "host"]
PHASES: tuple[Phase, ...] = ("run", "move", "sample", "host")

STEP_NAMES = ("decode step", "transcribe window")
"""The spans of a request whose time is broken down one by one."""
_BETWEEN = frozenset(("prefill chunk",))
"""Other calls of the device after which a token may be drawn."""
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

    found: set[int] = set()
    for track in view.tracks:
        for step_name in STEP_NAMES if track.kind == "thread" else ():
            calls = _Calls(view, track, step_name)
            found.update(np.unique(track.request[calls.steps]).tolist())
            found.update(np.unique(track.request[calls.drawn[calls.is_shared[calls.at]]]).tolist())
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


class _Calls:
    """The steps of a track, and which requests took part in those that several requests share.

    A shared step names no request; its tokens are drawn right after it, before the next call of the device.
    """

    def __init__(self, view: TraceView, track: TrackView, step_name: str) -> None:
        import numpy as np

        self._track = track
        step = view.names.index(step_name) if step_name in view.names else -1
        self._index = np.flatnonzero(np.isin(track.name, [step, *_numbers(view, _BETWEEN)]))
        self._starts = track.start[self._index]
        self._is_step = track.name[self._index] == step
        self.steps = self._index[self._is_step]
        """Spans that are steps."""
        self.is_shared = self._is_step & (track.request[self._index] == -1)
        drawn = np.flatnonzero(np.isin(track.name, _numbers(view, SAMPLE_NAMES)))
        at = np.searchsorted(self._starts, track.start[drawn], side="right") - 1
        self.drawn, self.at = drawn[at >= 0], at[at >= 0]
        """Spans that draw or say a token, and the call each comes after."""

    def of(self, request: int) -> tuple[Times, Times, npt.NDArray[np.bool_]]:
        """Begin and end of each step that the request took part in, and whether others did, too.

        A step lasts to the last token drawn for the request before the next call.
        """
        import numpy as np

        track = self._track
        mine = track.request[self.drawn] == request
        last = track.end[self._index].copy()
        np.maximum.at(last, self.at[mine], track.end[self.drawn[mine]])
        part = np.zeros(len(self._index), dtype=bool)
        part[self.at[mine]] = True
        own = self._is_step & (track.request[self._index] == request)
        chosen = own | (self.is_shared & part)
        return self._starts[chosen], last[chosen], self.is_shared[chosen]


def _steps(view: TraceView, request: int, step_name: str) -> Iterator[Step]:
    import numpy as np

    if step_name not in view.names:
        return
    device = DeviceTime(view)
    for track in view.tracks:
        if track.kind != "thread":
            continue
        low, high, shared = _Calls(view, track, step_name).of(request)
        if not len(low):
            continue
        run, move = device.run_and_move(track.tid, low, high)
        own = _sampling(view, track, request).within(low, high)
        # The rows of a shared step are drawn one after the other, so each waits for those before it.
        sample = np.where(shared, _sampling(view, track).within(low, high), own)
        for start, end, *parts in zip(low, high, run, move, sample, strict=True):
            ran, moved, drew = (int(part) for part in parts)
            total = int(end - start)
            host = max(0, total - ran - moved - drew)
            yield Step(int(start), total, {"run": ran, "move": moved, "sample": drew, "host": host})


def _sampling(view: TraceView, track: TrackView, request: int | None = None) -> Stretches:
    """When tokens were drawn and said on the track, for one request or for all."""
    import numpy as np

    chosen = np.isin(track.name, _numbers(view, SAMPLE_NAMES))
    if request is not None:
        chosen &= track.request == request
    return Stretches(track.start[chosen], track.end[chosen])


def _numbers(view: TraceView, names: frozenset[str]) -> list[int]:
    return [number for number, name in enumerate(view.names) if name in names]
