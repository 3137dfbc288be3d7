"""Collects spans from a file into tracks, pairing begins with ends; shared by both readers."""

from __future__ import annotations

import uuid
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from runtime.errors import TraceError
from runtime.tracing.about import About
from runtime.tracing.model import Counter, Flow, Metadata, Span, Trace, Track, TrackKind, nest
from runtime.tracing.recorder import TRUNCATED

MAX_EVENTS = 5_000_000
FOREIGN = "This file was not made by this program; it is shown as far as it could be understood."
CUT = "The file ends in the middle; what comes after is missing."
UNFINISHED = "{count} spans have no end; they are shown up to the last event of their track."
STRAYS = "{count} elements could not be understood and were left out."


@dataclass(slots=True)
class _Line:
    title: str
    kind: TrackKind
    tid: int
    request: str | None
    spans: list[Span] = field(default_factory=list)
    open: list[Span] = field(default_factory=list)
    last_ns: int = 0


@dataclass(slots=True)
class Collector:
    """Tracks by whatever key the format uses for them, in the order they first appear."""

    path: Path
    about: About | None = None
    cut: bool = False
    strays: int = 0
    """Ends without a begin, and elements that are no events."""
    counters: dict[str, list[tuple[int, float]]] = field(default_factory=dict)
    _lines: dict[Hashable, _Line] = field(default_factory=dict)
    _count: int = 0
    _arrow_starts: dict[Hashable, list[Span]] = field(default_factory=dict)
    _arrow_ends: list[tuple[Hashable, Span]] = field(default_factory=list)

    def track(
        self, key: Hashable, title: str, kind: TrackKind, tid: int = 0, request: str | None = None
    ) -> None:
        """Declare a track, or say more about one that is already there."""
        line = self._lines.get(key)
        if line is None:
            self._lines[key] = _Line(title, kind, tid, request)
        else:
            line.title, line.kind, line.tid, line.request = title, kind, tid, request

    def adopt(self, about: About, keys: Sequence[Hashable]) -> None:
        """The file tells what its tracks are: take its words, and its order."""
        self.about = about
        lines, self._lines = self._lines, {}
        for key, note in zip(keys, about.tracks, strict=True):
            known = lines.pop(key, None)
            self._lines[key] = _Line(note.title, note.kind, note.tid, note.request)
            if known is not None:
                self._lines[key].spans = known.spans
        self._lines.update(lines)

    def add(self, key: Hashable, span: Span) -> None:
        """A complete span or an instant."""
        line = self._line(key)
        line.spans.append(span)
        line.last_ns = max(line.last_ns, span.end_ns)

    def begin(self, key: Hashable, span: Span) -> None:
        """A span whose end comes later."""
        line = self._line(key)
        line.spans.append(span)
        line.open.append(span)
        line.last_ns = max(line.last_ns, span.start_ns)

    def end(self, key: Hashable, time_ns: int) -> None:
        """The end of the innermost open span."""
        line = self._line(key)
        if line.open:
            span = line.open.pop()
            span.duration_ns = max(0, time_ns - span.start_ns)
            line.last_ns = max(line.last_ns, span.end_ns)
        else:
            self.strays += 1

    def count(self, name: str, time_ns: int, value: float) -> None:
        """A counter's value."""
        self._tick()
        self.counters.setdefault(name, []).append((time_ns, value))

    def arrow_from(self, arrow: Hashable, span: Span) -> None:
        """The span an arrow leaves from."""
        self._arrow_starts.setdefault(arrow, []).append(span)

    def arrow_to(self, arrow: Hashable, span: Span) -> None:
        """The span an arrow arrives at."""
        self._arrow_ends.append((arrow, span))

    def finish(self) -> Trace:
        """Everything as a trace.

        Raises:
            TraceError: there is nothing in it.
        """
        unfinished = self._close_open()
        tracks = []
        for line in self._lines.values():
            for number, lane in enumerate(nest(line.spans)):
                title = line.title if number == 0 else f"{line.title} (overlapping)"
                tracks.append(Track(title, line.kind, line.tid, line.request, lane))
        counters = [Counter(name, sorted(samples)) for name, samples in sorted(self.counters.items())]
        if not tracks and not counters and self.about is None:
            raise TraceError(
                f"{self.path.name} holds no event that could be shown.",
                remedy="Check that it is a trace and that it was written to its end.",
                unharmed="The file is unchanged.",
            )
        metadata = self.about.metadata if self.about is not None else self._describe(tracks, unfinished)
        flows = self._flows(tracks)
        return Trace(metadata, tracks, counters, flows, damage=self._damage(unfinished))

    def _damage(self, unfinished: int) -> list[str]:
        words = [CUT] if self.cut else []
        if unfinished:
            words.append(UNFINISHED.format(count=unfinished))
        if self.strays:
            words.append(STRAYS.format(count=self.strays))
        return words

    def _line(self, key: Hashable) -> _Line:
        self._tick()
        line = self._lines.get(key)
        if line is None:
            line = self._lines[key] = _Line(f"Track {len(self._lines) + 1}", "thread", 0, None)
        return line

    def _tick(self) -> None:
        self._count += 1
        if self._count > MAX_EVENTS:
            raise TraceError(
                f"{self.path.name} holds more than {MAX_EVENTS:,} events, more than this view can show.",
                remedy="Open it in Perfetto instead.",
                unharmed="The file is unchanged.",
            )

    def _close_open(self) -> int:
        closed = 0
        for line in self._lines.values():
            for span in line.open:
                span.duration_ns = max(0, line.last_ns - span.start_ns)
                span.args = {**span.args, TRUNCATED: True}
                closed += 1
            line.open.clear()
        return closed

    def _flows(self, tracks: list[Track]) -> list[Flow]:
        if not self._arrow_ends:
            return []
        wanted = {id(span) for _arrow, span in self._arrow_ends}
        wanted.update(id(span) for spans in self._arrow_starts.values() for span in spans)
        places = {
            id(span): (number, index)
            for number, track in enumerate(tracks)
            for index, span in enumerate(track.spans)
            if id(span) in wanted
        }
        return [
            Flow(places[id(source)], places[id(target)])
            for arrow, target in self._arrow_ends
            for source in self._arrow_starts.get(arrow, ())
        ]

    def _describe(self, tracks: list[Track], unfinished: int) -> Metadata:
        times = [
            (span.start_ns, span.end_ns, track.kind == "device") for track in tracks for span in track.spans
        ]
        times.extend(
            (time_ns, time_ns, False) for samples in self.counters.values() for time_ns, _value in samples
        )
        start = min((begin for begin, _end, _device in times), default=0)
        device = sum(1 for _begin, _end, is_device in times if is_device)
        return Metadata(
            recording_id=uuid.uuid4().hex,
            title=self.path.name,
            started_at=self.path.stat().st_mtime,
            start_ns=start,
            duration_ns=max((end for _begin, end, _device in times), default=start) - start,
            device="NPU" if device else "",
            host_events=len(times) - device,
            device_events=device,
            repaired=unfinished,
            skipped=self.strays,
            warnings=(FOREIGN,),
        )
