"""The recorder lane: start, stop, limits, recovery after a kill, and the list."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
import threading
import types
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import TypeVar

import pytest

from runtime.config import RuntimeConfig
from runtime.lane import CancelMarks
from runtime.messages import (
    AnalyseRecording,
    Cancelled,
    Event,
    Exported,
    ExportRecording,
    Failed,
    ImportRecording,
    ListRecordings,
    RecordingAnalysed,
    RecordingFailed,
    RecordingFinished,
    RecordingsListed,
    RecordingStarted,
    RemoveRecording,
    RenameRecording,
    RestoreRecording,
    StartRecording,
    StopRecording,
)
from runtime.tracing import index, merge, npu, recording
from runtime.tracing.read import read_trace
from runtime.tracing.recorder import RECORDER
from runtime.tracing.service import RecorderService
from tests.perfetto import PROBLEMS, UNFINISHED, perfetto_query
from tests.runtime.tracing.recordings import write_device_file

EventT = TypeVar("EventT")


@dataclass
class Lane:
    """The service with what it posted."""

    service: RecorderService
    marks: CancelMarks
    folder: Path
    events: list[Event] = field(default_factory=list)

    def start(self, recording_id: str = "rec", **limits: float) -> None:
        self.service.handle(StartRecording(recording_id, "A title", str(self.folder), **limits))  # type: ignore[arg-type]

    def stop(self, recording_id: str = "rec") -> None:
        self.service.handle(StopRecording(recording_id))

    def take(self, kind: type[EventT]) -> EventT:
        """The only event so far, of that kind."""
        (event,) = self.events
        self.events.clear()
        assert isinstance(event, kind), event
        return event

    def record(self, recording_id: str = "rec") -> Path:
        """A small finished recording."""
        self.start(recording_id)
        with RECORDER.span("decode step"):
            pass
        self.stop(recording_id)
        self.events.clear()
        return self.folder / f"{recording_id}.pftrace"


def make_lane(data: Path) -> Lane:
    config = RuntimeConfig(data, "simulated")
    marks = CancelMarks()
    events: list[Event] = []
    service = RecorderService(config, events.append, marks)
    service.open()
    return Lane(service, marks, config.recordings_dir, events)


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[Lane]:
    made = make_lane(tmp_path / "data")
    yield made
    made.service.close()


def use_the_device(times: int) -> None:
    """Calls that the runtime traces, from a thread of their own."""
    import qbruntime

    def work() -> None:
        RECORDER.name_thread("Chat engine")
        for number in range(times):
            with RECORDER.span("decode step", token=number), pytest.raises(qbruntime.QbRuntimeError):
                qbruntime.Model("/nonexistent/model.mxq")

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()


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


KILLED = """
import os, signal, sys, time
from pathlib import Path
from runtime.config import RuntimeConfig
from runtime.lane import CancelMarks
from runtime.messages import StartRecording
from runtime.tracing.recorder import RECORDER
from runtime.tracing.service import RecorderService
config = RuntimeConfig(Path(sys.argv[1]), "simulated")
service = RecorderService(config, lambda event: None, CancelMarks())
service.open()
service.handle(StartRecording("killed", "Killed", str(config.recordings_dir)))
assert "torch" not in sys.modules and "transformers" not in sys.modules
RECORDER.name_thread("Chat engine")
for number in range(1000):
    with RECORDER.span("decode step", token=number):
        pass
