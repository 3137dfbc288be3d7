"""The table that `make bench` prints: whether a goal is met, in words and as the exit status."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.bench import __main__ as bench
from tests.bench.table import Goal, Row, print_table

RATIO = Row("engine ÷ generate()", "1.02", Goal(1.02, at_least=1.0))
FACT = Row("time to first window", "0.49 s")
LATE = Row("GUI lateness", "p50 0.1, p99 8.2 ms", Goal(8.2, at_most=8, unit="ms", name="p99"))


def test_the_table_is_markdown_with_what_is_met_and_what_is_not(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_table([RATIO, FACT, LATE]) == 1
    assert capsys.readouterr().out.splitlines() == [
        "| what | measured | goal | |",
        "|---|---|---|---|",
        "| engine ÷ generate() | 1.02 | at least 1 | met |",
        "| time to first window | 0.49 s |  |  |",
        "| GUI lateness | p50 0.1, p99 8.2 ms | p99 at most 8 ms | NOT met |",
        "",
        "NOT met: GUI lateness.",
    ]


def test_all_met_is_success(capsys: pytest.CaptureFixture[str]) -> None:
    assert print_table([RATIO, FACT]) == 0
    assert "NOT" not in capsys.readouterr().out


@pytest.mark.parametrize(
    ("goal", "met"),
    [
        (Goal(0.6, at_most=0.6), True),
        (Goal(0.6001, at_most=0.6), False),
        (Goal(2.5, at_least=2.5), True),
        (Goal(2.4999, at_least=2.5), False),
        (Goal(0.0, at_most=0), True),
        (Goal(-0.1, at_most=3), True),
        (Goal(float("nan"), at_most=3), False),
        (Goal(float("nan"), at_least=3), False),
    ],
)
def test_a_limit_itself_is_met_and_nothing_beyond_it(goal: Goal, met: bool) -> None:
    assert goal.met == met


def test_sections_are_measured_by_name(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def refuse(_models: Path) -> list[Row]:
        raise AssertionError("not asked for")

    for name in bench.SECTIONS:
        monkeypatch.setitem(bench.SECTIONS, name, refuse)
    monkeypatch.setitem(bench.SECTIONS, "window", lambda _: [LATE])
    assert bench.main(["window"]) == 1
    assert "| GUI lateness |" in capsys.readouterr().out
    with pytest.raises(SystemExit):
        bench.main(["windows"])
