"""The recorder lane: starts and stops recordings, and exports, analyses and lists finished ones."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from runtime.config import RuntimeConfig
from runtime.errors import MbltError, TraceError, storage_error, to_info
from runtime.lanes.lane import CancelMarks, Post
from runtime.messages import (
    AnalyseRecording,
    Cancelled,
    Command,
    Exported,
    ExportRecording,
    Failed,
    ImportRecording,
    LaneFaulted,
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
from runtime.tracing import index
from runtime.tracing.check import check_trace
from runtime.tracing.files import Checkpoint
from runtime.tracing.read import read_trace
from runtime.tracing.recorder import RECORDER
from runtime.tracing.recording import Recording, recover
from runtime.tracing.view import make_view
from runtime.tracing.write_chrome import write_chrome
from runtime.tracing.write_pftrace import write_pftrace

POLL_SECONDS = 0.1
"""How often a running recording is written down; also the longest a Stop waits before it is seen."""


class _CancelledError(Exception):
    """The request was cancelled."""


class RecorderService:
    """See `runtime.lanes.lane.Service`."""

    def __init__(self, config: RuntimeConfig, post: Post, marks: CancelMarks) -> None:
        self._config = config
        self._post = post
        self._marks = marks
        self._recording: Recording | None = None
        self._ended: set[str] = set()
        """Ids that ended by themselves; their Stop comes too late and is no fault."""

    def open(self) -> None:
        """Finish what a killed program left behind."""
        RECORDER.name_thread("Recorder")
        folder = self._config.recordings_dir
        index.empty_trash(folder)
        try:
            for info in recover(folder):
                self._post(RecordingFinished(info))
        except (MbltError, OSError) as error:
            # Recovery is tried again at the next start; recording works without it.
            self._post(LaneFaulted("recorder", to_info(error)))

    def handle(self, command: Command) -> None:
        """Do one command; a long one looks at its cancel mark as it goes."""
        match command:
            case StartRecording():
                self._start(command)
            case StopRecording():
                self._stop(command)
            case ExportRecording(request_id=request):
                self._job(request, lambda: self._export(command))
            case AnalyseRecording(request_id=request):
                self._job(request, lambda: self._analyse(command))
            case ImportRecording(request_id=request):
                self._job(request, lambda: self._import(command))
            case ListRecordings(folder=folder):
                self._job("", lambda: self._list(Path(folder)))
            case RenameRecording(path=path, title=title):
                self._change(path, lambda: index.rename(Path(path), title))
            case RemoveRecording(path=path):
                self._change(path, lambda: index.remove(Path(path)))
            case RestoreRecording(path=path):
                self._change(path, lambda: index.restore(Path(path)))

    def step(self) -> bool:
        """Write a running recording down and end it at its limits; True while one runs."""
        recording = self._recording
        if recording is None:
            return False
        time.sleep(POLL_SECONDS)
        try:
            limit = recording.poll()
        except MbltError as error:
            self._lose(recording, error)
            return False
        if limit is not None:
            self._finish(recording, limit)
        return self._recording is not None

    def close(self) -> None:
        """Finish a running recording, so that quitting loses nothing."""
        if self._recording is not None:
            self._finish(self._recording, None)

    # -- recording -------------------------------------------------------------------------------

    def _start(self, command: StartRecording) -> None:
        try:
            self._recording = Recording(command, self._config.device)
        except Exception as error:  # noqa: BLE001 - the top of the job; the fault is shown
            self._post(RecordingFailed(command.recording_id, to_info(error)))
        else:
            self._post(RecordingStarted(command.recording_id, self._recording.started_at))

    def _stop(self, command: StopRecording) -> None:
        recording = self._recording
        if recording is not None and recording.recording_id == command.recording_id:
            self._finish(recording, None)
        elif command.recording_id not in self._ended:
            error = TraceError(
                "There is no such recording to stop.",
                remedy="Look in the list: it may have ended by itself.",
                unharmed="Finished recordings are unharmed.",
            )
            self._post(RecordingFailed(command.recording_id, error.info))

    def _finish(self, recording: Recording, limit: str | None) -> None:
        self._recording = None
        self._ended.add(recording.recording_id)
        try:
            self._post(RecordingFinished(recording.finish(limit)))
        except Exception as error:  # noqa: BLE001 - the top of the job; the fault is shown
            self._post(RecordingFailed(recording.recording_id, to_info(error)))

    def _lose(self, recording: Recording, error: MbltError) -> None:
        """The disk takes no more: stop, and leave what is there for the next start."""
        self._recording = None
        self._ended.add(recording.recording_id)
        recording.abandon()
        self._post(RecordingFailed(recording.recording_id, error.info))

    # -- finished ones ---------------------------------------------------------------------------

    def _job(self, request_id: str, work: Callable[[], Any]) -> None:
        try:
            self._post(work())
        except _CancelledError:
            self._post(Cancelled(request_id))
        except Exception as error:  # noqa: BLE001 - the top of the job; the fault is shown
            self._post(Failed(request_id, to_info(error)))
        finally:
            self._marks.clear(request_id)

    def _checkpoint(self, request_id: str) -> Checkpoint:
        def look() -> None:
            if self._marks.is_cancelled(request_id):
                raise _CancelledError

        return look

    def _export(self, command: ExportRecording) -> Exported:
        export(Path(command.source), Path(command.target), self._checkpoint(command.request_id))
        return Exported(command.request_id, command.target)

    def _analyse(self, command: AnalyseRecording) -> RecordingAnalysed:
        checkpoint = self._checkpoint(command.request_id)
        view = make_view(read_trace(Path(command.path), checkpoint), checkpoint)
        return RecordingAnalysed(command.request_id, command.path, view)

    def _import(self, command: ImportRecording) -> RecordingFinished:
        source, folder = Path(command.source), Path(command.folder)
        trace = read_trace(source, self._checkpoint(command.request_id))
        report = check_trace(trace)
        try:
            folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            raise storage_error(error, str(folder)) from error
        path = index.free_path(folder, f"{source.name.split('.')[0]}-{uuid.uuid4().hex[:6]}")
        write_pftrace(trace, path, self._checkpoint(command.request_id))
        index.write_beside(path, checked=not report.problems)
        info = index.make_info(path, trace.metadata, checked=not report.problems, problems=report.problems)
        return RecordingFinished(info)

    def _list(self, folder: Path) -> RecordingsListed:
        rows, notice = index.list_recordings(folder)
        return RecordingsListed(str(folder), tuple(rows), notice)

    def _change(self, path: str, change: Callable[[], None]) -> None:
        def work() -> RecordingsListed:
            change()
            return self._list(Path(path).parent)

        self._job("", work)


def export(source: Path, target: Path, checkpoint: Checkpoint = lambda: None) -> None:
    """Write `source` as the format that the name of `target` asks for.

    Raises:
        TraceError: the name asks for no known format, or `source` cannot be read.
        StorageError: a file cannot be read or written.
    """
    name = target.name.lower()
    if target.resolve() == source.resolve():
        raise TraceError(
            f"{target.name} is the recording itself.",
            remedy="Choose another name or folder.",
            unharmed="The recording is unharmed.",
        )
    if name.endswith(index.SUFFIX):
        write_pftrace(read_trace(source, checkpoint), target, checkpoint)
    elif name.endswith((".json", ".json.gz")):
        write_chrome(read_trace(source, checkpoint), target, checkpoint)
    else:
        raise TraceError(
            f"{target.name} does not say which format to export.",
            remedy="Let the name end in .pftrace, .json or .json.gz.",
            unharmed="The recording is unharmed.",
        )