service.step()
print("flushed", flush=True)
time.sleep(60)
"""


def start_doomed(data: Path) -> subprocess.Popen[str]:
    """Another program that records, in the middle of it."""
    command = [sys.executable, "-c", textwrap.dedent(KILLED), str(data)]
    process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "flushed\n"
    process.stdout.close()
    return process


def test_after_a_kill_the_next_start_finishes_the_recording(tmp_path: Path) -> None:
    process = start_doomed(tmp_path)
    process.send_signal(signal.SIGKILL)
    process.wait()
    lane = make_lane(tmp_path)
    info = lane.take(RecordingFinished).info
    assert (info.recording_id, info.title, info.host_events) == ("killed", "Killed", 1000)
    assert merge.RECOVERED in info.warnings
    assert list((lane.folder / recording.UNFINISHED).iterdir()) == []
    problems, count = perfetto_query(
        Path(info.path), PROBLEMS, "select count(*) as n from slice where name = 'decode step'"
    )
    assert (problems, count) == ([], [{"n": 1000}])


def test_the_recording_of_a_living_program_is_left_alone(tmp_path: Path) -> None:
    process = start_doomed(tmp_path)
    try:
        lane = make_lane(tmp_path)
        assert lane.events == []
        assert (lane.folder / recording.UNFINISHED / "killed").is_dir()
    finally:
        process.kill()
        process.wait()


def test_a_journal_cut_in_a_line_gives_the_whole_lines(lane: Lane, tmp_path: Path) -> None:
    lane.start()
    for _ in range(10):
        RECORDER.instant("tick")
    lane.service.step()
    lane.service._recording.abandon()  # type: ignore[union-attr]
    lane.service._recording = None
    (work,) = (lane.folder / recording.UNFINISHED).iterdir()
    journal = work / recording.JOURNAL
    os.truncate(journal, journal.stat().st_size - 9)
    (info,) = recording.recover(lane.folder)
    assert info.host_events == 9


def test_an_unfinished_recording_without_a_header_is_cleared_away(lane: Lane) -> None:
    work = lane.folder / recording.UNFINISHED / "nothing"
    work.mkdir(parents=True)
    (work / recording.JOURNAL).write_text('{"header"')
    assert list(recording.recover(lane.folder)) == []
    assert not work.exists()


# -- finished recordings ---------------------------------------------------------------------------


def test_the_list_survives_the_loss_of_everything_but_the_files(lane: Lane) -> None:
    lane.record("one")
    lane.record("two")
    lane.service.handle(RenameRecording(str(lane.folder / "one.pftrace"), "  Sea and\n tides "))
    rows = lane.take(RecordingsListed).rows
    assert [(row.recording_id, row.title, row.checked) for row in rows] == [
        ("two", "A title", True),
        ("one", "Sea and tides", True),
    ]
    for beside in lane.folder.glob("*.info"):
        beside.write_text("{ damaged")
    lane.service.handle(ListRecordings(str(lane.folder)))
    rows = lane.take(RecordingsListed).rows
    assert [(row.recording_id, row.title, row.host_events) for row in rows] == [
        ("two", "A title", 1),
        ("one", "A title", 1),
    ]


def test_a_folder_that_is_not_there_lists_nothing(lane: Lane) -> None:
    lane.service.handle(ListRecordings(str(lane.folder / "missing")))
    assert lane.take(RecordingsListed).rows == ()


def test_removing_can_be_undone(lane: Lane) -> None:
    path = lane.record("one")
    lane.service.handle(RenameRecording(str(path), "Kept title"))
    lane.events.clear()
    lane.service.handle(RemoveRecording(str(path)))
    assert lane.take(RecordingsListed).rows == ()
    lane.service.handle(RestoreRecording(str(path)))
    (row,) = lane.take(RecordingsListed).rows
    assert (row.title, row.checked) == ("Kept title", True)


def test_what_was_removed_long_ago_is_deleted_at_the_next_start(lane: Lane, tmp_path: Path) -> None:
    path = lane.record("one")
    lane.service.handle(RemoveRecording(str(path)))
    kept = lane.folder / index.TRASH / path.name
    index.empty_trash(lane.folder)
    assert kept.exists()
    os.utime(kept, (0, 0))
    make_lane(tmp_path / "data")
    assert not kept.exists()


@pytest.mark.parametrize("title", ["", "  \n "])
def test_an_empty_title_is_refused(lane: Lane, title: str) -> None:
    path = lane.record("one")
    lane.service.handle(RenameRecording(str(path), title))
    assert "needs a title" in lane.take(Failed).error.summary


def test_changes_to_what_is_no_recording_are_refused(lane: Lane, tmp_path: Path) -> None:
    other = tmp_path / "letter.txt"
    other.write_text("dear")
    lane.service.handle(RemoveRecording(str(other)))
    assert lane.take(Failed).error.code == "trace"
    assert other.exists()


@pytest.mark.parametrize("name", ["out.json", "out.json.gz", "out.pftrace", "OUT.JSON"])
def test_exports_go_where_they_should(lane: Lane, tmp_path: Path, name: str) -> None:
    path = lane.record()
    lane.service.handle(ExportRecording("job", str(path), str(tmp_path / name)))
    assert lane.take(Exported).path == str(tmp_path / name)
    assert perfetto_query(tmp_path / name, PROBLEMS) == [[]]


def test_an_export_over_the_recording_or_without_a_format_is_refused(lane: Lane, tmp_path: Path) -> None:
    path = lane.record()
    before = path.read_bytes()
    lane.service.handle(ExportRecording("job", str(path), str(path)))
    assert "recording itself" in lane.take(Failed).error.summary
    lane.service.handle(ExportRecording("job", str(path), str(tmp_path / "out.txt")))
    assert ".json.gz" in lane.take(Failed).error.remedy
    assert path.read_bytes() == before


def test_an_export_can_be_cancelled(lane: Lane, tmp_path: Path) -> None:
    path = lane.record()
    lane.marks.cancel("job")
    lane.service.handle(ExportRecording("job", str(path), str(tmp_path / "out.json")))
    assert lane.take(Cancelled).request_id == "job"
    assert not (tmp_path / "out.json").exists()
    assert not lane.marks.is_cancelled("job")


def test_analysing_gives_columns(lane: Lane) -> None:
    path = lane.record()
    lane.service.handle(AnalyseRecording("job", str(path)))
    view = lane.take(RecordingAnalysed).view
    assert view.names == ("decode step",)
    assert view.count == 1


def test_a_file_of_the_npu_runtime_can_be_imported(lane: Lane, tmp_path: Path) -> None:
    source = write_device_file(tmp_path / "npu trace.json", [("B", "infer", 7, 1), ("E", "infer", 7, 9)])
    lane.service.handle(ImportRecording("job", str(source), str(lane.folder)))
    info = lane.take(RecordingFinished).info
    assert (info.title, info.device_events) == ("npu trace.json", 1)
    assert Path(info.path).parent == lane.folder
    assert perfetto_query(Path(info.path), PROBLEMS) == [[]]


def test_importing_what_is_no_trace_leaves_no_file(lane: Lane, tmp_path: Path) -> None:
    source = tmp_path / "picture.json"
    source.write_bytes(b"\x89PNG")
    lane.service.handle(ImportRecording("job", str(source), str(lane.folder)))
    assert "picture.json" in lane.take(Failed).error.summary
    assert not list(lane.folder.glob("*.pftrace"))


def test_a_stray_file_among_the_recordings_is_told_and_harms_nothing(lane: Lane) -> None:
    lane.record("one")
    (lane.folder / "stray.pftrace").write_bytes(b"no trace")
    (lane.folder / "folder.pftrace").mkdir()
    lane.service.handle(ListRecordings(str(lane.folder)))
    listed = lane.take(RecordingsListed)
    assert {row.recording_id for row in listed.rows} == {"one", "stray"}
    assert "folder.pftrace" in listed.notice
