"""The lines of a transcript: a time, then the text. One document, so that a selection can span lines."""

from __future__ import annotations

import bisect

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import (
    QColor,
    QContextMenuEvent,
    QFontMetricsF,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextOption,
)
from PySide6.QtWidgets import QTextEdit

from mblt_desktop.theme import current_theme, font, theme_manager
from runtime.messages import Segment

_UNSURE = 0.4
"""Words less likely than this are marked: they were hard to hear."""
_TIME_GAP = 24
_MARGIN = 20
_LINE_PADDING = 6


def stamp(seconds: float) -> str:
    """A time with tenths: 00:08.3, from one hour on 1:00:08.3."""
    tenths = round(seconds * 10)
    minutes, rest = divmod(tenths, 600)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}:{minutes:02d}" if hours else f"{minutes:02d}"
    return f"{head}:{rest // 10:02d}.{rest % 10}"


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
        self._current = -1
        self._found: list[QTextCursor] = []
        self._shown_match = -1
        theme_manager().changed.connect(self._on_theme_changed)

    # -- content ---------------------------------------------------------------------------------

    def show_segments(self, segments: tuple[Segment, ...] | list[Segment]) -> None:
        """Replace everything."""
        self.clear()
        self._segments, self._starts = [], []
        self._found, self._shown_match, self._current = [], -1, -1
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        for segment in segments:
            self._append(cursor, segment)
        cursor.endEditBlock()
        self.moveCursor(QTextCursor.MoveOperation.Start)
        self._draw_marks()

    def add_segment(self, segment: Segment) -> None:
        """Add a line; follows the end when the end was in sight."""
        bar = self.verticalScrollBar()
        at_end = bar.value() >= bar.maximum() - 4
        cursor = QTextCursor(self.document())
        cursor.movePosition(QTextCursor.MoveOperation.End)
        cursor.beginEditBlock()
        self._append(cursor, segment)
        cursor.endEditBlock()
        if at_end:
            bar.setValue(bar.maximum())

    def plain_text(self) -> str:
        """All lines without their times."""
        return "\n".join(segment.text for segment in self._segments)

    def _append(self, cursor: QTextCursor, segment: Segment) -> None:
        if self._segments:
            cursor.insertBlock(self._line_format())
        else:
            cursor.setBlockFormat(self._line_format())
        self._segments.append(segment)
        self._starts.append(segment.start)
        theme = current_theme()
        time_format, text_format, unsure = QTextCharFormat(), QTextCharFormat(), QTextCharFormat()
        time_format.setForeground(theme.colour("muted"))
        time_format.setFont(font("body", tabular=True))
        text_format.setForeground(theme.colour("text"))
        unsure.setForeground(theme.colour("text"))
        unsure.setUnderlineStyle(QTextCharFormat.UnderlineStyle.DotLine)
        unsure.setUnderlineColor(theme.colour("warn"))
        cursor.insertText(stamp(segment.start) + "\t", time_format)
        if not segment.words:
            cursor.insertText(segment.text, text_format)
            return
        for number, word in enumerate(segment.words):
            if number:
                cursor.insertText(" ", text_format)
            cursor.insertText(word.text, unsure if word.probability < _UNSURE else text_format)

    def _line_format(self) -> QTextBlockFormat:
        """The text hangs beside its time, also where it wraps."""
        indent = QFontMetricsF(font("body", tabular=True)).horizontalAdvance("0:00:00.0") + _TIME_GAP
        line = QTextBlockFormat()
        line.setLeftMargin(indent)
        line.setTextIndent(-indent)
        line.setTopMargin(_LINE_PADDING + 2)
        line.setBottomMargin(_LINE_PADDING + 2)
        line.setTabPositions([QTextOption.Tab(indent, QTextOption.TabType.LeftTab)])
        return line

    @Slot()
    def _on_theme_changed(self) -> None:
        position = self.verticalScrollBar().value()
        self.show_segments(list(self._segments))
        self.verticalScrollBar().setValue(position)

    # -- playback --------------------------------------------------------------------------------

    def follow(self, seconds: float) -> None:
        """Mark the line that is spoken at that time and keep it in sight."""
        index = bisect.bisect_right(self._starts, seconds + 0.05) - 1
        if seconds <= 0 or index < 0 or seconds > self._segments[index].end + 1:
            index = -1
        if index == self._current:
            return
        self._current = index
        self._draw_marks()
        if index >= 0:
            cursor = QTextCursor(self.document().findBlockByNumber(index))
            if not self.viewport().rect().contains(self.cursorRect(cursor)):
                self._scroll_to(cursor)

    def _scroll_to(self, cursor: QTextCursor) -> None:
        bar = self.verticalScrollBar()
        bar.setValue(bar.value() + self.cursorRect(cursor).top() - self.viewport().height() // 3)

    # -- finding ---------------------------------------------------------------------------------

    def find_all(self, words: str) -> None:
        """Mark every place where `words` occur and show the first."""
        self._found, self._shown_match = [], -1
        cursor = QTextCursor(self.document())
        while words:
            cursor = self.document().find(words, cursor, QTextDocument.FindFlag(0))
            if cursor.isNull():
                break
            self._found.append(QTextCursor(cursor))
        self.show_match(1)

    def show_match(self, step: int) -> None:
        """Go to the next match (1) or the one before (-1), around the end."""
        if self._found:
            first = self._shown_match < 0
            self._shown_match = 0 if first else (self._shown_match + step) % len(self._found)
            self._scroll_to(self._found[self._shown_match])
        self._draw_marks()
        self.matches_changed.emit(self._shown_match + 1, len(self._found))

    def _draw_marks(self) -> None:
        theme = current_theme()
        marks = []
        for number, found in enumerate(self._found):
            shown = number == self._shown_match
            marks.append(_mark(found, theme.colour("warn" if shown else "warn_soft"), inverted=shown))
        self.setExtraSelections(marks)
        self.viewport().update()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Behind the text, the line that is spoken now."""
        if self._current >= 0:
            block = self.document().findBlockByNumber(self._current)
            box = self.document().documentLayout().blockBoundingRect(block)
            box.translate(0, -self.verticalScrollBar().value())
            box.setLeft(_MARGIN - 8)
            box.setRight(self.viewport().width() - _MARGIN + 8)
            painter = QPainter(self.viewport())
            painter.setRenderHint(QPainter.RenderHint.Antialiasing)
            painter.setPen(Qt.PenStyle.NoPen)
            painter.setBrush(current_theme().colour("accent_soft"))
            painter.drawRoundedRect(box.adjusted(0, -_LINE_PADDING, 0, _LINE_PADDING), 6, 6)
            painter.end()
        super().paintEvent(event)

    # -- mouse -----------------------------------------------------------------------------------

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
        if not self._segments or block.blockNumber() >= len(self._segments):
            return None
        limit = _MARGIN + block.blockFormat().leftMargin() - _TIME_GAP / 2
        return self._segments[block.blockNumber()].start if event.position().x() < limit else None


def _mark(cursor: QTextCursor, colour: QColor, *, inverted: bool) -> QTextEdit.ExtraSelection:
    mark = QTextEdit.ExtraSelection()
    mark.cursor = cursor
    mark.format.setBackground(colour)
    if inverted:
        mark.format.setForeground(current_theme().colour("bg"))
    return mark
