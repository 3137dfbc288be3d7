"""Statistics and breakdowns, against arithmetic by hand and a plain-Python reference."""

from __future__ import annotations

import itertools
import statistics as plain

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tracing.analyse import find, statistics
from runtime.tracing.levels import FEW, build_levels, choose
from runtime.tracing.view import make_view
from tests.runtime.tracing.recordings import (
    ENGINE,
    GUI,
    chat_events,
    make_trace,
    span,
)

MS = 1_000_000


def test_statistics_by_hand() -> None:
    events = [span("a", at * MS, length * MS, ENGINE) for at, length in ((0, 2), (10, 4), (20, 6))]
    events += [span("b", 1 * MS, 1 * MS, GUI), span("a", 11 * MS, 1 * MS, GUI)]
    view = make_view(make_trace(events, stop_ns=None))
    assert view.duration_ns == 26 * MS
    first, second = statistics(view, 0, view.duration_ns)
    assert (first.name, first.count, first.total) == ("a", 4, 13 * MS)
    assert (first.mean, first.p50) == (3.25 * MS, 3 * MS)
    # The second thread's "a" runs while the first one's does: covered time counts once.
    assert first.share == pytest.approx(12 / 26)
    assert (second.name, second.share) == ("b", pytest.approx(1 / 26))


def test_a_range_counts_what_begins_in_it_and_shares_what_runs_in_it() -> None:
    view = make_view(make_trace([span("a", 0, 10 * MS), span("a", 12 * MS, 2 * MS)], stop_ns=None))
    (row,) = statistics(view, 5 * MS, 13 * MS)
    assert (row.count, row.total) == (1, 2 * MS)
    assert row.share == pytest.approx((5 + 1) / 8)
    assert statistics(view, 11 * MS, 12 * MS) == []
    assert statistics(view, 5 * MS, 5 * MS) == []
    assert statistics(make_view(make_trace([])), 0, 100) == []


lengths = st.lists(
    st.tuples(
        st.sampled_from(("a", "b")), st.integers(0, 1000), st.integers(0, 300), st.sampled_from((GUI, ENGINE))
    ),
    min_size=1,
    max_size=30,
)


@given(lengths, st.integers(0, 1300), st.integers(0, 1300))
def test_statistics_agree_with_a_plain_reference(
    raw: list[tuple[str, int, int, int]], low: int, high: int
) -> None:
    low, high = sorted((low, high))
    view = make_view(make_trace([span(name, at, length, thread) for name, at, length, thread in raw]))
    rows = {row.name: row for row in statistics(view, low, high)}
    for name in ("a", "b"):
        inside = [length for other, at, length, _ in raw if other == name and low <= at < high]
        assert (rows[name].count if name in rows else 0) == len(inside)
        if inside:
            assert rows[name].total == sum(inside)
            assert rows[name].p50 == plain.median(inside)
            ran = {
                moment
                for other, at, length, _ in raw
                if other == name
                for moment in range(max(at, low), min(at + length, high))
            }
            assert rows[name].share == pytest.approx(len(ran) / (high - low))


def test_finding_goes_over_all_tracks_by_time() -> None:
    view = make_view(make_trace(chat_events("1", tokens=2)))
    hits = find(view, " TOKEN")
    names = [view.names[int(view.tracks[t].name[s])] for t, s in zip(hits.track, hits.span, strict=True)]
    assert names == ["tokenise", "detokenise", "detokenise"]
    assert len(find(view, "  ").span) == 0
    assert len(find(make_view(make_trace([])), "a").span) == 0


@given(
    st.lists(st.tuples(st.integers(0, 50), st.integers(0, 40)), min_size=1, max_size=60),
    st.integers(0, 10**7),
)
def test_every_level_covers_what_the_finest_shows(raw: list[tuple[int, int]], pixel: int) -> None:
    gaps = np.array([gap for gap, _length in raw * 200], dtype=np.int64)
    sizes = np.array([length for _gap, length in raw * 200], dtype=np.int64)
    ends = np.cumsum(gaps + sizes)
    starts = ends - sizes
    levels = build_levels(starts, ends, np.arange(len(starts), dtype=np.int32))
    assert (len(levels) == 1) == (len(starts) <= FEW)
    for finer, coarser in itertools.pairwise(levels):
        assert len(coarser.start) <= len(finer.start)
        assert coarser.resolution > finer.resolution
        assert (coarser.start[0], coarser.end.max()) == (finer.start[0], finer.end.max())
        # An entry's own span lies inside what the entry stands for.
        assert np.all(starts[coarser.span] >= coarser.start)
        assert np.all(ends[coarser.span] <= coarser.end)
    assert choose(levels, pixel).resolution <= pixel


def test_nothing_in_sight_is_nothing_to_draw() -> None:
    view = make_view(make_trace([span("a", 100, 10), span("a", 200, 10)]))
    level = view.tracks[0].lines[0][0]
    first = int(level.start[0])
    assert len(level.start[level.between(first, first + 5)]) == 1
    assert len(level.start[level.between(first + 20, first + 50)]) == 0
    assert len(level.start[level.between(first + 20, first + 101)]) == 1
