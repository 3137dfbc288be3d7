"""Writes Markdown into a transcript in our own formats.

Qt's importer does the parsing, into a document of its own, with raw HTML off. Its blocks are then copied one
by one: pasting them would lose the first block's format, and nothing of the model's choice but text, weight
and link targets may reach the transcript. Pictures are named, never fetched.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from PySide6.QtGui import (
    QBrush,
    QFont,
    QTextBlock,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextDocument,
    QTextFormat,
    QTextFragment,
    QTextLength,
    QTextList,
    QTextListFormat,
    QTextTable,
    QTextTableFormat,
)

from mblt_desktop.chat.formats import Formats, grouped
from mblt_desktop.theme import current_theme

FEATURES = QTextDocument.MarkdownFeature.MarkdownNoHTML | QTextDocument.MarkdownFeature.MarkdownDialectGitHub
_MATH = re.compile(r"\\([()\[\]])")
_RULE = QTextFormat.Property.BlockTrailingHorizontalRulerWidth


def write_markdown(cursor: QTextCursor, markdown: str, formats: Formats, next_group: Iterator[int]) -> None:
    """Write at `cursor`, which stands in an empty block; leaves it at the end of what was written."""
    source = QTextDocument()
    # A formula's \( is not an escaped bracket; shown as written until formulas are drawn.
    source.setMarkdown(_MATH.sub(r"\\\\\1", markdown), FEATURES)
    _Copier(cursor, formats, next_group).copy(source)


class _Copier:
    def __init__(self, cursor: QTextCursor, formats: Formats, next_group: Iterator[int]) -> None:
        self._cursor = cursor
        self._formats = formats
        self._next_group = next_group
        self._fresh = True
        self._lists: dict[int, QTextList] = {}
        self._quote: int | None = None
        self._code: int | None = None
        self._apart = False
        """The block before this one ends with less room than a paragraph."""

    def copy(self, source: QTextDocument) -> None:
        """Copy all blocks and tables of a parsed document."""
        done: set[int] = set()
        block = source.begin()
        while block.isValid():
            table = QTextCursor(block).currentTable()
            if table is None:
                self._block(block)
            elif table.firstPosition() not in done:
                done.add(table.firstPosition())
                self._table(table)
            block = block.next()
        if self._fresh:
            self._cursor.setBlockFormat(self._formats.hairline())

    def _block(self, block: QTextBlock) -> None:
        source = block.blockFormat()
        if not block.text() and not source.hasProperty(_RULE) and self._code_of(source) is None:
            return
        target = self._format(source, in_list=block.textList() is not None)
        self._start(target)
        self._cursor.setBlockCharFormat(self._formats.text)
        source_list = block.textList()
        if source_list is not None:
            self._join_list(source_list)
        level = source.headingLevel()
        base = self._formats.heading(level) if level else self._formats.text
        if self._code_of(source) is not None:
            self._cursor.insertText(block.text(), self._formats.code)
            return
        for fragment in fragments(block):
            self._cursor.insertText(self._text(fragment), self._characters(fragment.charFormat(), base))

    def _format(self, source: QTextBlockFormat, *, in_list: bool) -> QTextBlockFormat:
        in_code, in_quote = self._code_of(source), source.intProperty(QTextFormat.Property.BlockQuoteLevel)
        self._code = (self._code or next(self._next_group)) if in_code is not None else None
        self._quote = (self._quote or next(self._next_group)) if in_quote else None
        if self._code is not None:
            target = self._formats.code_line(self._code)
        elif source.headingLevel():
            target = self._formats.paragraph(top=0 if self._fresh else 10, bottom=6)
        else:
            target = self._formats.paragraph(
                top=0 if in_list or not self._apart else 6, bottom=4 if in_list else 8
            )
        self._apart = in_list or self._code is not None or self._quote is not None
        if self._quote is not None:
            grouped(target, "quote", self._quote)
            target.setLeftMargin(14)
        target.setIndent(source.indent())
        target.setMarker(source.marker())
        if source.hasProperty(_RULE):
            target.setProperty(_RULE, QTextLength(QTextLength.Type.PercentageLength, 100))
            target.setBackground(QBrush(current_theme().colour("border")))
        return target

    @staticmethod
    def _code_of(source: QTextBlockFormat) -> str | None:
        """A code block that the stream could not cut out, e.g. one by indentation."""
        language = source.property(QTextFormat.Property.BlockCodeLanguage)
        return None if language is None else str(language)

    def _join_list(self, source: QTextList) -> None:
        known = self._lists.get(source.objectIndex())
        if known is not None:
            known.add(self._cursor.block())
            return
        target = QTextListFormat()
        target.setStyle(source.format().style())
        target.setIndent(source.format().indent())
        target.setStart(source.format().start())
        self._lists[source.objectIndex()] = self._cursor.createList(target)

    def _start(self, target: QTextBlockFormat) -> None:
        if self._fresh:
            self._cursor.setBlockFormat(target)
            self._fresh = False
        else:
            self._cursor.insertBlock(target)

    def _table(self, source: QTextTable) -> None:
        if self._fresh:
            self._cursor.setBlockFormat(self._formats.hairline())
        else:
            self._cursor.insertBlock(self._formats.hairline())
        look = QTextTableFormat()
        look.setCellPadding(6)
        look.setCellSpacing(0)
        look.setBorder(1)
        look.setBorderCollapse(True)
        look.setBorderBrush(current_theme().colour("border"))
        look.setBorderStyle(QTextTableFormat.BorderStyle.BorderStyle_Solid)
        look.setTopMargin(4)
        look.setBottomMargin(8)
        target = self._cursor.insertTable(source.rows(), source.columns(), look)
        for row in range(source.rows()):
            base = self._formats.strong if row == 0 else self._formats.text
            for column in range(source.columns()):
                self._cell(source, target, row, column, base)
        self._cursor.setPosition(target.lastPosition() + 1)
        self._fresh = True

    def _cell(
        self, source: QTextTable, target: QTextTable, row: int, column: int, base: QTextCharFormat
    ) -> None:
        cell = source.cellAt(row, column)
        last = cell.lastCursorPosition().block()
        cursor = target.cellAt(row, column).firstCursorPosition()
        plain = QTextBlockFormat()
        plain.setAlignment(last.blockFormat().alignment())
        cursor.setBlockFormat(plain)
        # The importer leaves an empty block at the start of some tables.
        block = cell.firstCursorPosition().block()
        while block.isValid() and block.position() <= last.position():
            for fragment in fragments(block):
                cursor.insertText(self._text(fragment), self._characters(fragment.charFormat(), base))
            block = block.next()

    @staticmethod
    def _text(fragment: QTextFragment) -> str:
        if fragment.charFormat().isImageFormat():
            alt = fragment.charFormat().property(QTextFormat.Property.ImageAltText)
            return f"[picture “{alt}”, not fetched]" if alt else "[picture, not fetched]"
        return fragment.text()

    def _characters(self, source: QTextCharFormat, base: QTextCharFormat) -> QTextCharFormat:
        if source.isImageFormat():
            return self._formats.muted
        result = QTextCharFormat(self._formats.inline_code if source.fontFixedPitch() else base)
        if source.fontWeight() > QFont.Weight.Normal:
            result.setFontWeight(QFont.Weight.DemiBold)
        if source.fontItalic():
            result.setFontItalic(True)
        if source.fontStrikeOut():
            result.setFontStrikeOut(True)
        if source.isAnchor() and source.anchorHref():
            return self._formats.link(source.anchorHref(), result)
        return result


def fragments(block: QTextBlock) -> Iterator[QTextFragment]:
    """The runs of equal format in a block."""
    iterator = block.begin()
    while not iterator.atEnd():
        yield iterator.fragment()
        iterator += 1
