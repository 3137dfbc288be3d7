"""Host events and the device's file become one timeline."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.tracing.merge import REFUSED
from runtime.tracing.model import LIMIT_WORDS, ClockReading, Span, nest, walk
from runtime.tracing.npu import NO_CLOCK, SENTINEL, read_device_file
from tests.runtime.tracing.recordings import (
    ENGINE,
    GUI,
    START,
    chat_events,
    make_trace,
    request_events,
    span,
    write_device_file,
)


def test_requests_of_one_name_are_numbered_as_they_came() -> None:
    events = [
        *request_events("b", "Answer", "chat", 500, 100),
        *request_events("a", "Answer", "chat", 100, 900),
        *request_events("c", "Transcribe", "transcribe", 200, 10),
    ]
    trace = make_trace(events)
    assert [(track.title, track.request) for track in trace.tracks] == [
        ("Answer 1 · chat", "a"),
        ("Transcribe", "c"),
        ("Answer 2 · chat", "b"),
    ]


def test_waiting_goes_to_the_requests_track_and_the_request_covers_it() -> None:
    trace = make_trace([*request_events("1", "Answer", "chat", 50, 100), span("queue", 20, 60, ENGINE, "1")])
    (track,) = trace.tracks
    root, queue = track.spans
    assert (root.name, root.start_ns - START, root.end_ns - START) == ("Answer", 20, 150)
    assert (queue.name, track.kind) == ("queue", "request")


def test_a_request_that_never_ended_ends_with_the_recording() -> None:
    begin, _end = request_events("1", "Answer", "chat", 50, 100)
    trace = make_trace([begin], stop_ns=START + 500)
    (root,) = trace.tracks[0].spans
    assert (root.end_ns - START, root.args) == (500, {"kind": "chat", "truncated": True})


def test_threads_have_their_roles_and_strangers_their_number() -> None:
    trace = make_trace([span("a", 0, 1, ENGINE), span("b", 0, 1, 4711), span("c", 0, 1, GUI)])
    assert [(track.title, track.tid) for track in trace.tracks] == [
        ("Chat engine", ENGINE),
        ("Window", GUI),
        ("Thread 4711", 4711),
    ]


def test_each_submit_points_at_the_first_work_for_it() -> None:
    trace = make_trace(
        [*chat_events("1"), *chat_events("2", at=3_000_000), span("submit", 0, 1, GUI, "never run")]
    )
    arrows = [(trace.span_at(flow.source), trace.span_at(flow.target)) for flow in trace.flows]
    assert [(source.request, target.request, target.name) for source, target in arrows] == [
        ("1", "1", "template"),
        ("2", "2", "template"),
    ]


def test_what_is_told_about_the_recording() -> None:
    trace = make_trace(
        chat_events("1"),
        limit="seconds",
        refused=2,
        clocks=[ClockReading(0, 0, 0), ClockReading(10**9, 31 * 10**9, 31 * 10**9)],
    )
    assert trace.metadata.warnings[:2] == (LIMIT_WORDS["seconds"], REFUSED.format(count=2))
    assert "slept for 30 s" in trace.metadata.warnings[2]
    assert trace.metadata.host_events == sum(len(t.spans) for t in trace.tracks) + 5


def sentinel_calls(offset_us: int) -> list[tuple[str, str, int, int]]:
    """What the clock checks leave in the device's file: loads that fail, on thread 9."""
    calls: list[tuple[str, str, int, int]] = []
    for at in (10, 20, 30):
        calls += [
            ("B", "create model", 9, at + 1 - offset_us),
            ("B", "load mxq", 9, at + 1 - offset_us),
            ("E", "create model", 9, at + 3 - offset_us),
        ]
    return calls


@pytest.mark.parametrize(("offset_us", "moved_us"), [(0, 0), (1, 0), (-900, -900), (5000, 5000)])
def test_device_times_are_put_on_the_hosts_clock(tmp_path: Path, offset_us: int, moved_us: int) -> None:
    real = [("B", "infer", 7, 100 - offset_us), ("E", "infer", 7, 150 - offset_us)]
    path = write_device_file(tmp_path / "npu.json", [*sentinel_calls(offset_us), *real])
    brackets = [(START + at * 1000, START + (at + 5) * 1000) for at in (10, 20, 30)]
    device = read_device_file(path, brackets, 9)
    assert device.relation is not None
    assert list(device.events.spans) == [7]
    assert device.events.repaired == 0
    (found,) = device.events.spans[7]
    expected = START + (100 - offset_us + moved_us) * 1000
    assert abs(found.start_ns - expected) <= device.relation.bound_ns
    assert device.relation.bound_ns <= 4000
    assert device.relation.offset_ns == 0 if moved_us == 0 else device.relation.offset_ns != 0


def test_without_the_checks_the_clock_is_not_vouched_for(tmp_path: Path) -> None:
    path = write_device_file(tmp_path / "npu.json", [("B", "infer", 7, 1), ("E", "infer", 7, 2)])
    device = read_device_file(path, [(1, 2)], 9)
    assert (device.relation, device.warning) == (None, NO_CLOCK)
    assert device.events.count == 1


def test_the_checks_name_no_real_file() -> None:
    assert not Path(SENTINEL).exists()
    assert not Path(SENTINEL).parent.exists()


def test_nesting_and_walking_agree() -> None:
    spans = [Span("a", 0, 10), Span("b", 2, 3), Span("c", 5, 5), Span("d", 8, 9), Span("e", 10, 0)]
    first, second = nest(spans)
    assert [found.name for found in first] == ["a", "b", "c", "e"]
    assert [found.name for found in second] == ["d"]
    assert [(found.name, place) for found, place in walk(first)] == [
        ("a", 0),
        ("b", 1),
        ("b", None),
        ("c", 2),
        ("c", None),
        ("a", None),
        ("e", 3),
        ("e", None),
    ]
