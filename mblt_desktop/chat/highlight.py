"""Colours code once its fence has closed, a few milliseconds at a time."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from PySide6.QtCore import QObject, QTimer, Slot
from PySide6.QtGui import QBrush, QColor, QTextBlock, QTextCharFormat, QTextCursor, QTextDocument, QTextLayout

from mblt_desktop.theme import current_theme

if TYPE_CHECKING:
    from pygments.lexer import Lexer

BUDGET_SECONDS = 0.006
MAX_CHARACTERS = 400_000
"""Longer code stays in one colour."""


class CodeHighlighter(QObject):
    """Works through code blocks in idle moments; colours lie over the text, the document stays as it is."""

    def __init__(self, document: QTextDocument, parent: QObject) -> None:
        super().__init__(parent)
        self._document = document
        self._jobs: deque[Iterator[None]] = deque()
        self._timer = QTimer(self, singleShot=True, interval=0)
        self._timer.timeout.connect(self._work)

    def add(self, first: QTextCursor, language: str, code: str) -> None:
        """Colour `code`, whose first line is the block `first` stands in."""
        if language and len(code) <= MAX_CHARACTERS:
            self._jobs.append(self._job(first, language, code))
            self._timer.start()

    def clear(self) -> None:
        """Forget what is not done yet; the document was cleared."""
        self._jobs.clear()
        self._timer.stop()

    @Slot()
    def _work(self) -> None:
        end = time.perf_counter() + BUDGET_SECONDS
        while self._jobs and time.perf_counter() < end:
            if next(self._jobs[0], self) is self:
                self._jobs.popleft()
        if self._jobs:
            self._timer.start()

    def _job(self, first: QTextCursor, language: str, code: str) -> Iterator[None]:
        """One line of code per step."""
        lexer = _lexer(language)
        if lexer is None:
            return
        colours = _Colours()
        block, column = first.block(), 0
        ranges: list[QTextLayout.FormatRange] = []
        for token, text in lexer.get_tokens(code):
            for number, part in enumerate(text.split("\n")):
                if number:
                    self._set(block, ranges)
                    block, column, ranges = block.next(), 0, []
                    yield
                if not block.isValid():
                    return
                look = colours.of(token)
                if look is not None and part:
                    piece = QTextLayout.FormatRange()
                    piece.start, piece.length, piece.format = column, _utf16(part), look
                    ranges.append(piece)
                column += _utf16(part)
        self._set(block, ranges)

    def _set(self, block: QTextBlock, ranges: list[QTextLayout.FormatRange]) -> None:
        if block.isValid() and ranges:
            block.layout().setFormats(ranges)
            self._document.markContentsDirty(block.position(), block.length())


class _Colours:
    """Five kinds of words are enough to read code by."""

    def __init__(self) -> None:
        from pygments.token import Comment, Keyword, Name, Number, String

        theme = current_theme()
        blue, green, orange, purple, red = theme.tracks
        self._kinds = {
            Comment: _look(theme.muted),
            Keyword: _look(purple),
            String: _look(green if theme.dark else theme.ok),
            Number: _look(orange if theme.dark else theme.warn),
            Name.Function: _look(blue),
            Name.Class: _look(blue),
            Name.Builtin: _look(blue),
            Name.Decorator: _look(red),
        }

    def of(self, token: Any) -> QTextCharFormat | None:
        """The colour of a token type or of its nearest ancestor that has one."""
        while token is not None:
            if token in self._kinds:
                return self._kinds[token]
            token = token.parent
        return None


def _look(colour: str) -> QTextCharFormat:
    result = QTextCharFormat()
    result.setForeground(QBrush(QColor(colour)))
    return result


def _lexer(language: str) -> Lexer | None:
    from pygments.lexers import get_lexer_by_name
    from pygments.util import ClassNotFound

    try:
        # The code is shown as it is: nothing stripped, nothing added.
        return get_lexer_by_name(language, stripnl=False, ensurenl=False)
    except ClassNotFound:
        return None


def _utf16(text: str) -> int:
    """Length in the units that Qt counts."""
    return len(text.encode("utf-16-le")) // 2
