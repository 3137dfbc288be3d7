"""How sizes, times and jobs are said."""

from __future__ import annotations

import pytest

from mblt_desktop.models import words
from runtime.messages import JobProgress


@pytest.mark.parametrize(
    ("count", "text"),
    [
        (0, "0 kB"),
        (1_500, "2 kB"),
        (92_871_040, "93 MB"),
        (999_999_999, "1.0 GB"),
        (1_000_000_000, "1.0 GB"),
    ],
)
def test_sizes(count: int, text: str) -> None:
    assert words.size(count) == text


@pytest.mark.parametrize(("seconds", "text"), [(0.2, "1 s"), (89, "89 s"), (90, "2 min"), (3600, "60 min")])
def test_durations(seconds: float, text: str) -> None:
    assert words.duration(seconds) == text


def test_speeds_have_a_decimal() -> None:
    facts = words.job_facts(JobProgress("r", "Downloading", 31_000_000, 92_900_000, 4_240_000.0))
    assert facts == "31 MB of 93 MB  ·  4.2 MB/s  ·  15 s left"


def test_unknown_totals_and_speeds_are_not_invented() -> None:
    assert words.job_fraction(None) is None
    assert words.job_fraction(JobProgress("r", "Looking")) is None
    assert words.job_facts(JobProgress("r", "Looking")) == ""
    assert words.job_facts(JobProgress("r", "Packing", 5, 10, None)) == ""
