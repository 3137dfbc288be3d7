"""The table of statistics in the room it has."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from mblt_desktop.tracing.statistics_panel import StatisticsTable
from runtime.tracing.analyse import NameStatistics


@pytest.mark.parametrize(
    ("width", "shown"),
    [
        (900, ["Span", "Count", "Total", "Mean", "p50", "p95", "Share"]),
        (340, ["Span", "Count", "Total", "Share"]),
        (270, ["Span", "Total", "Share"]),
    ],
)
def test_a_narrow_table_keeps_what_says_most_and_copies_all(
    qtbot: QtBot, width: int, shown: list[str]
) -> None:
    table = StatisticsTable()
    qtbot.addWidget(table)
    table.model_.set_rows((NameStatistics("infer", 57, 2_000_000_000, 3e7, 3e7, 5e7, 0.3),))
    table.resize(900, 300)
    table.show()
    table.resize(width, 300)
    model, header = table.model(), table.horizontalHeader()
    visible = [column for column in range(model.columnCount()) if not header.isSectionHidden(column)]
    names = [str(model.headerData(column, header.orientation())).split()[0] for column in visible]
    assert names == shown
    assert sum(header.sectionSize(column) for column in visible) <= table.viewport().width()
    table.selectRow(0)
    assert len(table.selected_text().splitlines()[1].split("\t")) == 7
