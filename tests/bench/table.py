"""A benchmark's figures as one Markdown table: what was measured, what it is held to, whether it is met."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from dataclasses import dataclass


@dataclass(frozen=True)
class Goal:
    """What a figure is held to; a figure that equals the limit meets it."""

    value: float
    """What was measured, not rounded."""
    at_least: float | None = None
    at_most: float | None = None
    unit: str = ""
    name: str = ""
    """Which of several figures in the row it is about, such as "p50"."""

    @property
    def met(self) -> bool:
        """False for what is no number, too."""
        low = self.at_least is None or self.value >= self.at_least
        return low and (self.at_most is None or self.value <= self.at_most) and self.value == self.value

    def __str__(self) -> str:
        """The goal in words, without what was measured."""
        bounds = [
            f"{words} {bound:g}{self.unit and ' ' + self.unit}"
            for words, bound in (("at least", self.at_least), ("at most", self.at_most))
            if bound is not None
        ]
        return " ".join(filter(None, [self.name, " and ".join(bounds)]))


@dataclass(frozen=True)
class Row:
    """A line of the table."""

    what: str
    measured: str
    goal: Goal | None = None

    @property
    def verdict(self) -> str:
        """Empty for a figure that nothing is demanded of."""
        return "" if self.goal is None else "met" if self.goal.met else "NOT met"

    def __str__(self) -> str:
        """As Markdown."""
        return f"| {self.what} | {self.measured} | {self.goal or ''} | {self.verdict} |"


def print_table(rows: Iterable[Row]) -> int:
    """Print each row as soon as it is measured; the exit status, 1 when any goal is missed."""
    _say("| what | measured | goal | |\n|---|---|---|---|")
    missed = []
    for row in rows:
        _say(str(row))
        if row.goal is not None and not row.goal.met:
            missed.append(row.what)
    if missed:
        _say(f"\nNOT met: {'; '.join(missed)}.")
    return 1 if missed else 0


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
