"""How the parts of a transcript look: block and character formats in the current theme's colours."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import Qt
from PySide6.QtGui import (
    QBrush,
    QColor,
    QFont,
    QTextBlock,
    QTextBlockFormat,
    QTextCharFormat,
    QTextFormat,
    QTextOption,
)

from mblt_desktop.theme import current_theme, font

Shape = Literal["user", "code", "quote", "thought", "error"]
GROUP = QTextFormat.Property.UserProperty + 1
"""Blocks with the same number are painted on one background."""
SHAPE = QTextFormat.Property.UserProperty + 2
"""Which background that is."""
HEAD = QTextFormat.Property.UserProperty + 3
"""The block is the heading of its group."""

PADDING = 12
_PROPORTIONAL = QTextBlockFormat.LineHeightTypes.ProportionalHeight.value
_FIXED = QTextBlockFormat.LineHeightTypes.FixedHeight.value


class Formats:
    """Made anew when the theme or the column's width changes."""

    def __init__(self, column: int) -> None:
        self.column = column
        """Width of the text column in pixels."""
        theme = current_theme()
        self.text = _chars(font(), theme.text)
        self.muted = _chars(font("small", tabular=True), theme.muted)
        self.strong = _chars(font(bold=True), theme.text)
        self.bad = _chars(font(bold=True), theme.bad)
        self.code = _chars(font("small", mono=True), theme.text)
        self.inline_code = _chars(font("small", mono=True), theme.text)
        self.inline_code.setBackground(QBrush(QColor(theme.hover)))
        self._accent = QColor(theme.accent)

    def heading(self, level: int) -> QTextCharFormat:
        """Characters of a heading."""
        result = QTextCharFormat(self.strong)
        face = font(bold=True)
        face.setPixelSize(face.pixelSize() + max(0, 6 - 2 * level))
        result.setFont(face, QTextCharFormat.FontPropertiesInheritanceBehavior.FontPropertiesSpecifiedOnly)
        return result

    def link(self, href: str, base: QTextCharFormat | None = None, *, quiet: bool = False) -> QTextCharFormat:
        """Characters that can be clicked; `quiet` ones are actions in a muted line."""
        result = QTextCharFormat(base or self.muted)
        result.setAnchor(True)
        result.setAnchorHref(href)
        if not quiet:
            result.setForeground(QBrush(self._accent))
        return result

    def paragraph(self, *, top: int = 0, bottom: int = 8) -> QTextBlockFormat:
        """Running text."""
        result = QTextBlockFormat()
        result.setLineHeight(142, _PROPORTIONAL)
        result.setTopMargin(top)
        result.setBottomMargin(bottom)
        return result

    def small(self, *, top: int = 0, bottom: int = 0, right: bool = False) -> QTextBlockFormat:
        """A line of facts or actions under a message."""
        result = QTextBlockFormat()
        result.setTopMargin(top)
        result.setBottomMargin(bottom)
        if right:
            result.setAlignment(Qt.AlignmentFlag.AlignRight)
        return result

    def hairline(self) -> QTextBlockFormat:
        """A block that must exist but shows nothing, e.g. between two tables."""
        result = QTextBlockFormat()
        result.setLineHeight(1, _FIXED)
        return result

    def user(self, group: int, natural_width: float) -> QTextBlockFormat:
        """The user's words: a bubble at the right, as wide as its text up to three quarters."""
        width = min(natural_width + 2 * PADDING + 2, 0.78 * self.column)
        result = self.paragraph(bottom=0)
        result.setLeftMargin(self.column - width + PADDING)
        result.setRightMargin(PADDING)
        return grouped(result, "user", group)

    def code_head(self, group: int) -> QTextBlockFormat:
        """The line above code: its language at the left, Copy at the right."""
        result = grouped(self.small(top=16, bottom=16), "code", group)
        result.setProperty(HEAD, True)
        self._inset(result)
        result.setTabPositions([QTextOption.Tab(self.column - 2 * PADDING - 2, QTextOption.TabType.RightTab)])
        return result

    def code_line(self, group: int) -> QTextBlockFormat:
        """One line of code."""
        result = grouped(QTextBlockFormat(), "code", group)
        result.setLineHeight(130, _PROPORTIONAL)
        self._inset(result)
        return result

    def inset(self, shape: Shape, group: int, *, top: int = 12) -> QTextBlockFormat:
        """A paragraph on a background of its own."""
        result = grouped(self.paragraph(top=top, bottom=0), shape, group)
        self._inset(result)
        return result

    def _inset(self, block: QTextBlockFormat) -> None:
        block.setLeftMargin(PADDING)
        block.setRightMargin(PADDING)


def grouped(block: QTextBlockFormat, shape: Shape, group: int) -> QTextBlockFormat:
    """Mark a format as part of a painted group."""
    block.setProperty(GROUP, group)
    block.setProperty(SHAPE, shape)
    return block


def group_of(block: QTextBlock) -> tuple[int, str] | None:
    """The painted group a block is part of, and its shape."""
    block_format = block.blockFormat()
    group = block_format.property(GROUP)
    return None if group is None else (int(group), str(block_format.property(SHAPE)))


def _chars(face: QFont, colour: str) -> QTextCharFormat:
    result = QTextCharFormat()
    result.setFont(face)
    result.setForeground(QBrush(QColor(colour)))
    return result
