"""Paints the timeline: ruler, labels, spans, counters, selection. Draws what is visible and nothing else."""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterator

from PySide6.QtCore import QLineF, QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QFontMetrics, QPainter, QPen, QPolygonF

from mblt_desktop.theme import current_theme, font
from mblt_desktop.tokens import Theme
from mblt_desktop.tracing.geometry import (
    LABEL_WIDTH,
    LINE_HEIGHT,
    ROW_PADDING,
    RULER_HEIGHT,
    Row,
    TimeScale,
)
from runtime.tracing.levels import Level, choose
from runtime.tracing.view import CounterView, TraceView, TrackView

_TRACK_OF_NAME = {
    "run npu": 0,
    "infer": 0,
    "decode step": 1,
    "prefill chunk": 2,
    "queue": 2,
    "copy to npu": 2,
    "copy from npu": 2,
    "wait core": 2,
    "sample": 3,
    "detokenise": 3,
    "template": 3,
    "tokenise": 3,
    "transcribe window": 4,
    "voice activity": 4,
    "decode audio": 4,
}
_GREY = frozenset(("paint", "submit"))
_TRACK_OF_REQUEST = {"chat": 2, "image": 3, "transcribe": 4}
_GAP = 1.0
_TEXT_FROM = 28.0
_RADIUS = 2.0


def span_colour(view: TraceView, track: TrackView, span: int, theme: Theme) -> QColor:
    """The same name has the same colour everywhere; a request has its kind's."""
    name = view.names[int(track.name[span])]
    if track.kind == "request" and int(track.depth[span]) == 0:
        kind = str(track.args.get(span, {}).get("kind", ""))
        return QColor(theme.tracks[_TRACK_OF_REQUEST.get(kind, 2)])
    if name in _GREY:
        return QColor(theme.muted)
    number = _TRACK_OF_NAME.get(name)
    if number is None:
        number = zlib.crc32(name.encode("utf-8", "replace")) % len(theme.tracks)
    return QColor(theme.tracks[number])


