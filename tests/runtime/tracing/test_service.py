"""The recorder lane: start, stop, limits, and who else may be tracing the device."""

from __future__ import annotations

import sys
import types
from pathlib import Path

import pytest

from runtime.messages import RecordingFailed, RecordingFinished, RecordingStarted
from runtime.tracing import npu, recording
from runtime.tracing.read import read_trace
from runtime.tracing.recorder import RECORDER
from tests.perfetto import PROBLEMS, UNFINISHED, perfetto_query
from tests.runtime.tracing.recorder_lane import Lane, make_lane, use_the_device


def test_host_and_device_events_end_on_one_timeline(lane: Lane) -> None:
    lane.start()
    assert lane.take(RecordingStarted).recording_id == "rec"
    use_the_device(20)
    lane.stop()
    info = lane.take(RecordingFinished).info
    assert (info.title, info.host_events, info.device_events) == ("A title", 20, 40)
    assert (info.simulated, info.device, info.checked) == (True, "Simulated ARIES (CPU)", True)
    assert info.warnings == ()
    trace = read_trace(Path(info.path))
    assert trace.metadata.clock_bound_ns is not None
    assert 0 < trace.metadata.clock_bound_ns < 1_000_000
    host, device = trace.tracks
    assert (host.title, device.title) == ("Chat engine", "NPU · Chat engine")
    calls = [span for span in device.spans if span.name == "create model"]
    for step, call in zip(host.spans, calls, strict=True):
        assert step.start_ns - 1000 <= call.start_ns <= call.end_ns <= step.end_ns
    problems, unfinished, count = perfetto_query(
        Path(info.path), PROBLEMS, UNFINISHED, "select count(*) as n from slice where name = 'create model'"
    )
    assert (problems, unfinished, count) == ([], [{"n": 0}], [{"n": 20}])


def test_an_empty_recording_is_a_file_too(lane: Lane) -> None:
    lane.start()
    lane.events.clear()
    lane.stop()
    info = lane.take(RecordingFinished).info
    assert (info.host_events, info.device_events, info.checked) == (0, 0, True)
    assert perfetto_query(Path(info.path), PROBLEMS) == [[]]


def test_a_second_start_is_refused_and_the_first_goes_on(lane: Lane) -> None:
    lane.start("one")
    lane.events.clear()
    lane.start("two")
    refused = lane.take(RecordingFailed)
    assert (refused.recording_id, refused.error.code) == ("two", "trace")
    assert "already running" in refused.error.summary
    assert RECORDER.active
    lane.stop("one")
    assert lane.take(RecordingFinished).info.recording_id == "one"


@pytest.mark.parametrize("bad", ["../escape", "", "a/b", ".hidden", "x" * 101, "a\0b"])
def test_an_id_that_is_no_file_name_is_refused(lane: Lane, bad: str) -> None:
    lane.start(bad)
    assert lane.take(RecordingFailed).error.code == "trace"
    assert not RECORDER.active
    assert list(lane.folder.parent.rglob("*.pftrace")) == []


@pytest.mark.parametrize("limits", [{"max_events": 0}, {"max_seconds": 0.0}, {"max_seconds": float("nan")}])
def test_impossible_limits_are_refused(lane: Lane, limits: dict[str, float]) -> None:
    lane.start(**limits)
    assert "not possible" in lane.take(RecordingFailed).error.summary


def test_a_recording_never_replaces_another(lane: Lane) -> None:
    path = lane.record("rec")
    before = path.read_bytes()
    lane.start("rec")
    assert "already is a recording" in lane.take(RecordingFailed).error.summary
    assert path.read_bytes() == before


def test_the_limit_of_events_ends_it_with_a_note_and_it_works_again(lane: Lane) -> None:
    lane.start("full", max_events=5)
    lane.events.clear()
    for _ in range(9):
        RECORDER.instant("tick")
    assert lane.service.step() is False
    info = lane.take(RecordingFinished).info
    assert info.host_events == 5
    assert info.warnings == ("The limit of events was reached; what came later is not in this recording.",)
    lane.stop("full")
    assert lane.events == []
    assert lane.record("next").is_file()


def test_the_time_limit_ends_it_without_any_event(lane: Lane) -> None:
    lane.start(max_seconds=0.01)
    lane.events.clear()
    assert lane.service.step() is False
    assert "time limit" in lane.take(RecordingFinished).info.warnings[0]


def test_a_nearly_full_disk_ends_it(lane: Lane, monkeypatch: pytest.MonkeyPatch) -> None:
    lane.start()
    lane.events.clear()
    monkeypatch.setattr(recording, "free_bytes", lambda _folder: 1000)
    assert lane.service.step() is False
    assert "disk was nearly full" in lane.take(RecordingFinished).info.warnings[0]
    lane.start("next")
    assert lane.take(RecordingFailed).error.code == "storage.full"


def test_a_failed_write_keeps_what_was_recorded_for_the_next_start(
    lane: Lane, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    lane.start()
    RECORDER.instant("precious")
    lane.events.clear()

    def full_disk(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    with monkeypatch.context() as patch:
        patch.setattr("os.fsync", full_disk)
        lane.stop()
    error = lane.take(RecordingFailed).error
    assert error.code == "storage.full"
    assert "next start" in error.unharmed
    again = make_lane(tmp_path / "data")
    assert again.take(RecordingFinished).info.host_events == 1


def test_stopping_what_does_not_run_says_so(lane: Lane) -> None:
    lane.stop("nothing")
    assert lane.take(RecordingFailed).recording_id == "nothing"


def test_quitting_finishes_a_running_recording(lane: Lane) -> None:
    lane.start()
    RECORDER.instant("last")
    lane.events.clear()
    lane.service.close()
    assert lane.take(RecordingFinished).info.host_events == 1


def test_a_foreign_tracer_is_left_alone(lane: Lane, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    lane.record("activate")
    import qbruntime

    owner = types.ModuleType(npu.FOREIGN_OWNERS[0])
    setattr(owner, npu.HANDLE, qbruntime)
    monkeypatch.setitem(sys.modules, npu.FOREIGN_OWNERS[0], owner)
    theirs = tmp_path / "theirs.json"
    assert qbruntime.start_tracing_events(str(theirs))
    lane.start()
    use_the_device(3)
    lane.events.clear()
    lane.stop()
    info = lane.take(RecordingFinished).info
    assert (info.host_events, info.device_events, info.warnings) == (3, 0, (npu.OTHER_OWNER,))
    qbruntime.stop_tracing_events()
    assert theirs.read_text().count("create model") == 6


def test_a_tracer_that_nobody_owns_up_to_is_noticed(lane: Lane, tmp_path: Path) -> None:
    lane.record("activate")
    import qbruntime

    theirs = tmp_path / "theirs.json"
    assert qbruntime.start_tracing_events(str(theirs))
    lane.start()
    lane.events.clear()
    lane.stop()
    assert lane.take(RecordingFinished).info.warnings == (npu.OTHER_OWNER,)
    qbruntime.stop_tracing_events()
    assert theirs.read_text().startswith("[")


def test_a_clock_that_does_not_fit_keeps_the_device_events_apart(
    lane: Lane, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(npu, "relate", lambda _brackets, _spans: None)
    lane.start()
    use_the_device(2)
    lane.events.clear()
    lane.stop()
    info = lane.take(RecordingFinished).info
    assert (info.device_events, info.warnings) == (0, (npu.BAD_CLOCK,))
    kept = Path(info.path).with_suffix(".npu.json")
    assert kept.read_text().count("create model") >= 4
