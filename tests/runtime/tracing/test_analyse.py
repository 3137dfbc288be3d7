"""Statistics and breakdowns, against arithmetic by hand and a plain-Python reference."""

from __future__ import annotations

import itertools
import statistics as plain
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tracing.analyse import breakdown, find, requests_with_steps, statistics
from runtime.tracing.levels import FEW, build_levels, choose
from runtime.tracing.view import make_view
from tests.runtime.tracing.recordings import (
    ENGINE,
    GUI,
    chat_events,
    make_trace,
    request_events,
    span,
    write_device_file,
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


def test_a_tokens_time_by_phase(tmp_path: Path) -> None:
    events = request_events("1", "Answer", "chat", 0, 100 * MS)
    device = []
    for token in range(3):
        begin = 10 * MS * (token + 1)
        extra = 3 * MS if token == 1 else 0
        events += [
            span("decode step", begin, 6 * MS + extra, ENGINE, "1", token=token),
            span("sample", begin + 6 * MS + extra, MS // 2, ENGINE, "1"),
        ]
        micros = begin // 1000
        device += [
            ("B", "infer", ENGINE, micros + 100),
            ("B", "copy to npu", ENGINE, micros + 100),
            ("E", "copy to npu", ENGINE, micros + 300),
            ("B", "run npu", ENGINE, micros + 300),
            ("E", "run npu", ENGINE, micros + 4300 + extra // 1000),
            ("E", "infer", ENGINE, micros + 4400 + extra // 1000),
        ]
    view = make_view(make_trace(events, write_device_file(tmp_path / "npu.json", device)))
    assert requests_with_steps(view) == [0]
    found = breakdown(view, 0)
    assert found is not None
    assert [step.total for step in found.steps] == [6.5 * MS, 9.5 * MS, 6.5 * MS]
    assert found.steps[0].phases == {"run": 4 * MS, "move": MS // 5, "sample": MS // 2, "host": 1.8 * MS}
    assert found.steps[1].phases["run"] == 7 * MS
    assert found.median("run") == 4 * MS
    assert found.share("run") == pytest.approx(15 / 22.5)
    assert all(sum(step.phases.values()) == step.total for step in found.steps)


def test_a_request_without_steps_has_no_breakdown() -> None:
    view = make_view(make_trace([span("template", 0, 5, ENGINE, "1")]))
    assert requests_with_steps(view) == []
    assert breakdown(view, 0) is None


def test_two_requests_taking_turns_keep_their_own_steps() -> None:
    events = [
        span("decode step", at * MS, MS // 2, ENGINE, request, token=at)
        for at, request in enumerate(("1", "2", "1", "2"))
    ]
    view = make_view(make_trace(events))
    assert requests_with_steps(view) == [0, 1]
    for request in (0, 1):
        found = breakdown(view, request)
        assert found is not None
        assert [step.total for step in found.steps] == [MS // 2, MS // 2]


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
