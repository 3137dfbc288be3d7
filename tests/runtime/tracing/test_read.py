"""Reading recordings back: exactly for our own files, safely for anything else."""

from __future__ import annotations

import gzip
import json
import os
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.errors import StorageError, TraceError
from runtime.tracing import assemble, read
from runtime.tracing.check import check_file, check_trace
from runtime.tracing.model import Trace
from runtime.tracing.read import read_metadata, read_trace
from runtime.tracing.write_chrome import write_chrome
from runtime.tracing.write_pftrace import write_pftrace
from tests.runtime.tracing.recordings import (
    ENGINE,
    GUI,
    chat_events,
    make_trace,
    request_events,
    span,
    write_device_file,
)


@pytest.fixture
def recorded(tmp_path: Path) -> Trace:
    device = write_device_file(
        tmp_path / "npu.json",
        [("B", "infer", ENGINE, 1000), ("B", "run npu", ENGINE, 1001), ("E", "infer", ENGINE, 1700)],
    )
    return make_trace([*chat_events("1"), *chat_events("2", at=2_500_000)], device)


def test_a_pftrace_comes_back_exactly(recorded: Trace, tmp_path: Path) -> None:
    path = tmp_path / "a.pftrace"
    write_pftrace(recorded, path)
    assert read_trace(path) == recorded
    assert read_metadata(path) == recorded.metadata
    assert check_file(path).problems == ()


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_a_chrome_export_comes_back_but_for_the_clock_readings(
    recorded: Trace, tmp_path: Path, name: str
) -> None:
    path = tmp_path / name
    write_chrome(recorded, path)
    found = read_trace(path)
    recorded.clocks = []
    assert found == recorded
    assert check_file(path).problems == ()


spans = st.builds(
    span,
    st.sampled_from(("decode step", "sample", "submit", "queue", "한국어 😀")),
    st.integers(0, 10**9),
    st.integers(0, 10**9),
    st.sampled_from((GUI, ENGINE)),
    st.sampled_from((None, "r1", "r2")),
    tokens=st.integers(-(2**63), 2**63 - 1),
    rate=st.floats(allow_nan=False, allow_infinity=False),
)


@settings(max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(spans, max_size=30), st.booleans())
def test_any_recording_comes_back(tmp_path: Path, events: list[object], with_request: bool) -> None:
    extra = request_events("r1", "Answer", "chat", 5, 10**8) if with_request else []
    trace = make_trace([*events, *extra])  # type: ignore[list-item]
    pftrace, chrome = tmp_path / "a.pftrace", tmp_path / "a.json"
    write_pftrace(trace, pftrace)
    write_chrome(trace, chrome)
    back = read_trace(pftrace)
    for one in (back, trace):  # arrows have no order; simultaneous ones come back in any
        one.flows.sort(key=repr)
    assert back == trace
    found = read_trace(chrome)
    assert (found.metadata, found.counters) == (trace.metadata, trace.counters)
    assert [sorted(map(repr, track.spans)) for track in found.tracks] == [
        sorted(map(repr, track.spans)) for track in trace.tracks
    ]
    assert check_trace(found).problems == ()


@pytest.mark.parametrize("part", [0.3, 0.6, 0.9, 0.999])
def test_a_cut_pftrace_gives_what_it_holds_and_says_so(recorded: Trace, tmp_path: Path, part: float) -> None:
    path = tmp_path / "a.pftrace"
    write_pftrace(recorded, path)
    path.write_bytes(path.read_bytes()[: int(path.stat().st_size * part)])
    report = check_file(path)
    assert report.problems
    assert report.metadata.title == recorded.metadata.title


