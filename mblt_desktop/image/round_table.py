"""All answers of a round in one table, each in full below it, and saved as a file."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QAbstractTableModel, QModelIndex, QObject, QPersistentModelIndex, Qt, Signal, Slot
from PySide6.QtWidgets import (
    QAbstractItemView,
    QDialog,
    QFileDialog,
    QHBoxLayout,
    QHeaderView,
    QSplitter,
    QTableView,
    QVBoxLayout,
    QWidget,
)

from mblt_desktop.exporting import TextWriter, file_name
from mblt_desktop.image.answers import AnswerText
from mblt_desktop.image.round_export import STATES, answer_words, to_csv, to_markdown
from mblt_desktop.image.rounds import UNDER_WAY, Item, Rounds
from mblt_desktop.theme import current_theme
from mblt_desktop.widgets import Button, ElidedLabel, ErrorBanner, Label, Scrolled, plain_tip

Index = QModelIndex | QPersistentModelIndex
_COLUMNS = ("Picture", "Answer", "State")
_SIZE = (960, 620)
_WORDS = (
    Qt.ItemDataRole.DisplayRole,
    Qt.ItemDataRole.AccessibleTextRole,
    Qt.ItemDataRole.ToolTipRole,
)
_SHORT = 300
"""Characters of an answer that its row can show at most."""


class RoundTableModel(QAbstractTableModel):
    """A row for each picture of the round."""

    def __init__(self, rounds: Rounds, parent: QObject) -> None:
        super().__init__(parent)
        self._rounds = rounds
        self._rows = list(rounds.items)
        rounds.changed.connect(self._on_changed)

    def item(self, row: int) -> Item | None:
        """The picture of a row."""
        return self._rows[row] if 0 <= row < len(self._rows) else None

    def rowCount(self, parent: Index | None = None) -> int:
        """Pictures."""
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def columnCount(self, parent: Index | None = None) -> int:
        """Name, answer, state."""
        return 0 if parent is not None and parent.isValid() else len(_COLUMNS)

    def headerData(
        self, section: int, orientation: Qt.Orientation, role: int = Qt.ItemDataRole.DisplayRole
    ) -> object:
        """The columns' names."""
        shown = role == Qt.ItemDataRole.DisplayRole and orientation == Qt.Orientation.Horizontal
        return _COLUMNS[section] if shown else None

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The words of a cell; a failure in its colour."""
        item = self.item(index.row())
        if item is None:
            return None
        if role in _WORDS:
            words = (item.record.name, one_line(answer_words(item)), state_words(item))[index.column()]
            return plain_tip(words) if role == Qt.ItemDataRole.ToolTipRole else words
        if role == Qt.ItemDataRole.ForegroundRole and item.state != "answered":
            return current_theme().colour("bad" if item.state == "failed" else "muted")
        return None

    @Slot()
    def _on_changed(self) -> None:
        if len(self._rows) != len(self._rounds.items) or any(
            mine is not theirs for mine, theirs in zip(self._rows, self._rounds.items, strict=True)
        ):
            self.beginResetModel()
            self._rows = list(self._rounds.items)
            self.endResetModel()
        elif self._rows:
            self.dataChanged.emit(self.index(0, 0), self.index(len(self._rows) - 1, len(_COLUMNS) - 1))


class RoundDialog(QDialog):
    """Stays open beside the window while the round goes on."""

    saved = Signal(str)
    """The path of a file that was written."""

    def __init__(self, rounds: Rounds, parent: QWidget) -> None:
        super().__init__(parent)
        self._rounds = rounds
        self._writer = TextWriter("The answers stay with their pictures.", self)
        self.setWindowTitle("Answers about pictures")
        self.resize(*_SIZE)
        self.model = RoundTableModel(rounds, self)
        self.table = _table(self.model)
        self.answer = AnswerText()
        self.banner = ErrorBanner()
        self.banner.hide()
        self._question = ElidedLabel("", size="title", bold=True)
        self._facts = Label("", "muted", "small", wrap=True)
        self.stop_one = Button("Stop this one", "stop")
        self.csv = Button("Save as CSV…", "export")
        self.markdown = Button("Save as Markdown…", "export")
        self._close = Button("Close")
        self._build()
        self._connect()
        self._refresh()

    def _build(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 16, 16, 16)
        column.setSpacing(12)
        for widget in (self._question, self._facts, self.banner):
            column.addWidget(widget)
        self._full = Scrolled(self.answer)
        parts = QSplitter(Qt.Orientation.Vertical)
        parts.addWidget(self.table)
        parts.addWidget(self._full)
        parts.setSizes([360, 160])
        parts.setChildrenCollapsible(False)
        column.addWidget(parts, 1)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self.stop_one)
        row.addStretch(1)
        for button in (self.csv, self.markdown, self._close):
            row.addWidget(button)
        column.addLayout(row)
        for button in (self.stop_one, self.csv, self.markdown, self._close):
            button.setAutoDefault(False)

    def _connect(self) -> None:
        self._rounds.changed.connect(self._refresh)
        self.table.selectionModel().currentRowChanged.connect(self._on_row_changed)
        self.stop_one.clicked.connect(self._on_stop_clicked)
        self.csv.clicked.connect(self._on_csv_clicked)
        self.markdown.clicked.connect(self._on_markdown_clicked)
        self._close.clicked.connect(self.close)
        self._writer.saved.connect(self.saved)
        self._writer.failed.connect(self._on_failed)
        self.banner.dismissed.connect(self.banner.hide)

    @property
    def current(self) -> Item | None:
        """The picture of the current row."""
        return self.model.item(self.table.currentIndex().row())

    def wait(self) -> None:
        """Return when what is being saved is on the disk."""
        self._writer.close()

    def save(self, target: Path) -> None:
        """Write all answers as the file's name says: .csv, else Markdown."""
        if self._rounds.asked is not None:
            make = to_csv if target.suffix.lower() == ".csv" else to_markdown
            self._writer.write(target, make(self._rounds.asked, self._rounds.items))

    @Slot()
    def _refresh(self) -> None:
        rounds, asked = self._rounds, self._rounds.asked
        self._question.setText(one_line(asked.question) if asked is not None else "No round is open")
        self._facts.setText(count_words(rounds) if asked is not None else "Ask about several pictures first.")
        for button in (self.csv, self.markdown):
            button.setEnabled(bool(rounds.items))
        if self.current is None and rounds.items:
            self.table.selectRow(0)
        self._show_current()

    @Slot(QModelIndex, QModelIndex)
    def _on_row_changed(self, _now: QModelIndex, _before: QModelIndex) -> None:
        self._show_current()

    def _show_current(self) -> None:
        item = self.current
        self.stop_one.setEnabled(item is not None and item.state in ("waiting", "writing"))
        text = answer_words(item) if item is not None else ""
        if self.answer.property("shown") != text:
            self.answer.setProperty("shown", text)
            self.answer.set_final(text)

    @Slot()
    def _on_stop_clicked(self) -> None:
        item = self.current
        if item is not None and item.state in UNDER_WAY:
            self._rounds.stop(item)

    @Slot()
    def _on_csv_clicked(self) -> None:
        self._ask_where(".csv", "CSV table (*.csv)")

    @Slot()
    def _on_markdown_clicked(self) -> None:
        self._ask_where(".md", "Markdown (*.md)")

    def _ask_where(self, suffix: str, form: str) -> None:
        asked = self._rounds.asked
        if asked is None:
            return
        dialog = QFileDialog(self, "Save all answers")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setNameFilter(form)
        dialog.setDefaultSuffix(suffix.removeprefix("."))
        dialog.selectFile(file_name(one_line(asked.question), suffix, "answers"))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self._on_file_chosen)
        dialog.open()

    @Slot(str)
    def _on_file_chosen(self, name: str) -> None:
        self.save(Path(name))

    @Slot(object)
    def _on_failed(self, error: object) -> None:
        self.banner.show_error(error)  # type: ignore[arg-type]
        self.banner.show()


