"""The event files of qbruntime, whole and broken."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.tracing.model import nest
from runtime.tracing.npu_events import pair, parse
from runtime.tracing.recorder import TRUNCATED


def element(phase: str, name: str, ts: int, tid: int = 7) -> dict[str, object]:
    return {"name": name, "cat": "", "ph": phase, "pid": 1, "tid": tid, "ts": ts}


# Bytes that the real 1.5.0 runtime wrote for a model file it could not load.
FAILED_LOAD = """[
{"name":"create model","cat":"","ph":"B","pid":21246,"tid":21246,"ts":555593493},
{"name":"load mxq","cat":"","ph":"B","pid":21246,"tid":21246,"ts":555593501},
{"name":"create model","cat":"","ph":"E","pid":21246,"tid":21246,"ts":555593581}
]
"""


def test_a_failed_load_ends_with_its_parent(tmp_path: Path) -> None:
    path = tmp_path / "npu.json"
    path.write_text(FAILED_LOAD)
    events = parse(path)
    parent, child = events.spans[21246]
    assert (parent.name, parent.start_ns, parent.duration_ns) == ("create model", 555593493000, 88000)
    assert (child.name, child.end_ns, child.args) == ("load mxq", parent.end_ns, {TRUNCATED: True})
    assert (events.repaired, events.skipped) == (1, 0)


@pytest.mark.parametrize("text", ["", "[", "[\n\n]\n", "[]"])
def test_a_window_without_events_gives_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "npu.json"
    path.write_text(text)
    assert parse(path).count == 0


@pytest.mark.parametrize("cut", range(0, len(FAILED_LOAD), 7))
def test_a_file_cut_anywhere_gives_what_it_holds(tmp_path: Path, cut: int) -> None:
    path = tmp_path / "npu.json"
    path.write_text(FAILED_LOAD[:cut])
    events = parse(path)
    whole_lines = FAILED_LOAD[:cut].count("}")
    assert events.count <= whole_lines
    assert events.count == min(2, whole_lines)
    assert all(span.duration_ns >= 0 for spans in events.spans.values() for span in spans)


def test_elements_that_are_no_events_are_counted() -> None:
    events = pair(
        [
            element("B", "infer", 10),
            {"err": "Too long"},
            None,
            [],
            {"ph": "B", "name": 4, "tid": 1, "ts": 1},
            {"ph": "B", "name": "late", "tid": 1, "ts": -4},
            {"ph": "B", "name": "huge", "tid": 1, "ts": 2**60},
            {"ph": "X", "name": "other", "tid": 1, "ts": 3},
            element("E", "infer", 30),
        ]
    )
    assert events.skipped == 7
    assert [(span.name, span.duration_ns) for span in events.spans[7]] == [("infer", 20_000)]


def test_an_end_without_a_begin_is_a_repair_and_no_span() -> None:
    events = pair([element("E", "infer", 5), element("B", "infer", 6), element("E", "infer", 8)])
    assert events.repaired == 1
    assert [(span.start_ns, span.duration_ns) for span in events.spans[7]] == [(6000, 2000)]


def test_threads_do_not_mix() -> None:
    events = pair(
        [
            element("B", "infer", 1, 1),
            element("B", "infer", 2, 2),
            element("E", "infer", 9, 1),
            element("E", "infer", 5, 2),
        ]
    )
    assert [span.duration_ns for span in events.spans[1]] == [8000]
    assert [span.duration_ns for span in events.spans[2]] == [3000]
    assert events.repaired == 0


@given(
    st.lists(
        st.tuples(
            st.sampled_from("BE"),
            st.sampled_from(("infer", "run npu", "load mxq")),
            st.integers(0, 50),
            st.integers(1, 2),
        ),
        max_size=40,
    )
)
def test_whatever_comes_in_spans_nest_and_never_run_backwards(raw: list[tuple[str, str, int, int]]) -> None:
    events = pair(element(phase, name, ts, tid) for phase, name, ts, tid in raw)
    begins = sum(1 for phase, *_rest in raw if phase == "B")
    assert events.count == begins
    for spans in events.spans.values():
        assert all(span.duration_ns >= 0 for span in spans)
        assert len(nest(spans)) <= 1
