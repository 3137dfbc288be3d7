"""How a transcript's lines stand in a text document: a time, a tab, the text; and where words are in it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from PySide6.QtGui import QFontMetricsF, QTextBlockFormat, QTextCharFormat, QTextCursor, QTextOption

from mblt_desktop.theme import current_theme, font
from runtime.messages import Segment

UNSURE = 0.4
"""Words less likely than this are marked: they were hard to hear."""
TIME_GAP = 24
LINE_PADDING = 6


def stamp(seconds: float) -> str:
    """A time with tenths: 00:08.3, from one hour on 1:00:08.3."""
    tenths = round(seconds * 10)
    minutes, rest = divmod(tenths, 600)
    hours, minutes = divmod(minutes, 60)
    head = f"{hours}:{minutes:02d}" if hours else f"{minutes:02d}"
    return f"{head}:{rest // 10:02d}.{rest % 10}"


@dataclass(frozen=True, slots=True)
class Match:
    """Where words were found: the line, and characters of its text."""

    row: int
    start: int
    end: int


def find_matches(segments: Sequence[Segment], words: str) -> list[Match]:
    """Every place where `words` occur, whatever their case."""
    if not words:
        return []
    pattern = re.compile(re.escape(words), re.IGNORECASE)
    return [
        Match(row, *found.span())
        for row, segment in enumerate(segments)
        for found in pattern.finditer(segment.text)
    ]


def select(cursor: QTextCursor, segment: Segment, match: Match) -> None:
    """Make a cursor that stands at the start of the line select the match."""
    before = _units(stamp(segment.start)) + 1
    start = cursor.position() + before + _units(segment.text[: match.start])
    cursor.setPosition(start)
    length = _units(segment.text[match.start : match.end])
    cursor.setPosition(start + length, QTextCursor.MoveMode.KeepAnchor)


def _units(text: str) -> int:
    """Length as a text document counts: in UTF-16 code units."""
    return len(text.encode("utf-16-le")) // 2


class LineWriter:
    """Writes lines in the colours of now."""

    def __init__(self) -> None:
        theme = current_theme()
        self._time, self._text, self._unsure = QTextCharFormat(), QTextCharFormat(), QTextCharFormat()
        self._time.setForeground(theme.colour("muted"))
        self._time.setFont(font("body", tabular=True))
        self._text.setForeground(theme.colour("text"))
        self._unsure.setForeground(theme.colour("text"))
        self._unsure.setUnderlineStyle(QTextCharFormat.UnderlineStyle.DotLine)
        self._unsure.setUnderlineColor(theme.colour("warn"))
        # The text hangs beside its time, also where it wraps.
        indent = QFontMetricsF(font("body", tabular=True)).horizontalAdvance("0:00:00.0") + TIME_GAP
        self._line = QTextBlockFormat()
        self._line.setLeftMargin(indent)
        self._line.setTextIndent(-indent)
        self._line.setTopMargin(LINE_PADDING + 2)
        self._line.setBottomMargin(LINE_PADDING + 2)
        self._line.setTabPositions([QTextOption.Tab(indent, QTextOption.TabType.LeftTab)])

    def write(self, cursor: QTextCursor, segment: Segment, *, first: bool) -> None:
        """Add a line at the cursor; the first one takes the document's empty block."""
        if first:
            cursor.setBlockFormat(self._line)
        else:
            cursor.insertBlock(self._line)
        cursor.insertText(stamp(segment.start) + "\t", self._time)
        for text, sure in _runs(segment):
            cursor.insertText(text, self._text if sure else self._unsure)


def _runs(segment: Segment) -> Iterator[tuple[str, bool]]:
    """The text in pieces, each with whether it was heard well; spaces stay as the model wrote them."""
    text, done, searched = segment.text, 0, 0
    for word in segment.words:
        start = text.find(word.text, searched)
        if start < 0:
            continue
        searched = start + len(word.text)
        if word.probability < UNSURE:
            if start > done:
                yield text[done:start], True
            yield text[start:searched], False
            done = searched
    if done < len(text):
        yield text[done:], True
