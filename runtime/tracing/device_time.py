"""Whose work the device's events are, and how long the device ran in a stretch of a lane's time.

The device's events carry the thread that drives it, and neither a core nor a request. A model on one card is
driven by its own lane's thread; on several cards, and a mixture's experts, by worker threads of the vendor's,
which nothing names. A worker serves one model only, and all it does lies inside that lane's calls: so it
belongs to the lane whose calls it overlaps most.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from runtime.tracing.view import TraceView, TrackView

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Times = npt.NDArray[np.int64]

CALL_NAMES = frozenset(
    ("decode step", "prefill chunk", "transcribe window", "encode image", "load model", "load KV", "keep KV")
)
"""Host spans in which a lane's thread calls the device."""
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


class Stretches:
    """The union of intervals, ready to say how much of any stretch of time they cover."""

    def __init__(self, starts: Times, ends: Times) -> None:
        import numpy as np

        order = np.argsort(starts, kind="stable")
        starts, reached = starts[order], np.maximum.accumulate(ends[order])
        begins = np.ones(len(starts), dtype=bool)
        begins[1:] = starts[1:] > reached[:-1]
        self._starts = starts[begins]
        self._ends = reached[np.append(begins[1:], True)] if len(starts) else reached
        self._before = np.concatenate(([0], np.cumsum(self._ends - self._starts)))
        """Covered time before each interval, and of all."""

    @property
    def total(self) -> int:
        """All covered time, in ns."""
        return int(self._before[-1])

    def within(self, low: Times, high: Times) -> Times:
        """Covered time of each stretch [low, high), in ns."""
        return self._until(high) - self._until(low)

    def _until(self, moment: Times) -> Times:
        import numpy as np

        begun = np.searchsorted(self._starts, moment)
        running = np.append(np.int64(0), self._ends)[begun]
        covered: Times = self._before[begun] - np.maximum(running - moment, 0) * (begun > 0)
        return covered


class DeviceTime:
    """What the device did for the lane of each thread."""

    def __init__(self, view: TraceView) -> None:
        self._view = view
        lanes = _lanes(view)
        tracks: dict[int, list[TrackView]] = {}
        for track in view.tracks:
            if track.kind == "device" and len(track.start):
                owner = track.tid if track.tid in lanes else _owner(track, lanes)
                if owner is not None:
                    tracks.setdefault(owner, []).append(track)
        self._running = {tid: stretches_of(view, own, RUN_NAMES) for tid, own in tracks.items()}
        self._busy = {tid: stretches_of(view, own, RUN_NAMES | MOVE_NAMES) for tid, own in tracks.items()}

    def run_and_move(self, tid: int, low: Times, high: Times) -> tuple[Times, Times]:
        """For each stretch [low, high) of the lane's thread: ns in which any of its cards ran, and in which
        data moved or a core was waited for while none did."""
        if tid not in self._running:
            return low * 0, low * 0
        run = self._running[tid].within(low, high)
        return run, self._busy[tid].within(low, high) - run


def stretches_of(view: TraceView, tracks: Iterable[TrackView], names: frozenset[str]) -> Stretches:
    """The time in which a span of these names ran on any of the tracks."""
    import numpy as np

    numbers = [number for number, name in enumerate(view.names) if name in names]
    starts, ends = [np.zeros(0, np.int64)], [np.zeros(0, np.int64)]
    for track in tracks:
        chosen = np.isin(track.name, numbers)
        starts.append(track.start[chosen])
        ends.append(track.end[chosen])
    return Stretches(np.concatenate(starts), np.concatenate(ends))


def _lanes(view: TraceView) -> dict[int, Stretches]:
    """For the thread of each lane, when it called the device."""
    threads: dict[int, list[TrackView]] = {}
    for track in view.tracks:
        if track.kind == "thread":
            threads.setdefault(track.tid, []).append(track)
    calls = {tid: stretches_of(view, tracks, CALL_NAMES) for tid, tracks in threads.items()}
    return {tid: stretches for tid, stretches in calls.items() if stretches.total}


def _owner(worker: TrackView, lanes: dict[int, Stretches]) -> int | None:
    """The lane whose calls overlap the worker's events most; of several, the one that called least."""
    outermost = worker.depth == 0
    overlaps = {
        tid: int(calls.within(worker.start[outermost], worker.end[outermost]).sum())
        for tid, calls in lanes.items()
    }
    found = [tid for tid, overlap in overlaps.items() if overlap]
    return max(found, key=lambda tid: (overlaps[tid], -lanes[tid].total), default=None)
