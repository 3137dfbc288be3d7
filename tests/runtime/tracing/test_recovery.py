"""What a killed program leaves behind becomes a recording at the next start."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import textwrap
from pathlib import Path

from runtime.messages import RecordingFinished
from runtime.tracing import merge, recording
from runtime.tracing.recorder import RECORDER
from tests.perfetto import PROBLEMS, perfetto_query
from tests.runtime.tracing.recorder_lane import Lane, make_lane

KILLED = """
import os, signal, sys, time
from pathlib import Path
from runtime.config import RuntimeConfig
from runtime.lanes.lane import CancelMarks
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
