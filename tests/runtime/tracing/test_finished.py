"""Finished recordings: the list, titles, removing with undo, exports, analysis and imports."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.messages import (
    AnalyseRecording,
    Cancelled,
    Exported,
    ExportRecording,
    Failed,
    ImportRecording,
    ListRecordings,
    RecordingAnalysed,
    RecordingFinished,
    RecordingsListed,
    RemoveRecording,
    RenameRecording,
    RestoreRecording,
)
from runtime.tracing import index
from tests.perfetto import PROBLEMS, perfetto_query
from tests.runtime.tracing.recorder_lane import Lane, make_lane
from tests.runtime.tracing.recordings import write_device_file


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
