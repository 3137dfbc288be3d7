"""The timeline: every track of a recording over time; zoom, pan, select, look closer."""

from __future__ import annotations

import html

from PySide6.QtCore import QEvent, QPoint, QPointF, Qt, Signal, Slot
from PySide6.QtGui import (
    QHelpEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QWheelEvent,
)
from PySide6.QtWidgets import QAbstractScrollArea, QFrame, QToolTip

from mblt_desktop.theme import current_theme, theme_manager
from mblt_desktop.tracing import words
from mblt_desktop.tracing.drawing import Canvas
from mblt_desktop.tracing.geometry import (
    LABEL_WIDTH,
    LINE_HEIGHT,
    RULER_HEIGHT,
    Row,
    TimeScale,
    make_rows,
    row_at,
    span_at,
)
from runtime.tracing.view import TraceView

ZOOM_STEP = 1.25
DRAG_FROM = 4
"""Pixels the mouse must move before a press becomes a selection."""
HELP = (
    "Wheel or W/S: zoom · drag: select a stretch · Shift+drag or A/D: move · F: fit · "
    "N/P: next and previous of the same name · Esc: clear"
)


class Timeline(QAbstractScrollArea):
    """Shows a `TraceView`; draws only what is in sight, so a million spans cost what a screenful does."""

    range_changed = Signal(float, float)
    """The selected stretch of time in ns, or the whole recording when nothing is selected."""
    span_selected = Signal(int, int)
    """Track and span, or -1 and -1."""

    def __init__(self) -> None:
        super().__init__()
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setAccessibleName("Timeline of the recording")
        self.setAccessibleDescription(HELP)
        self.viewport().setMouseTracking(True)
        self._view: TraceView | None = None
        self._rows: list[Row] = []
        self.scale = TimeScale(0.0, 1.0, 1, 1.0)
        self.selection: tuple[float, float] | None = None
        self.selected: tuple[int, int] | None = None
        self._pressed: QPointF | None = None
        self._moving = False
        theme_manager().changed.connect(self._on_theme_changed)

    @property
    def view(self) -> TraceView | None:
        """The recording shown."""
        return self._view

    def set_view(self, view: TraceView | None) -> None:
        """Show another recording, all of it."""
        self._view = view
        self._rows = make_rows(view) if view is not None else []
        whole = float(view.duration_ns) if view is not None else 1.0
        self.scale = TimeScale(0.0, whole, self._time_width(), whole)
        self.selection = None
        self.selected = None
        self.verticalScrollBar().setValue(0)
        self._update_scroll_bar()
        self.viewport().update()

    def content_height(self) -> int:
        """Pixels that all rows and the ruler take."""
        return RULER_HEIGHT + (self._rows[-1].top + self._rows[-1].height if self._rows else 0)

    # -- what can be asked for -------------------------------------------------------------------

    def select_range(self, low: float, high: float) -> None:
        """Select a stretch of time."""
        low, high = sorted((max(0.0, low), min(high, self.scale.whole)))
        self.selection = (low, high) if high > low else None
        self._tell_range()

    @Slot()
    def clear_selection(self) -> None:
        """Select nothing."""
        self.selection = None
        self._select(None)
        self._tell_range()

    @Slot()
    def fit(self) -> None:
        """Show the selected stretch, or the whole recording."""
        low, high = self.selection or (0.0, self.scale.whole)
        self._show_scale(self.scale.showing(low, high))

    def show_time(self, low: float, high: float) -> None:
        """Show a stretch of time."""
        self._show_scale(self.scale.showing(low, high))

    def reveal(self, track: int, span: int) -> None:
        """Select a span and bring it into sight, large enough to see."""
        if self._view is None:
            return
        columns = self._view.tracks[track]
        start, end = int(columns.start[span]), int(columns.end[span])
        length = max((end - start) * 20.0, self.scale.ns_per_pixel)
        shown = self.scale
        if not (shown.low <= start and end <= shown.high) or (end - start) < 3 * shown.ns_per_pixel:
            middle = (start + end) / 2
            shown = shown.showing(middle - length / 2, middle + length / 2)
        row = next(row for row in self._rows if row.track == track)
        bar = self.verticalScrollBar()
        top = row.top + int(columns.depth[span]) * LINE_HEIGHT
        if not bar.value() <= top <= bar.value() + self._rows_height() - LINE_HEIGHT:
            bar.setValue(max(0, top - self._rows_height() // 3))
        self._show_scale(shown)
        self._select((track, span))

    # -- painting --------------------------------------------------------------------------------

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the rows in sight, then the ruler over them."""
        painter = QPainter(self.viewport())
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        area = self.viewport().rect()
        painter.fillRect(area, current_theme().colour("bg"))
        if self._view is None:
            return
        canvas = Canvas(painter, self._view, self.scale, area.width())
        offset = RULER_HEIGHT - self.verticalScrollBar().value()
        bottom = float(min(area.height(), offset + self.content_height() - RULER_HEIGHT))
        for row in self._rows:
            y = row.top + offset
            if y + row.height <= RULER_HEIGHT or y >= area.height():
                continue
            current = self.selected is not None and row.track == self.selected[0]
            canvas.row(row, y, current=current)
            if current and self.selected is not None:
                canvas.outline(self._view.tracks[self.selected[0]], self.selected[1], row, y)
        if self.selection is not None:
            canvas.band(*self.selection, RULER_HEIGHT, bottom)
        canvas.ruler()
        if self.hasFocus():
            painter.setPen(current_theme().colour("accent"))
            painter.setBrush(Qt.BrushStyle.NoBrush)
            painter.drawRect(area.adjusted(0, 0, -1, -1))

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The same time on the new width."""
        super().resizeEvent(event)
        self.scale = self.scale.resized(self._time_width())
        self._update_scroll_bar()

    # -- mouse -----------------------------------------------------------------------------------

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom at the pointer; over the labels scroll, with Shift move."""
        turn = event.angleDelta().y() or event.angleDelta().x()
        x = event.position().x() - LABEL_WIDTH
        if x < 0:
            bar = self.verticalScrollBar()
            bar.setValue(bar.value() - turn // 2)
        elif event.modifiers() & Qt.KeyboardModifier.ShiftModifier or event.angleDelta().x():
            self._show_scale(self.scale.moved(-turn / 2))
        else:
            self._show_scale(self.scale.zoomed(ZOOM_STEP ** (turn / 120), x))
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Begin a selection, or a move with Shift or the middle button."""
        if event.position().x() < LABEL_WIDTH or self._view is None:
            return
        middle = event.button() == Qt.MouseButton.MiddleButton
        if event.button() == Qt.MouseButton.LeftButton or middle:
            self._pressed = event.position()
            self._moving = middle or bool(event.modifiers() & Qt.KeyboardModifier.ShiftModifier)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Select or move while a button is down."""
        if self._pressed is None:
            return
        here = event.position()
        if self._moving:
            self._show_scale(self.scale.moved(self._pressed.x() - here.x()))
            self._pressed = here
        elif abs(here.x() - self._pressed.x()) >= DRAG_FROM:
            self.select_range(self._time_at(self._pressed), self._time_at(here))

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A press without a drag selects the span under it."""
        pressed, self._pressed = self._pressed, None
        if pressed is None or self._moving:
            return
        if abs(event.position().x() - pressed.x()) < DRAG_FROM:
            self._select(self._span_under(pressed))

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Zoom to the span, or out to everything."""
        found = self._span_under(event.position())
        if found is None or self._view is None:
            self._show_scale(self.scale.showing(0.0, self.scale.whole))
            return
        track = self._view.tracks[found[0]]
        start, end = int(track.start[found[1]]), int(track.end[found[1]])
        margin = max(1.0, (end - start) * 0.1)
        self._show_scale(self.scale.showing(start - margin, end + margin))
        self._select(found)

    def viewportEvent(self, event: QEvent) -> bool:
        """Say what is under the pointer."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            found = self._span_under(QPointF(event.pos()))
            if found is not None:
                QToolTip.showText(event.globalPos(), self._tip(found), self.viewport())
            else:
                QToolTip.showText(event.globalPos(), self._label_tip(event.pos()), self.viewport())
            return True
        return super().viewportEvent(event)

    # -- keyboard --------------------------------------------------------------------------------

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Everything the mouse can do."""
        middle = self.scale.width / 2
        step = self.scale.width / 8
        match Qt.Key(event.key()):
            case Qt.Key.Key_W | Qt.Key.Key_Plus | Qt.Key.Key_Equal:
                self._show_scale(self.scale.zoomed(ZOOM_STEP, middle))
            case Qt.Key.Key_S | Qt.Key.Key_Minus:
                self._show_scale(self.scale.zoomed(1 / ZOOM_STEP, middle))
            case Qt.Key.Key_A | Qt.Key.Key_Left:
                self._show_scale(self.scale.moved(-step))
            case Qt.Key.Key_D | Qt.Key.Key_Right:
                self._show_scale(self.scale.moved(step))
            case Qt.Key.Key_F | Qt.Key.Key_Home:
                self.fit()
            case Qt.Key.Key_N:
                self._step(1)
            case Qt.Key.Key_P:
                self._step(-1)
            case Qt.Key.Key_Escape if self.selection is not None or self.selected is not None:
                self.clear_selection()
            case _:
                super().keyPressEvent(event)

    # -- helpers ---------------------------------------------------------------------------------

    @Slot()
    def _on_theme_changed(self) -> None:
        self.viewport().update()

    def _time_width(self) -> int:
        return max(1, self.viewport().width() - LABEL_WIDTH)

    def _rows_height(self) -> int:
        return max(1, self.viewport().height() - RULER_HEIGHT)

    def _update_scroll_bar(self) -> None:
        bar = self.verticalScrollBar()
        bar.setPageStep(self._rows_height())
        bar.setSingleStep(LINE_HEIGHT)
        bar.setRange(0, max(0, self.content_height() - self.viewport().height()))

    def _show_scale(self, scale: TimeScale) -> None:
        self.scale = scale
        self.viewport().update()

    def _time_at(self, point: QPointF) -> float:
        return self.scale.time(point.x() - LABEL_WIDTH)

    def _span_under(self, point: QPointF) -> tuple[int, int] | None:
        x = point.x() - LABEL_WIDTH
        y = point.y() - RULER_HEIGHT + self.verticalScrollBar().value()
        if self._view is None or x < 0 or point.y() < RULER_HEIGHT:
            return None
        row = row_at(self._rows, y)
        if row is None or row.track is None:
            return None
        span = span_at(self._view, row, self.scale, x, y)
        return None if span is None else (row.track, span)

    def _select(self, place: tuple[int, int] | None) -> None:
        self.selected = place
        if place is not None:
            self.setAccessibleDescription(self._facts(place))
        self.viewport().update()
        self.span_selected.emit(*(place or (-1, -1)))

    def _step(self, by: int) -> None:
        """Go to the next span of the same name on the same track; without one, to the first of all."""
        if self._view is None or not self._view.count:
            return
        if self.selected is None:
            self.reveal(next(number for number, track in enumerate(self._view.tracks) if len(track.start)), 0)
            return
        number, span = self.selected
        track = self._view.tracks[number]
        same = (track.name == track.name[span]).nonzero()[0]
        place = int(same.searchsorted(span)) + by
        if 0 <= place < len(same):
            self.reveal(number, int(same[place]))

    def _tell_range(self) -> None:
        self.viewport().update()
        low, high = self.selection or (0.0, self.scale.whole)
        self.range_changed.emit(low, high)

    def _facts(self, place: tuple[int, int]) -> str:
        """A span in words, one fact per line."""
        assert self._view is not None
        track, span = self._view.tracks[place[0]], place[1]
        start, end = int(track.start[span]), int(track.end[span])
        lines = [
            self._view.names[int(track.name[span])],
            f"{words.duration(end - start)}, at {start / 1e9:.6f} s",
        ]
        if (request := int(track.request[span])) >= 0:
            lines.append(self._view.requests[request].title)
        lines.extend(f"{name}: {value}" for name, value in track.args.get(span, {}).items())
        return "\n".join(lines)

    def _tip(self, place: tuple[int, int]) -> str:
        # A tooltip would take what looks like HTML for HTML.
        first, *rest = (html.escape(line) for line in self._facts(place).split("\n"))
        return "<br>".join((f"<b>{first}</b>", *rest))

    def _label_tip(self, point: QPoint) -> str:
        row = row_at(self._rows, point.y() - RULER_HEIGHT + self.verticalScrollBar().value())
        if point.y() < RULER_HEIGHT or row is None:
            return html.escape(HELP)
        return html.escape(row.title) if point.x() < LABEL_WIDTH else ""
