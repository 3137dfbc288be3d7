"""Where things are on a timeline: times to pixels and back, the ruler's marks, the rows."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

from runtime.tracing.view import TraceView

LABEL_WIDTH = 184
RULER_HEIGHT = 24
LINE_HEIGHT = 18
ROW_PADDING = 4
COUNTER_HEIGHT = 36
SHORTEST_NS = 100.0
"""The view never shows less time than this."""
MARK_PIXELS = 96


@dataclass(frozen=True, slots=True)
class TimeScale:
    """The shown stretch of time [low, high) in ns on `width` pixels, inside [0, whole)."""

    low: float
    high: float
    width: int
    whole: float

    @property
    def ns_per_pixel(self) -> float:
        """Time per pixel."""
        return (self.high - self.low) / max(1, self.width)

    def x(self, time_ns: float) -> float:
        """Pixels from the left edge of the time area."""
        return (time_ns - self.low) / self.ns_per_pixel

    def time(self, x: float) -> float:
        """Time at a pixel, inside the recording."""
        return min(max(self.low + x * self.ns_per_pixel, 0.0), self.whole)

    def zoomed(self, factor: float, x: float) -> TimeScale:
        """The time under pixel `x` stays where it is; factors above 1 show less time."""
        length = min(max((self.high - self.low) / factor, SHORTEST_NS), self.whole)
        fixed = self.low + x * self.ns_per_pixel
        low = fixed - length * (x / max(1, self.width))
        return self.showing(low, low + length)

    def moved(self, pixels: float) -> TimeScale:
        """Shifted by so many pixels to later times."""
        shift = pixels * self.ns_per_pixel
        return self.showing(self.low + shift, self.high + shift)

    def showing(self, low: float, high: float) -> TimeScale:
        """Another stretch of the same recording, pushed back inside it when it sticks out."""
        length = min(max(high - low, min(SHORTEST_NS, self.whole)), self.whole)
        low = min(max(0.0, low), self.whole - length)
        return TimeScale(low, low + length, self.width, self.whole)

    def resized(self, width: int) -> TimeScale:
        """The same time on another width."""
        return TimeScale(self.low, self.high, max(1, width), self.whole)

    def marks(self) -> Iterator[tuple[float, str]]:
        """Times of the ruler's marks and what to write at them."""
        step = _round_step(self.ns_per_pixel * MARK_PIXELS)
        unit, size = next(
            (u, s) for u, s in (("s", 1e9), ("ms", 1e6), ("µs", 1e3), ("ns", 1.0)) if step >= s / 10
        )
        digits = max(0, -math.floor(math.log10(step / size) + 1e-9))
        number = math.ceil(self.low / step)
        while number * step < self.high:
            yield number * step, f"{number * step / size:.{digits}f} {unit}"
            number += 1


def _round_step(at_least: float) -> float:
    power = 10.0 ** math.floor(math.log10(max(at_least, 1e-9)))
    return next(power * factor for factor in (1, 2, 5, 10) if power * factor >= at_least * 0.999)


@dataclass(frozen=True, slots=True)
class Row:
    """A track or a counter on the timeline; `top` counts from the first row."""

    title: str
    kind: str
    top: int
    height: int
    track: int | None
    counter: int | None


def make_rows(view: TraceView) -> list[Row]:
    """Requests first, then threads, the device, and counters."""
    rows: list[Row] = []
    top = 0
    order = {"request": 0, "thread": 1, "device": 2}
    places = sorted(range(len(view.tracks)), key=lambda index: order[view.tracks[index].kind])
    for index in places:
        track = view.tracks[index]
        height = max(1, len(track.lines)) * LINE_HEIGHT + 2 * ROW_PADDING
        # A request's title already says what kind it is.
        kind = "" if track.kind == "request" else track.kind
        rows.append(Row(track.title, kind, top, height, index, None))
        top += height
    for index, counter in enumerate(view.counters):
        rows.append(Row(counter.name, "counter", top, COUNTER_HEIGHT, None, index))
        top += COUNTER_HEIGHT
    return rows


def row_at(rows: list[Row], y: float) -> Row | None:
    """The row at that height."""
    return next((row for row in rows if row.top <= y < row.top + row.height), None)


def span_at(view: TraceView, row: Row, scale: TimeScale, x: float, y: float) -> int | None:
    """The span under a point, or the nearest one within two pixels, as an index into the row's track."""
    if row.track is None:
        return None
    track = view.tracks[row.track]
    line = int((y - row.top - ROW_PADDING) // LINE_HEIGHT)
    if not 0 <= line < len(track.lines):
        return None
    level = track.lines[line][0]
    time_ns = scale.low + x * scale.ns_per_pixel
    reach = 2 * scale.ns_per_pixel
    near = level.between(int(time_ns - reach), int(time_ns + reach) + 1)
    best: tuple[float, int] | None = None
    # Far out, hundreds lie within two pixels: the middle ones are as good as any.
    middle = (near.start + near.stop) // 2
    for place in range(max(near.start, middle - 16), min(near.stop, middle + 17)):
        start, end = int(level.start[place]), int(level.end[place])
        distance = max(start - time_ns, time_ns - end, 0.0)
        if best is None or distance < best[0]:
            best = (distance, int(level.span[place]))
    return best[1] if best is not None else None
