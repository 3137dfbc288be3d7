"""Times and pixels on the timeline."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mblt_desktop.tracing import words
from mblt_desktop.tracing.geometry import (
    LINE_HEIGHT,
    ROW_PADDING,
    SHORTEST_NS,
    TimeScale,
    make_rows,
    row_at,
    span_at,
)
from runtime.tracing.view import TraceView, make_view
from tests.runtime.tracing.recordings import make_trace, span

wholes = st.floats(1.0, 1e14)
parts = st.floats(0.0, 1.0)


@given(wholes, parts, parts, st.floats(0.01, 100.0), st.integers(1, 4000), st.floats(-1e5, 1e5))
def test_no_zoom_or_move_leaves_the_recording(
    whole: float, left: float, at: float, factor: float, width: int, pixels: float
) -> None:
    scale = TimeScale(0.0, whole, width, whole).showing(left * whole, whole)
    for changed in (scale.zoomed(factor, at * width), scale.moved(pixels), scale.showing(-pixels, pixels)):
        assert 0.0 <= changed.low <= changed.high <= whole * (1 + 1e-9)
        assert changed.high - changed.low >= min(SHORTEST_NS, whole) * (1 - 1e-6)


@given(st.floats(1e6, 1e12), st.floats(0.3, 0.7), st.floats(1.0, 20.0))
def test_zooming_in_keeps_the_time_under_the_pointer(whole: float, at: float, factor: float) -> None:
    scale = TimeScale(0.0, whole, 1000, whole)
    zoomed = scale.zoomed(factor, at * 1000)
    assert zoomed.time(at * 1000) == pytest.approx(scale.time(at * 1000), rel=1e-6)


@given(st.floats(0, 1e12), st.floats(200, 1e12), st.integers(50, 3000))
def test_the_ruler_has_room_for_its_words(low: float, length: float, width: int) -> None:
    marks = list(TimeScale(low, low + length, width, low + length).marks())
    assert len(marks) <= width / 90 + 2
    positions = [TimeScale(low, low + length, width, low + length).x(time) for time, _ in marks]
    assert all(after - before >= 90 for before, after in itertools.pairwise(positions))
    assert all(-1 <= place <= width + 1 for place in positions)


@pytest.mark.parametrize(
    ("ns", "said"),
    [
        (0, "0 ns"),
        (999, "999 ns"),
        (1500, "1.50 µs"),
        (69_700_000, "69.7 ms"),
        (999_999, "1.00 ms"),
        (6_410_000_000, "6.41 s"),
        (123e9, "123 s"),
    ],
)
def test_durations_in_words(ns: float, said: str) -> None:
    assert words.duration(ns) == said


@pytest.mark.parametrize(("part", "said"), [(0, "0 %"), (0.001, "< 1 %"), (0.78, "78 %"), (1, "100 %")])
def test_shares_in_words(part: float, said: str) -> None:
    assert words.share(part) == said


def test_requests_come_first_and_rows_touch(view: TraceView) -> None:
    rows = make_rows(view)
    assert [row.title for row in rows] == [
        "Answer 1 · chat",
        "Answer 2 · chat",
        "Chat engine",
        "Window",
        "NPU · Chat engine",
        "tokens",
    ]
    assert all(after.top == before.top + before.height for before, after in itertools.pairwise(rows))
    assert row_at(rows, rows[2].top) == rows[2]
    assert row_at(rows, rows[-1].top + rows[-1].height) is None


def test_the_span_under_a_point() -> None:
    view = make_view(
        make_trace([span("a", 1000, 1000), span("b", 1200, 100), span("c", 5000, 1)], stop_ns=None)
    )
    (row,) = make_rows(view)
    scale = TimeScale(0.0, 6000.0, 600, 6000.0)
    origin = int(view.tracks[0].start[0]) - 1000
    assert origin == 0
    first_line, second_line = ROW_PADDING + 3, ROW_PADDING + LINE_HEIGHT + 3
    assert span_at(view, row, scale, 125.0, first_line) == 0
    assert span_at(view, row, scale, 125.0, second_line) == 1
    assert span_at(view, row, scale, 150.0, second_line) is None
    # One nanosecond wide, but the pointer need not be that exact.
    assert span_at(view, row, scale, 501.0, first_line) == 2
    assert span_at(view, row, scale, 510.0, first_line) is None
    assert span_at(view, row, scale, 125.0, 500.0) is None