def test_a_cut_json_gives_its_whole_lines(recorded: Trace, tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    write_chrome(recorded, path)
    path.write_bytes(path.read_bytes()[:-300])
    trace = read_trace(path)
    assert assemble.CUT in trace.damage
    assert trace.metadata == recorded.metadata


def test_a_file_of_the_npu_runtime_is_understood(tmp_path: Path) -> None:
    path = write_device_file(
        tmp_path / "npu.json",
        [("B", "infer", 7, 10), ("B", "run npu", 7, 12), ("E", "run npu", 7, 20), ("E", "infer", 7, 21)],
    )
    trace = read_trace(path)
    (track,) = trace.tracks
    assert (track.kind, track.tid, [found.name for found in track.spans]) == (
        "device",
        7,
        ["infer", "run npu"],
    )
    assert (trace.metadata.device_events, trace.metadata.host_events) == (2, 0)
    assert assemble.FOREIGN in trace.metadata.warnings


def test_another_programs_trace_is_shown_as_far_as_it_goes(tmp_path: Path) -> None:
    path = tmp_path / "torch.json"
    events = [
        {"ph": "M", "name": "thread_name", "pid": 1, "tid": 2, "args": {"name": "worker"}},
        {
            "ph": "X",
            "name": "aten::mm",
            "pid": 1,
            "tid": 2,
            "ts": 10.5,
            "dur": 2.25,
            "args": {"n": 3, "deep": {}},
        },
        {"ph": "B", "name": "open", "pid": 1, "tid": 2, "ts": 20},
        {"ph": "C", "name": "memory", "pid": 1, "ts": 11, "args": {"used": 7}},
        {"ph": "X", "name": "no time", "pid": 1, "tid": 2, "ts": "later", "dur": 1},
        "noise",
    ]
    path.write_text(json.dumps({"traceEvents": events}))
    trace = read_trace(path)
    (track,) = trace.tracks
    first, second = track.spans
    assert (track.title, first.name, first.start_ns, first.duration_ns) == (
        "worker",
        "aten::mm",
        10_500,
        2_250,
    )
    assert first.args == {"n": 3}
    assert second.args == {"truncated": True}
    assert trace.counters[0].samples == [(11_000, 7.0)]
    assert trace.metadata.skipped == 2
    assert len(trace.damage) == 2


HOSTILE = {
    "empty": b"",
    "blank": b"  \n ",
    "word": b"hello",
    "picture": b"\x89PNG\r\n\x1a\n" + bytes(40),
    "html": b"<html></html>",
    "empty array": b"[]",
    "empty window": b"[\n\n]\n",
    "null": b"null",
    "object without events": b'{"a": 1}',
    "events null": b'{"traceEvents": null}',
    "numbers": b"[1, 2, 3]",
    "deep": b"[" * 200_000,
    "deep object": b'{"a":' * 100_000,
    "nan": b'[{"ph":"X","name":"a","ts":NaN,"dur":1}]',
    "huge time": b'[{"ph":"X","name":"a","ts":1e400,"dur":1}]',
    "negative time": b'[{"ph":"X","name":"a","ts":-5,"dur":1}]',
    "utf-16": '[{"ph":"X","name":"a","ts":1,"dur":1}]'.encode("utf-16"),
    "cut gzip": gzip.compress(b"[]" * 5000)[:30],
    "no gzip": b"\x1f\x8b\x08hello",
    "packet longer than the file": b"\x0a\xff\xff\xff\xff\x0f",
    "endless varint": b"\x0a" + b"\xff" * 30,
    "empty packets": b"\x0a\x00" * 50,
    "zeros": bytes(500),
}


@pytest.mark.parametrize("content", HOSTILE.values(), ids=HOSTILE.keys())
def test_what_is_no_trace_is_refused_in_one_sentence(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "strange.pftrace"
    path.write_bytes(content)
    with pytest.raises(TraceError, match=r"strange\.pftrace"):
        read_trace(path)
    assert read_metadata(path) is None


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.binary(max_size=300), st.integers(0, 4000))
def test_damage_anywhere_never_ends_in_another_error(tmp_path: Path, damage: bytes, place: int) -> None:
    path = tmp_path / "a.pftrace"
    write_pftrace(make_trace(chat_events("1")), path)
    data = bytearray(path.read_bytes())
    data[place % len(data) : place % len(data) + len(damage)] = damage
    path.write_bytes(data)
    try:
        trace = read_trace(path)
    except TraceError:
        return
    assert all(found.duration_ns >= 0 for track in trace.tracks for found in track.spans)
    check_trace(trace)


def test_a_gzip_bomb_is_not_unpacked_whole(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(read, "MAX_BYTES", 1000)
    path = tmp_path / "bomb.json.gz"
    path.write_bytes(gzip.compress(b"[" + b" " * 100_000 + b"]"))
    with pytest.raises(TraceError, match="more than"):
        read_trace(path)


def test_too_many_events_are_refused(
    recorded: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "a.pftrace"
    write_pftrace(recorded, path)
    monkeypatch.setattr(assemble, "MAX_EVENTS", 10)
    with pytest.raises(TraceError, match="10 events"):
        read_trace(path)


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(StorageError, match=r"gone\.pftrace"):
        read_trace(tmp_path / "gone.pftrace")


def test_the_check_notices_what_is_missing(recorded: Trace, tmp_path: Path) -> None:
    path = tmp_path / "a.pftrace"
    write_pftrace(recorded, path)
    trace = read_trace(path)
    trace.tracks[0].spans.pop()
    trace.counters[0].samples[0] = (0, float("nan"))
    problems = check_trace(trace).problems
    assert any("host events" in words for words in problems)
    assert any("not a number" in words for words in problems)


@pytest.mark.timeout(30)
@pytest.mark.parametrize("read_it", [read_trace, read_metadata])
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path, read_it: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "pipe.pftrace")
    with pytest.raises(StorageError, match="not a file"):
        read_it(tmp_path / "pipe.pftrace")


def test_names_that_are_no_text_are_shown_as_far_as_they_are(recorded: Trace, tmp_path: Path) -> None:
    path = tmp_path / "names.pftrace"
    write_pftrace(recorded, path)
    data = path.read_bytes()
    path.write_bytes(data.replace(b"decode step", b"decode \xffste").replace(b"prompt", b"pro\xffpt"))
    trace = read_trace(path)
    names = {one.name for track in trace.tracks for one in track.spans}
    assert "decode \N{REPLACEMENT CHARACTER}ste" in names
    write_chrome(trace, tmp_path / "names.json")
    write_pftrace(trace, tmp_path / "again.pftrace")
