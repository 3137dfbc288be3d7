"""The device's clock is measured against the host's."""

from __future__ import annotations

import time

from hypothesis import given
from hypothesis import strategies as st

from runtime.tracing.clocks import read_clocks, relate, suspended_ns
from runtime.tracing.model import ClockReading, Span


def traced(begin: int, end: int, offset: int) -> Span:
    """A call that ran from `begin` to `end`, as a device whose clock is `offset` behind writes it."""
    start = (begin - offset) // 1000 * 1000
    return Span("create model", start, (end - offset) // 1000 * 1000 - start)


calls = st.lists(
    st.tuples(st.integers(10**9, 10**12), st.integers(0, 3000), st.integers(1, 9000), st.integers(0, 3000)),
    min_size=1,
    max_size=16,
)


@given(calls)
def test_the_same_clock_gives_offset_zero(raw: list[tuple[int, int, int, int]]) -> None:
    brackets = [(at, at + lead + length + tail) for at, lead, length, tail in raw]
    spans = [traced(at + lead, at + lead + length, 0) for at, lead, length, _tail in raw]
    relation = relate(brackets, spans)
    assert relation is not None
    assert relation.offset_ns == 0
    assert relation.bound_ns <= min(after - before for before, after in brackets) + 2000


@given(calls, st.integers(-(10**8), 10**8))
def test_another_clock_is_found_within_the_bound(raw: list[tuple[int, int, int, int]], offset: int) -> None:
    brackets = [(at, at + lead + length + tail) for at, lead, length, tail in raw]
    spans = [traced(at + lead, at + lead + length, offset) for at, lead, length, _tail in raw]
    relation = relate(brackets, spans)
    assert relation is not None
    assert abs(relation.offset_ns - offset) <= relation.bound_ns


def test_a_clock_that_drifts_away_is_not_related() -> None:
    brackets = [(10**9, 10**9 + 5000), (2 * 10**9, 2 * 10**9 + 5000)]
    spans = [traced(10**9 + 10, 10**9 + 4000, 0), traced(2 * 10**9 + 10, 2 * 10**9 + 4000, 50_000)]
    assert relate(brackets, spans) is None


def test_no_check_or_a_wrong_number_of_checks_relates_nothing() -> None:
    assert relate([], []) is None
    assert relate([(1, 2)], []) is None


def test_the_clocks_are_read_together() -> None:
    before = time.perf_counter_ns()
    reading = read_clocks()
    assert before <= reading.monotonic <= time.perf_counter_ns()
    assert abs(reading.realtime - time.time_ns()) < 10**9


def test_sleep_shows_in_the_boot_clock_only() -> None:
    readings = [ClockReading(100, 1000, 5), ClockReading(200, 1100, 5), ClockReading(300, 9200, 5)]
    assert suspended_ns(readings) == 8000
    assert suspended_ns(readings[:2]) == 0
    assert suspended_ns(readings[:1]) == 0