def count_words(rounds: Rounds) -> str:
    """How many pictures there are, are answered, have failed, and are left."""
    failed, left = rounds.count("failed"), rounds.count("left")
    parts = [f"{rounds.count('answered')} of {len(rounds.items)} answered"]
    parts += [f"{failed} failed"] if failed else []
    parts += [f"{left} not answered"] if left else []
    return " · ".join(parts)


def state_words(item: Item) -> str:
    """A picture's state, and why it waits."""
    return item.words or STATES[item.state].capitalize()


def one_line(text: str) -> str:
    """A text as far as one line can show it."""
    return " ".join(text[:_SHORT].split())


def _table(model: RoundTableModel) -> QTableView:
    table = QTableView()
    table.setModel(model)
    table.setAccessibleName("Answers by picture")
    # Cells and heading share one left edge.
    table.setStyleSheet("QTableView::item { padding: 0 5px; }")
    table.setShowGrid(False)
    table.setWordWrap(False)
    table.setTabKeyNavigation(False)
    table.setSelectionBehavior(QAbstractItemView.SelectionBehavior.SelectRows)
    table.setSelectionMode(QAbstractItemView.SelectionMode.SingleSelection)
    table.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
    table.verticalHeader().hide()
    table.verticalHeader().setDefaultSectionSize(30)
    header = table.horizontalHeader()
    header.setHighlightSections(False)
    header.setDefaultAlignment(Qt.AlignmentFlag.AlignLeft | Qt.AlignmentFlag.AlignVCenter)
    header.setSectionResizeMode(1, QHeaderView.ResizeMode.Stretch)
    table.setColumnWidth(0, 200)
    table.setColumnWidth(2, 280)
    return table
