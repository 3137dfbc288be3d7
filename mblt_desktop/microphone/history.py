"""Saved transcripts: newest first, delete with a way back."""

from __future__ import annotations

import time

from PySide6.QtCore import QModelIndex, QSize, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QPainter
from PySide6.QtWidgets import QListWidget, QListWidgetItem, QStyledItemDelegate, QStyleOptionViewItem

from mblt_desktop.store.records import TranscriptSummary
from mblt_desktop.theme import current_theme, font
from mblt_desktop.widgets import plain_tip
from runtime.audio.times import clock

_ID = Qt.ItemDataRole.UserRole
_FACTS = Qt.ItemDataRole.UserRole + 1


class HistoryList(QListWidget):
    """The list of transcripts."""

    opened = Signal(str)
    delete_requested = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Saved transcripts")
        self.setItemDelegate(_Delegate(self))
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QListWidget.ScrollMode.ScrollPerPixel)
        self.currentItemChanged.connect(self._on_current_changed)

    def show_rows(self, rows: list[TranscriptSummary]) -> None:
        """Replace the rows; the current one stays current while it is there."""
        current = self.current_id
        self.blockSignals(True)
        self.clear()
        for row in rows:
            item = QListWidgetItem(row.title)
            item.setData(_ID, row.id)
            item.setData(_FACTS, f"{_day(row.created_at)} · {clock(row.duration)}")
            item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{row.title}, {item.data(_FACTS)}")
            item.setToolTip(plain_tip(row.source))
            self.addItem(item)
        self.blockSignals(False)
        self.select(current)

    @property
    def current_id(self) -> str:
        """The id of the current transcript, or an empty text."""
        item = self.currentItem()
        return str(item.data(_ID)) if item is not None else ""

    def select(self, transcript_id: str) -> None:
        """Make a row current without opening it again; an unknown id makes none current."""
        self.blockSignals(True)
        self.setCurrentRow(-1)
        for number in range(self.count()):
            item = self.item(number)
            if item.data(_ID) == transcript_id:
                self.setCurrentItem(item)
        self.blockSignals(False)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Delete deletes."""
        if event.key() == Qt.Key.Key_Delete and self.current_id:
            self.delete_requested.emit(self.current_id)
        else:
            super().keyPressEvent(event)

    @Slot(QListWidgetItem, QListWidgetItem)
    def _on_current_changed(self, current: QListWidgetItem | None, _before: object) -> None:
        if current is not None:
            self.opened.emit(str(current.data(_ID)))


class _Delegate(QStyledItemDelegate):
    """Two lines: the title, and when and how long."""

    def sizeHint(self, _option: QStyleOptionViewItem, _index: QModelIndex) -> QSize:  # type: ignore[override]
        """Room for both lines."""
        return QSize(120, 48)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex) -> None:  # type: ignore[override]
        """Let the style draw the background, then write the lines."""
        self.initStyleOption(option, index)
        option.text = ""
        style = option.widget.style()
        style.drawControl(style.ControlElement.CE_ItemViewItem, option, painter, option.widget)
        box = option.rect.adjusted(8, 4, -8, -4)
        half = box.height() // 2
        theme = current_theme()
        for text, size, tone, top in (
            (index.data(Qt.ItemDataRole.DisplayRole), "body", "text", box.top()),
            (index.data(_FACTS), "small", "muted", box.top() + half),
        ):
            painter.setFont(font(size))  # type: ignore[arg-type]
            painter.setPen(theme.colour(tone))
            line = box.adjusted(0, 0, 0, 0)
            line.setTop(top)
            line.setHeight(half)
            elided = painter.fontMetrics().elidedText(text, Qt.TextElideMode.ElideMiddle, line.width())
            painter.drawText(line, int(Qt.AlignmentFlag.AlignVCenter), elided)


def _day(moment: float) -> str:
    """When: the time for today, else the day."""
    then, now = time.localtime(moment), time.localtime()
    if then[:3] == now[:3]:
        return time.strftime("%H:%M", then)
    year = "" if then.tm_year == now.tm_year else f" {then.tm_year}"
    return f"{then.tm_mday} {time.strftime('%b', then)}{year}"
