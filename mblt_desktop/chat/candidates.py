"""What could have come instead of a token: the likeliest ones, before and after each penalty."""

from __future__ import annotations

import math

from PySide6.QtCore import Qt, Slot
from PySide6.QtWidgets import QFrame, QGridLayout, QHBoxLayout, QSpinBox, QVBoxLayout

from mblt_desktop.widgets import Label, Section
from runtime.messages import Candidate, CandidatesReported, DrawnToken

_HEADS = {
    "model": "Model",
    "min_tokens": "Min tok.",
    "repetition": "Repet.",
    "frequency": "Frequ.",
    "presence": "Pres.",
}
_LONGEST_TEXT = 14


class CandidateTable(QFrame):
    """One token of an answer at a time; hidden for an answer without a report."""

    def __init__(self) -> None:
        super().__init__()
        self._report: CandidatesReported | None = None
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 8, 0, 0)
        column.setSpacing(8)
        column.addWidget(Section("Candidates"))
        line = QHBoxLayout()
        line.setSpacing(8)
        self.place = QSpinBox()
        self.place.setAccessibleName("Token of the answer")
        self.place.setPrefix("Token ")
        self.place.setKeyboardTracking(False)
        self.drawn = Label("", "text", "small")
        line.addWidget(self.place)
        line.addWidget(self.drawn, 1)
        column.addLayout(line)
        self._grid = QGridLayout()
        self._grid.setHorizontalSpacing(8)
        self._grid.setVerticalSpacing(4)
        self._grid.setColumnStretch(0, 1)
        column.addLayout(self._grid)
        self.cells: list[list[Label]] = []
        """Rows of the table, its head first."""
        self.place.valueChanged.connect(self._on_place_changed)

    def show_report(self, report: CandidatesReported | None) -> None:
        """Show another answer's first token, or nothing."""
        tokens = report.tokens if report is not None else ()
        self._report = report if tokens else None
        self.setVisible(bool(tokens))
        if not tokens:
            return
        self.place.blockSignals(True)
        self.place.setRange(tokens[0].index + 1, tokens[-1].index + 1)
        self.place.setSuffix(f" of {tokens[-1].index + 1}")
        self.place.setValue(tokens[0].index + 1)
        self.place.blockSignals(False)
        self._show(tokens[0])

    @Slot(int)
    def _on_place_changed(self, number: int) -> None:
        if self._report is not None:
            self._show(self._report.tokens[number - 1 - self._report.tokens[0].index])

    def _show(self, token: DrawnToken) -> None:
        assert self._report is not None
        self.drawn.setText(_quoted(token.text, token.token_id))
        rows = [["", *(_HEADS.get(stage, stage) for stage in self._report.stages)]]
        rows += [_row(candidate) for candidate in token.candidates]
        self._resize(len(rows), len(rows[0]))
        for number, (cells, texts) in enumerate(zip(self.cells, rows, strict=True)):
            chosen = number > 0 and token.candidates[number - 1].token_id == token.token_id
            for cell, text in zip(cells, texts, strict=True):
                cell.setText(text)
                cell.set_tone("accent" if chosen else "muted" if number == 0 else "text")

    def _resize(self, rows: int, columns: int) -> None:
        """Make the table as large as it has to be."""
        if [len(cells) for cells in self.cells] == [columns] * rows:
            return
        for cells in self.cells:
            for cell in cells:
                self._grid.removeWidget(cell)
                cell.deleteLater()
        right, left = Qt.AlignmentFlag.AlignRight, Qt.AlignmentFlag.AlignLeft
        self.cells = [[Label("", "text", "small", tabular=True) for _ in range(columns)] for _ in range(rows)]
        for row, cells in enumerate(self.cells):
            for column, cell in enumerate(cells):
                self._grid.addWidget(cell, row, column, right if column else left)


def _row(candidate: Candidate) -> list[str]:
    text = _quoted(candidate.text, candidate.token_id)
    return [text, *("barred" if value == -math.inf else f"{value:.2f}" for value in candidate.logits)]


def _quoted(text: str, token_id: int) -> str:
    """A token so that its spaces and line breaks are seen; one without a text by its number."""
    if not text:
        return f"#{token_id}"
    shown = text.replace("\n", "⏎").replace("\t", "⇥")
    return f"“{shown if len(shown) <= _LONGEST_TEXT else shown[:_LONGEST_TEXT] + '…'}”"