class Canvas:
    """Everything one repaint needs."""

    def __init__(self, painter: QPainter, view: TraceView, scale: TimeScale, width: int) -> None:
        self.painter = painter
        self.view = view
        self.scale = scale
        self.width = width
        self.theme = current_theme()
        self._colours: dict[int, QColor] = {}
        self._small = font("small")
        self._metrics = QFontMetrics(self._small)
        painter.setFont(self._small)

    def ruler(self) -> None:
        """The marks of time along the top."""
        painter, theme = self.painter, self.theme
        painter.fillRect(QRectF(0, 0, self.width, RULER_HEIGHT), theme.colour("raised"))
        painter.setPen(QPen(theme.colour("border")))
        painter.drawLine(QLineF(0, RULER_HEIGHT - 0.5, self.width, RULER_HEIGHT - 0.5))
        for time_ns, words in self.scale.marks():
            x = LABEL_WIDTH + self.scale.x(time_ns)
            painter.setPen(theme.colour("border"))
            painter.drawLine(QLineF(x, 0, x, RULER_HEIGHT - 1))
            painter.setPen(theme.colour("muted"))
            painter.drawText(QPointF(x + 4, RULER_HEIGHT - 8), words)

    def row(self, row: Row, y: float, *, current: bool) -> None:
        """One row: its label, and its spans or its curve."""
        painter, theme = self.painter, self.theme
        painter.fillRect(QRectF(LABEL_WIDTH, y, self.width, row.height), theme.colour("surface"))
        painter.save()
        painter.setClipRect(QRectF(LABEL_WIDTH, y, self.width - LABEL_WIDTH, row.height))
        painter.translate(LABEL_WIDTH, y)
        if row.track is not None:
            for line in range(len(self.view.tracks[row.track].lines)):
                self._line(self.view.tracks[row.track], line)
        elif row.counter is not None:
            self._curve(self.view.counters[row.counter], row.height)
        painter.restore()
        self._label(row, y, current=current)
        painter.setPen(theme.colour("border"))
        painter.drawLine(QLineF(0, y + row.height - 0.5, self.width, y + row.height - 0.5))

    def band(self, low: float, high: float, top: float, bottom: float) -> None:
        """The selected stretch of time."""
        left, right = (LABEL_WIDTH + self.scale.x(time_ns) for time_ns in (low, high))
        left = max(left, LABEL_WIDTH)
        if right <= left:
            return
        colour = self.theme.colour("accent")
        colour.setAlpha(36)
        self.painter.fillRect(QRectF(left, top, right - left, bottom - top), colour)
        colour.setAlpha(160)
        self.painter.setPen(colour)
        for x in (left, right):
            self.painter.drawLine(QLineF(x, top, x, bottom))

    def outline(self, track: TrackView, span: int, row: Row, y: float) -> None:
        """A frame around the selected span."""
        painter = self.painter
        rect = self._rect(int(track.start[span]), int(track.end[span]), int(track.depth[span]))
        rect.translate(LABEL_WIDTH, y)
        painter.save()
        painter.setClipRect(QRectF(LABEL_WIDTH, y, self.width - LABEL_WIDTH, row.height))
        painter.setPen(QPen(self.theme.colour("text"), 1.5))
        painter.setBrush(Qt.BrushStyle.NoBrush)
        painter.drawRoundedRect(rect.adjusted(-1, -1, 1, 1), _RADIUS, _RADIUS)
        painter.restore()

    def _label(self, row: Row, y: float, *, current: bool) -> None:
        painter, theme = self.painter, self.theme
        rect = QRectF(0, y, LABEL_WIDTH, row.height)
        painter.fillRect(rect, theme.colour("accent_soft" if current else "bg"))
        painter.setPen(theme.colour("border"))
        painter.drawLine(QLineF(LABEL_WIDTH - 0.5, y, LABEL_WIDTH - 0.5, y + row.height))
        kind_width = self._metrics.horizontalAdvance(row.kind) + 6 if row.kind else 0
        room = LABEL_WIDTH - 20 - kind_width
        title = self._metrics.elidedText(row.title, Qt.TextElideMode.ElideRight, room)
        base = y + min(row.height, LINE_HEIGHT + 2 * ROW_PADDING) / 2 + self._metrics.ascent() / 2 - 1
        painter.setPen(theme.colour("text"))
        painter.drawText(QPointF(12, base), title)
        if row.kind:
            painter.setPen(theme.colour("muted"))
            painter.drawText(QPointF(12 + self._metrics.horizontalAdvance(title) + 6, base), row.kind)

    def _line(self, track: TrackView, line: int) -> None:
        level = choose(track.lines[line], self.scale.ns_per_pixel)
        shown = level.between(int(self.scale.low), int(self.scale.high) + 1)
        painter = self.painter
        painter.setPen(Qt.PenStyle.NoPen)
        narrow: dict[int, list[QRectF]] = defaultdict(list)
        for start, end, span in self._one_per_pixel(level, shown):
            rect = self._rect(start, end, line)
            colour = self._colour(track, span)
            if rect.width() < 4:
                narrow[colour.rgb()].append(rect)
                continue
            painter.setBrush(colour)
            painter.drawRoundedRect(rect, _RADIUS, _RADIUS)
            if rect.width() >= _TEXT_FROM:
                self._words(self.view.names[int(track.name[span])], rect, colour)
                painter.setPen(Qt.PenStyle.NoPen)
        # Thousands of these may show: one call for all of a colour.
        painter.setRenderHint(QPainter.RenderHint.Antialiasing, False)
        for rgb, rects in narrow.items():
            painter.setBrush(QColor(rgb))
            painter.drawRects(rects)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)

    def _colour(self, track: TrackView, span: int) -> QColor:
        if track.kind == "request":
            return span_colour(self.view, track, span, self.theme)
        name = int(track.name[span])
        colour = self._colours.get(name)
        if colour is None:
            colour = self._colours[name] = span_colour(self.view, track, span, self.theme)
        return colour

    def _one_per_pixel(self, level: Level, shown: slice) -> Iterator[tuple[int, int, int]]:
        """Start, end and span of what shows: everything wider than a pixel, and one of the others in each."""
        starts, ends, spans = level.start[shown], level.end[shown], level.span[shown]
        left = ((starts - self.scale.low) / self.scale.ns_per_pixel).astype("int64")
        right = ((ends - self.scale.low) / self.scale.ns_per_pixel).astype("int64")
        kept = right > left
        kept[:1] = True
        kept[1:] |= left[1:] != left[:-1]
        return zip(starts[kept].tolist(), ends[kept].tolist(), spans[kept].tolist(), strict=True)

    def _rect(self, start: int, end: int, line: int) -> QRectF:
        left = max(-4.0, self.scale.x(start))
        right = min(self.scale.width + 4.0, self.scale.x(end))
        width = right - left
        # Neighbours stay apart while there is room for it; what is too short still shows.
        width = width - _GAP if width > 4 else max(width, 1.0)
        return QRectF(left, ROW_PADDING + line * LINE_HEIGHT + 1, width, LINE_HEIGHT - 2)

    def _words(self, name: str, rect: QRectF, colour: QColor) -> None:
        left = max(rect.left(), 0.0) + 4
        room = int(min(rect.right(), self.scale.width) - left - 2)
        words = self._metrics.elidedText(name, Qt.TextElideMode.ElideRight, room)
        if len(words) < 3 and words != name:
            return
        self.painter.setPen(_readable_on(colour))
        base = rect.center().y() + self._metrics.ascent() / 2 - 1
        self.painter.drawText(QPointF(left, base), words)

    def _curve(self, counter: CounterView, height: int) -> None:
        times, values = counter.time, counter.value
        if not len(times):
            return
        first = max(0, int(times.searchsorted(int(self.scale.low))) - 1)
        last = int(times.searchsorted(int(self.scale.high) + 1))
        step = max(1, (last - first) // (2 * self.scale.width))
        low, high = min(0.0, float(values.min())), max(float(values.max()), 1e-300)
        room = height - 2 * ROW_PADDING
        points = QPolygonF()
        y = 0.0
        for place in range(first, last, step):
            x = self.scale.x(int(times[place]))
            if place > first:
                points.append(QPointF(x, y))
            y = ROW_PADDING + room * (1 - (float(values[place]) - low) / (high - low))
            points.append(QPointF(x, y))
        points.append(QPointF(float(self.scale.width), y))
        self.painter.setPen(QPen(QColor(self.theme.tracks[0]), 1.5))
        self.painter.drawPolyline(points)
        self.painter.setPen(self.theme.colour("muted"))
        self.painter.drawText(QPointF(4, ROW_PADDING + self._metrics.ascent()), f"{high:g}")


def _readable_on(colour: QColor) -> QColor:
    """Dark or white words, whichever stands out more on that colour."""
    brightness = 0.299 * colour.redF() + 0.587 * colour.greenF() + 0.114 * colour.blueF()
    return QColor("#10131A") if brightness > 0.55 else QColor("#FFFFFF")
