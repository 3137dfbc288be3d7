"""A recording in memory: tracks of spans, counters, arrows between spans, and what is known about them.

Every writer and reader of this package goes through `Trace`. Times are nanoseconds of the recording
computer's monotonic clock (`time.perf_counter_ns()` on Linux); durations are never negative.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, fields
from typing import Any, Literal

from runtime.tracing.recorder import Args

TrackKind = Literal["request", "thread", "device"]

LIMIT_WORDS = {
    "events": "The limit of events was reached; what came later is not in this recording.",
    "seconds": "The time limit was reached; what came later is not in this recording.",
    "disk": "The disk was nearly full; what came later is not in this recording.",
}


@dataclass(slots=True)
class Span:
    """Something that took time on a track; an instant has `duration_ns` 0 and `instant` set."""

    name: str
    start_ns: int
    duration_ns: int
    request: str | None = None
    args: Args = field(default_factory=dict)
    instant: bool = False

    @property
    def end_ns(self) -> int:
        """Where the span ends."""
        return self.start_ns + self.duration_ns


@dataclass(slots=True)
class Track:
    """One line of the timeline. Its spans come parents first, and none overlaps another partly."""

    title: str
    kind: TrackKind
    tid: int = 0
    """Native thread id; 0 for a request's track."""
    request: str | None = None
    """Request id of a request's track."""
    spans: list[Span] = field(default_factory=list)


@dataclass(slots=True)
class Counter:
    """A value over time: (time ns, value), sorted by time, every value finite."""

    name: str
    samples: list[tuple[int, float]] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class Flow:
    """An arrow from one span to another, each as (track index, span index)."""

    source: tuple[int, int]
    target: tuple[int, int]


@dataclass(frozen=True, slots=True)
class ClockReading:
    """The three clocks read together, in ns; `boottime` also runs while the computer sleeps."""

    monotonic: int
    boottime: int
    realtime: int


@dataclass(frozen=True, slots=True)
class Metadata:
    """What a file says about itself; written into every export and enough to list it again."""

    recording_id: str
    title: str
    started_at: float
    """Wall clock, seconds since the epoch."""
    start_ns: int
    duration_ns: int
    device: str = ""
    """The device in words; empty when nothing but the program itself was recorded."""
    simulated: bool = False
    host_events: int = 0
    device_events: int = 0
    clock_bound_ns: int | None = None
    """How far device times may be off; None when that could not be measured."""
    repaired: int = 0
    """Device spans whose end was missing and was set to their parent's."""
    skipped: int = 0
    """Elements of the device's file that were no events."""
    refused: int = 0
    """Counter values that were not numbers."""
    versions: dict[str, str] = field(default_factory=dict)
    warnings: tuple[str, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """As plain values for JSON."""
        return {**asdict(self), "warnings": list(self.warnings)}

    @staticmethod
    def from_json(value: Any) -> Metadata | None:
        """Back from JSON; None for anything that is not exactly such a value."""
        if not isinstance(value, dict):
            return None
        known = {f.name: value[f.name] for f in fields(Metadata) if f.name in value}
        try:
            metadata = Metadata(
                recording_id=str(known["recording_id"]),
                title=str(known["title"])[:200],
                started_at=float(known["started_at"]),
                start_ns=int(known["start_ns"]),
                duration_ns=max(0, int(known["duration_ns"])),
                device=str(known.get("device", "")),
                simulated=bool(known.get("simulated", False)),
                host_events=int(known.get("host_events", 0)),
                device_events=int(known.get("device_events", 0)),
                clock_bound_ns=None if (bound := known.get("clock_bound_ns")) is None else int(bound),
                repaired=int(known.get("repaired", 0)),
                skipped=int(known.get("skipped", 0)),
                refused=int(known.get("refused", 0)),
                versions={str(k): str(v) for k, v in dict(known.get("versions", {})).items()},
                warnings=tuple(str(text) for text in known.get("warnings", ())),
            )
        except (KeyError, TypeError, ValueError, OverflowError):
            return None
        return metadata


@dataclass(slots=True)
class Trace:
    """A whole recording."""

    metadata: Metadata
    tracks: list[Track] = field(default_factory=list)
    counters: list[Counter] = field(default_factory=list)
    flows: list[Flow] = field(default_factory=list)
    clocks: list[ClockReading] = field(default_factory=list)
    damage: list[str] = field(default_factory=list)
    """What was found wrong while reading a file, in words; never written."""

    def span_at(self, place: tuple[int, int]) -> Span:
        """The span an arrow points to."""
        track, index = place
        return self.tracks[track].spans[index]


def order(span: Span) -> tuple[int, int]:
    """Sort key under which a parent comes before its children."""
    return span.start_ns, -span.duration_ns


def nest(spans: list[Span]) -> list[list[Span]]:
    """Split spans into lanes in which each either contains the next or ends before it begins.

    Spans of one thread nest by themselves; this catches those recorded afterwards with times of their own.
    The first lane takes all that fits, so well-nested input comes back as one lane.
    """
    lanes: list[list[Span]] = []
    stacks: list[list[int]] = []
    for span in sorted(spans, key=order):
        for lane, stack in zip(lanes, stacks, strict=True):
            if _fits(stack, span):
                lane.append(span)
                break
        else:
            lanes.append([span])
            stacks.append([span.end_ns])
    return lanes


def _fits(stack: list[int], span: Span) -> bool:
    while stack and stack[-1] <= span.start_ns:
        stack.pop()
    if stack and span.end_ns > stack[-1]:
        return False
    stack.append(span.end_ns)
    return True


def walk(spans: list[Span]) -> Iterator[tuple[Span, int | None]]:
    """Begins and ends of a track in the order they happen: (span, its index) begins, (span, None) ends it."""
    stack: list[Span] = []
    for index, span in enumerate(spans):
        while stack and stack[-1].end_ns <= span.start_ns:
            yield stack.pop(), None
        yield span, index
        if not span.instant:
            stack.append(span)
    while stack:
        yield stack.pop(), None
