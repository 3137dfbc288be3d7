"""The view of a transcript: one document, so that a selection can span lines, written in slices."""

from __future__ import annotations

import bisect
import time
from collections.abc import Sequence

from PySide6.QtCore import Qt, QTimer, Signal, Slot
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QTextBlock,
    QTextCursor,
    QTextOption,
)
from PySide6.QtWidgets import QTextEdit

from mblt_desktop.microphone.transcript_lines import (
    LINE_PADDING,
    TIME_GAP,
    LineWriter,
    Match,
    find_matches,
    select,
)
from mblt_desktop.theme import current_theme, theme_manager
from runtime.messages import Segment

_MARGIN = 20
_SLICE_SECONDS = 0.006
"""How long the window may be kept waiting at a time while a long transcript is written."""
_MOST_MARKS = 200


class TranscriptText(QTextEdit):
    """Read-only text; a click on a time asks to play from there."""

    time_clicked = Signal(float)
    matches_changed = Signal(int, int)
    """Number of the shown match (0 when there is none), number of matches."""

    def __init__(self) -> None:
        super().__init__()
        self.setReadOnly(True)
        self.setUndoRedoEnabled(False)
        self.setProperty("role", "transcript")
        self.setAccessibleName("Transcript")
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.setTextInteractionFlags(
            Qt.TextInteractionFlag.TextSelectableByMouse | Qt.TextInteractionFlag.TextSelectableByKeyboard
        )
        self.document().setDocumentMargin(_MARGIN)
        self.viewport().setMouseTracking(True)
        self._segments: list[Segment] = []
        self._starts: list[float] = []
        self._writer = LineWriter()
        self._written = 0
        """Lines that are in the document; the rest follow slice by slice."""
        self._wanted = -1
        """A line to scroll to as soon as it is written."""
        self._current = -1
        self._found: list[Match] = []
        self._shown_match = -1
        self._more = QTimer(self)
        self._more.setSingleShot(True)
        self._more.setInterval(0)
        self._more.timeout.connect(self._on_more)
        theme_manager().changed.connect(self._on_theme_changed)

    # -- content ---------------------------------------------------------------------------------

    def show_segments(self, segments: Sequence[Segment]) -> None:
        """Replace everything."""
        self._segments = list(segments)
        self._starts = [segment.start for segment in segments]
        self._found, self._shown_match, self._current = [], -1, -1
        self._rewrite()

    def add_segment(self, segment: Segment) -> None:
        """Add a line; follows the end when the end was in sight."""
        bar = self.verticalScrollBar()
        at_end = bar.value() >= bar.maximum() - 4
        self._segments.append(segment)
        self._starts.append(segment.start)
        self._write_slice()
        if at_end:
            bar.setValue(bar.maximum())

    def plain_text(self) -> str:
        """All lines without their times."""
        return "\n".join(segment.text for segment in self._segments)

    @property
    def is_complete(self) -> bool:
        """Whether every line is written."""
        return self._written == len(self._segments)

    def _rewrite(self) -> None:
        self.clear()
        self._writer = LineWriter()
        self._written, self._wanted = 0, -1
        self._write_slice()
        self.moveCursor(QTextCursor.MoveOperation.Start)
        self._draw_marks()

    def _write_slice(self) -> None:
        deadline = time.perf_counter() + _SLICE_SECONDS
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.beginEditBlock()
        while not self.is_complete and time.perf_counter() < deadline:
            self._writer.write(cursor, self._segments[self._written], first=self._written == 0)
            self._written += 1
        cursor.endEditBlock()
        if not self.is_complete:
            self._more.start()

    @Slot()
    def _on_more(self) -> None:
        self._write_slice()
        if 0 <= self._wanted < self._written:
            self._scroll_to(self._wanted)
            self._draw_marks()

    @Slot()
    def _on_theme_changed(self) -> None:
        self._rewrite()

    # -- playback --------------------------------------------------------------------------------

    def follow(self, seconds: float) -> None:
        """Mark the line that is spoken at that time and keep it in sight."""
        index = bisect.bisect_right(self._starts, seconds + 0.05) - 1
        if seconds <= 0 or index < 0 or seconds > self._segments[index].end + 1:
            index = -1
        if index == self._current:
            return
        self._current = index
        self.viewport().update()
        if index >= 0 and not self._is_in_sight(index):
            self._scroll_to(index)

    def _block(self, row: int) -> QTextBlock:
        return self.document().findBlockByNumber(row)

    def _is_in_sight(self, row: int) -> bool:
        if row >= self._written:
            return False
        return self.viewport().rect().contains(self.cursorRect(QTextCursor(self._block(row))))

    def _scroll_to(self, row: int) -> None:
        """Bring a line into the upper third; later, when it is not written yet."""
        self._wanted = row
        if row >= self._written:
            return
        self._wanted = -1
        bar = self.verticalScrollBar()
        top = self.cursorRect(QTextCursor(self._block(row))).top()
        bar.setValue(bar.value() + top - self.viewport().height() // 3)

    # -- finding ---------------------------------------------------------------------------------

    def find_all(self, words: str) -> None:
        """Mark every place where `words` occur and show the first."""
        self._found, self._shown_match = find_matches(self._segments, words), -1
        self.show_match(1)

    def show_match(self, step: int) -> None:
        """Go to the next match (1) or the one before (-1), around the end."""
        if self._found:
            first = self._shown_match < 0
            self._shown_match = 0 if first else (self._shown_match + step) % len(self._found)
            self._scroll_to(self._found[self._shown_match].row)
        self._draw_marks()
        self.matches_changed.emit(self._shown_match + 1, len(self._found))

    def _draw_marks(self) -> None:
        """Mark the shown match and those around it; thousands of marks would make the view slow."""
        theme = current_theme()
        first = max(0, self._shown_match - _MOST_MARKS // 2)
        marks = []
        for number, match in enumerate(self._found[first : first + _MOST_MARKS], start=first):
            if match.row >= self._written:
                break
            shown = number == self._shown_match
            cursor = QTextCursor(self._block(match.row))
            select(cursor, self._segments[match.row], match)
            marks.append(_mark(cursor, theme.colour("warn" if shown else "warn_soft"), inverted=shown))
        self.setExtraSelections(marks)

    # -- painting and mouse ----------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Behind the text, the line that is spoken now."""
        if 0 <= self._current < self._written:
            box = self.document().documentLayout().blockBoundingRect(self._block(self._current))
            box.translate(0, -self.verticalScrollBar().value())
            box.setLeft(_MARGIN - 8)
            box.setRight(self.viewport().width() - _MARGIN + 8)
            painter = QPainter(self.viewport())
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(current_theme().colour("accent_soft"))
            painter.drawRoundedRect(box.adjusted(0, -LINE_PADDING, 0, LINE_PADDING), 6, 6)
            painter.end()
        super().paintEvent(event)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """The times look as if they can be clicked."""
        super().mouseMoveEvent(event)
        over = self._time_at(event) is not None
        shape = Qt.CursorShape.PointingHandCursor if over else Qt.CursorShape.IBeamCursor
        self.viewport().setCursor(shape)

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """A click on a time plays from there."""
        super().mouseReleaseEvent(event)
        seconds = self._time_at(event)
        if seconds is not None and not self.textCursor().hasSelection():
            self.time_clicked.emit(seconds)

    def contextMenuEvent(self, event: QContextMenuEvent) -> None:
        """Copy and Select All, in the window's own look."""
        menu = self.createStandardContextMenu()
        menu.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        menu.popup(event.globalPos())

    def _time_at(self, event: QMouseEvent) -> float | None:
        block = self.cursorForPosition(event.position().toPoint()).block()
        if block.blockNumber() >= self._written:
            return None
        limit = _MARGIN + block.blockFormat().leftMargin() - TIME_GAP / 2
        return self._segments[block.blockNumber()].start if event.position().x() < limit else None


def _mark(cursor: QTextCursor, colour: QColor, *, inverted: bool) -> QTextEdit.ExtraSelection:
    mark = QTextEdit.ExtraSelection()
    mark.cursor = cursor
    mark.format.setBackground(colour)
    if inverted:
        mark.format.setForeground(current_theme().colour("bg"))
    return mark
