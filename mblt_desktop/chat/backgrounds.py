"""Paints the bubbles, code boxes and quote bars behind the visible part of a transcript."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QPointF, QRectF, Qt
from PySide6.QtGui import QColor, QPainter, QPen, QTextBlock, QTextDocument

from mblt_desktop.chat.formats import HEAD, PADDING, group_of
from mblt_desktop.theme import current_theme

_RADIUS = 8.0


@dataclass(slots=True)
class _Box:
    shape: str
    rect: QRectF
    line_at: float | None = None


def paint_backgrounds(painter: QPainter, document: QTextDocument, first: QTextBlock, visible: QRectF) -> None:
    """Paint what lies behind the blocks from `first` to the bottom of `visible`, in document coordinates."""
    painter.setRenderHint(QPainter.RenderHint.Antialiasing)
    for box in _boxes(document, first, visible):
        _paint(painter, box)


def _boxes(document: QTextDocument, block: QTextBlock, visible: QRectF) -> list[_Box]:
    boxes: dict[int, _Box] = {}
    layout = document.documentLayout()
    frame = document.rootFrame().frameFormat()
    left = frame.leftMargin() + document.documentMargin()
    right = document.textWidth() - frame.rightMargin() - document.documentMargin()
    while block.isValid():
        group = group_of(block)
        rect = layout.blockBoundingRect(block)
        if rect.top() > visible.bottom():
            break
        if group is not None:
            number, shape = group
            margins = block.blockFormat()
            area = QRectF(
                QPointF(left + margins.leftMargin() - PADDING, rect.top()),
                QPointF(right - margins.rightMargin() + PADDING, rect.bottom()),
            )
            box = boxes.get(number)
            if box is None:
                box = boxes[number] = _Box(shape, area)
                before = block.previous()
                if before.isValid() and group_of(before) == group:
                    # The box began above the window: its upper edge is out of sight.
                    box.rect.setTop(visible.top() - 4 * PADDING)
            box.rect.setBottom(area.bottom())
            if block.blockFormat().hasProperty(HEAD):
                box.line_at = rect.bottom() + 6
        block = block.next()
    return list(boxes.values())


def _paint(painter: QPainter, box: _Box) -> None:
    theme = current_theme()
    rect = box.rect.adjusted(0, -8, 0, 8)
    if box.shape == "quote":
        painter.fillRect(QRectF(rect.left(), box.rect.top(), 3, box.rect.height()), theme.colour("border"))
        return
    fill = {"user": theme.accent_soft, "code": theme.code, "thought": theme.surface, "error": theme.bad_soft}
    edge = {"user": theme.accent_soft, "error": theme.bad}.get(box.shape, theme.border)
    painter.setBrush(QColor(fill[box.shape]))
    painter.setPen(QPen(QColor(edge), 1))
    painter.drawRoundedRect(rect.adjusted(0.5, 0.5, -0.5, -0.5), _RADIUS, _RADIUS)
    if box.line_at is not None:
        painter.setPen(QPen(QColor(theme.border), 1))
        painter.drawLine(QPointF(rect.left(), box.line_at), QPointF(rect.right(), box.line_at))
    painter.setPen(Qt.PenStyle.NoPen)
