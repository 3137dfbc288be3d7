"""Statistics by span name for the selected stretch of time, as a table to sort and copy."""

from __future__ import annotations

from PySide6.QtCore import (
    QAbstractTableModel,
    QModelIndex,
    QPersistentModelIndex,
    QSortFilterProxyModel,
    Qt,
    Signal,
    Slot,
)
from PySide6.QtGui import QGuiApplication, QKeyEvent, QKeySequence, QResizeEvent
from PySide6.QtWidgets import QAbstractItemView, QFrame, QHeaderView, QTableView, QVBoxLayout

from mblt_desktop.theme import font
from mblt_desktop.tracing import words
from mblt_desktop.tracing.analysis import Answer
from mblt_desktop.widgets import Label
from runtime.tracing.analyse import NameStatistics

_COLUMNS = ("Span", "Count", "Total", "Mean", "p50", "p95", "Share")
_WIDEST = ("99,999", "999.9 ms", "999.9 ms", "999.9 ms", "999.9 ms", "100 %")
"""The widest words of each column behind the names, which get the rest."""
_CELL_MARGIN = 10
_SHARE_TIP = "Part of the stretch of time during which at least one such span ran"
_SORT = Qt.ItemDataRole.UserRole
_GIVE_WAY = (4, 3, 5, 1)
"""Columns that are left out where there is no room, in this order: total and share say most."""
_SHORTEST_NAME = 120
_Index = QModelIndex | QPersistentModelIndex


class StatisticsModel(QAbstractTableModel):
    """One row per span name."""

    def __init__(self) -> None:
        super().__init__()
        self.rows: list[NameStatistics] = []
        self._sorted_by = (2, Qt.SortOrder.DescendingOrder)

    def mark_sorted(self, column: int, order: Qt.SortOrder) -> None:
        """Show in the heading by which column the rows are sorted."""
        self._sorted_by = (column, order)
        self.headerDataChanged.emit(Qt.Orientation.Horizontal, 0, len(_COLUMNS) - 1)

    def set_rows(self, rows: list[NameStatistics]) -> None:
        """Show other rows."""
        self.beginResetModel()
        self.rows = rows
        self.endResetModel()

    def rowCount(self, parent: _Index | None = None) -> int:
        """Qt: names."""
        return 0 if parent is not None and parent.isValid() else len(self.rows)

    def columnCount(self, _parent: _Index | None = None) -> int:
        """Qt: fixed."""
        return len(_COLUMNS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        """Qt: the columns' names."""
        if orientation != Qt.Orientation.Horizontal:
            return None
        if role == Qt.ItemDataRole.DisplayRole:
            column, order = self._sorted_by
            arrow = "↓" if order == Qt.SortOrder.DescendingOrder else "↑"
            return f"{_COLUMNS[section]} {arrow}" if section == column else _COLUMNS[section]
        if role == Qt.ItemDataRole.ToolTipRole and section == len(_COLUMNS) - 1:
            return _SHARE_TIP
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(section)
        return None

    def data(self, index: _Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """Qt: words to show, plain values to sort by."""
        row, column = self.rows[index.row()], index.column()
        if role == Qt.ItemDataRole.DisplayRole:
            return cell_words(row)[column]
        if role == _SORT:
            return (row.name, row.count, row.total, row.mean, row.p50, row.p95, row.share)[column]
        if role == Qt.ItemDataRole.TextAlignmentRole:
            return _alignment(column)
        return None


def _alignment(column: int) -> int:
    side = Qt.AlignmentFlag.AlignLeft if column == 0 else Qt.AlignmentFlag.AlignRight
    return int(side | Qt.AlignmentFlag.AlignVCenter)


def cell_words(row: NameStatistics) -> tuple[str, ...]:
    """A row as it is shown and copied."""
    times = (words.duration(value) for value in (row.total, row.mean, row.p50, row.p95))
    return (row.name, f"{row.count:,}", *times, words.share(row.share))


class StatisticsTable(QTableView):
    """Copies as tab-separated text; Enter or a double click goes to the span."""

    name_activated = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.model_ = StatisticsModel()
        self._sorted = QSortFilterProxyModel(self)
        self._sorted.setSourceModel(self.model_)
        self._sorted.setSortRole(_SORT)
        self.setModel(self._sorted)
        self.setAccessibleName("Statistics by span name")
        self.setFont(font(tabular=True))
        self.setSortingEnabled(True)
        self.sortByColumn(2, Qt.SortOrder.DescendingOrder)
        # Cells and heading share one left and one right edge.
        self.setStyleSheet("QTableView::item { padding: 0 5px; }")
        self.setShowGrid(False)
        self.setWordWrap(False)
        self.setTabKeyNavigation(False)
        self.verticalHeader().hide()
        self.verticalHeader().setDefaultSectionSize(28)
        self.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        header = self.horizontalHeader()
        header.setHighlightSections(False)
        # The style draws its own arrow over the words.
        header.setSortIndicatorShown(False)
        header.sortIndicatorChanged.connect(self.model_.mark_sorted)
        header.setFont(font("small"))
        header.setSectionResizeMode(QHeaderView.ResizeMode.Fixed)
        header.setSectionResizeMode(0, QHeaderView.ResizeMode.Stretch)
        self._widths = {
            column: self.fontMetrics().horizontalAdvance(widest) + 2 * _CELL_MARGIN
            for column, widest in enumerate(_WIDEST, start=1)
        }
        for column, width in self._widths.items():
            self.setColumnWidth(column, width)
        self.activated.connect(self._on_activated)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Leave out what matters least where there is no room for all columns; copying has all."""
        super().resizeEvent(event)
        too_much = _SHORTEST_NAME + sum(self._widths.values()) - self.viewport().width()
        for column in _GIVE_WAY:
            self.setColumnHidden(column, too_much > 0)
            too_much -= self._widths[column]

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Copy the selected rows as a table."""
        if event.matches(QKeySequence.StandardKey.Copy):
            QGuiApplication.clipboard().setText(self.selected_text())
        else:
            super().keyPressEvent(event)

    def selected_text(self) -> str:
        """The selected rows with their heading, as tab-separated lines."""
        chosen = sorted(index.row() for index in self.selectionModel().selectedRows())
        rows = [
            self.model_.rows[self._sorted.mapToSource(self._sorted.index(row, 0)).row()] for row in chosen
        ]
        return "\n".join("\t".join(line) for line in (_COLUMNS, *(cell_words(row) for row in rows)))

    @Slot(QModelIndex)
    def _on_activated(self, index: QModelIndex) -> None:
        self.name_activated.emit(str(index.siblingAtColumn(0).data()))


class StatisticsPanel(QFrame):
    """The table under a heading that says which stretch it is about."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "footer")
        column = QVBoxLayout(self)
        column.setContentsMargins(20, 12, 8, 8)
        column.setSpacing(8)
        self.heading = Label("", size="title", bold=True)
        self.table = StatisticsTable()
        self.nothing = Label("No span begins in this stretch of time.", "muted")
        column.addWidget(self.heading)
        column.addWidget(self.nothing)
        column.addWidget(self.table, 1)

    def show_answer(self, answer: Answer, *, whole: bool) -> None:
        """Show what was counted."""
        length = words.duration(answer.high - answer.low)
        self.heading.setText(f"Whole recording · {length}" if whole else f"Selected range · {length}")
        self.table.model_.set_rows(answer.rows)
        self.table.setVisible(bool(answer.rows))
        self.nothing.setVisible(not answer.rows)
