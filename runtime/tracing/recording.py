"""One recording from start to finished file, and the recovery of those that were never finished.

While it runs, everything lies in `FOLDER/.unfinished/ID/`: the journal of host events, the device's own file
and a lock. Stopping reads those back, writes `FOLDER/ID.pftrace`, checks it and removes the folder. A killed
program leaves the folder; its lock goes with the process, so the next start can tell and does the same.
"""

from __future__ import annotations

import contextlib
import fcntl
import platform
import shutil
import time
from collections.abc import Iterator
from importlib import metadata as package
from pathlib import Path
from typing import IO

from runtime.config import DeviceChoice
from runtime.errors import DiskFullError, MbltError, StorageError, TraceError, storage_error
from runtime.messages import RecordingInfo, StartRecording
from runtime.tracing import index
from runtime.tracing.check import check_file
from runtime.tracing.clocks import read_clocks
from runtime.tracing.files import free_bytes
from runtime.tracing.journal import JournalWriter, read_journal
from runtime.tracing.merge import merge
from runtime.tracing.npu import BAD_CLOCK, DeviceTrace
from runtime.tracing.recorder import RECORDER
from runtime.tracing.write_pftrace import write_pftrace

UNFINISHED = ".unfinished"
JOURNAL = "journal.jsonl"
DEVICE_FILE = "npu.json"
LOCK = "lock"

LOW_DISK_BYTES = 200 << 20
CLOCK_SECONDS = 10.0
DEVICE_EVENT_BYTES = 81
"""Mean size of an event in the device's file, for the limit of events."""

PACKAGES = (
    "mblt-desktop",
    "mobilint-qb-runtime",
    "transformers-mblt",
    "mblt-npu-python",
    "PySide6-Essentials",
)


class Recording:
    """A running recording; used from the recorder lane only."""

    def __init__(self, command: StartRecording, device: DeviceChoice) -> None:
        """Start recording.

        Raises:
            TraceError: another recording runs, or a limit or the id is not usable.
            StorageError: the folder cannot be written to, or its disk is nearly full.
        """
        folder = Path(command.folder)
        _refuse_bad_start(command, folder)
        self.recording_id = command.recording_id
        self.started_at = time.time()
        self._folder = folder
        self._max_events = command.max_events
        self._deadline = time.monotonic() + command.max_seconds
        self._threads: dict[int, str] = {}
        self._work, lock = _open_work(folder, command.recording_id)
        self._device = DeviceTrace(self._work / DEVICE_FILE)
        self._release = contextlib.ExitStack()
        self._release.callback(lock.close)
        try:
            self._begin(command, device)
        except MbltError:
            self.abandon()
            shutil.rmtree(self._work, ignore_errors=True)
            raise

    def _begin(self, command: StartRecording, device: DeviceChoice) -> None:
        self._release.callback(self._device.stop)
        self._device.start(device)
        self._window = RECORDER.start(max_events=command.max_events, max_seconds=command.max_seconds)
        self._release.callback(RECORDER.stop)
        header = {
            "recording_id": command.recording_id,
            "title": command.title[: index.MAX_TITLE],
            "started_at": self.started_at,
            "start_ns": self._window.start_ns,
            "versions": versions(),
        }
        self._journal = JournalWriter(self._work / JOURNAL, header)
        self._release.callback(self._journal.close)
        self._note_device()
        self._note_threads()
        self._note_clocks()

    def poll(self) -> str | None:
        """Write down what has come in; returns the limit that was reached, if one was.

        Raises:
            StorageError: the disk does not take it.
        """
        self._journal.events(self._window.drain())
        self._note_threads()
        if time.monotonic() >= self._next_clocks:
            self._note_clocks()
        if self._window.limit is not None:
            return self._window.limit
        if time.monotonic() >= self._deadline:
            return "seconds"
        if self._window.count + self._device.size() // DEVICE_EVENT_BYTES >= self._max_events:
            return "events"
        return "disk" if free_bytes(self._folder) < LOW_DISK_BYTES else None

    def finish(self, limit: str | None = None) -> RecordingInfo:
        """Stop, write the file and check it.

        Raises:
            StorageError: the file cannot be written; what was recorded is kept for the next start.
        """
        with self._release:
            stop_ns = RECORDER.stop()
            self._device.stop()
            self._journal.events(self._window.drain())
            self._note_threads()
            self._note_device()
            self._note_clocks()
            reached = limit or self._window.limit
            self._journal.note("stop", {"ns": stop_ns, "limit": reached, "refused": self._window.refused})
            try:
                return finalise(self._work, self._folder)
            except StorageError as error:
                error.unharmed = "What was recorded is kept and will be finished at the next start."
                raise

    def abandon(self) -> None:
        """Stop without writing the file; what was written down so far can be recovered."""
        self._release.close()

    def _note_clocks(self) -> None:
        self._next_clocks = time.monotonic() + CLOCK_SECONDS
        reading = read_clocks()
        self._journal.note("clock", [reading.monotonic, reading.boottime, reading.realtime])

    def _note_threads(self) -> None:
        names = RECORDER.thread_names()
        if names != self._threads:
            self._threads = names
            self._journal.note("threads", names)

    def _note_device(self) -> None:
        device = self._device
        note = {
            "title": device.title,
            "simulated": device.simulated,
            "recorded": bool(device.brackets),
            "warning": device.warning,
            "brackets": device.brackets,
            "thread": device.thread,
        }
        self._journal.note("device", note)


def finalise(work: Path, folder: Path) -> RecordingInfo:
    """Make the recording's file from what `work` holds, check it, then remove `work`.

    Raises:
        TraceError: nothing can be made of it.
        StorageError: the file cannot be written; `work` is kept.
    """
    journal = read_journal(work / JOURNAL)
    trace = merge(journal, work / DEVICE_FILE)
    path = index.recording_path(folder, journal.recording_id)
    write_pftrace(trace, path)
    report = check_file(path)
    if BAD_CLOCK in trace.metadata.warnings:
        shutil.copyfile(work / DEVICE_FILE, path.with_suffix(".npu.json"))
    index.write_beside(path, checked=not report.problems)
    info = index.make_info(path, trace.metadata, checked=not report.problems, problems=report.problems)
    shutil.rmtree(work, ignore_errors=True)
    return info


def recover(folder: Path) -> Iterator[RecordingInfo]:
    """Finish the recordings that a killed program left in `folder`; those of a living one are left alone."""
    unfinished = folder / UNFINISHED
    for work in sorted(unfinished.iterdir()) if unfinished.is_dir() else ():
        try:
            with _locked(work / LOCK):
                yield finalise(work, folder)
        except BlockingIOError:
            continue
        except TraceError:
            # Killed before the first line was written: there is nothing to lose.
            shutil.rmtree(work, ignore_errors=True)


def versions() -> dict[str, str]:
    """The versions that decide what a recording shows."""
    found = {"Python": platform.python_version(), "system": f"{platform.system()} {platform.release()}"}
    for name in PACKAGES:
        with contextlib.suppress(package.PackageNotFoundError):
            found[name] = package.version(name)
    return found


def _refuse_bad_start(command: StartRecording, folder: Path) -> None:
    path = index.recording_path(folder, command.recording_id)
    if RECORDER.active:
        raise TraceError(
            "A recording is already running.",
            remedy="Stop it first, then start a new one.",
            unharmed="The running recording goes on.",
        )
    if command.max_events < 1 or not 0 < command.max_seconds <= 24 * 3600:
        raise TraceError(
            f"A recording of {command.max_events} events and {command.max_seconds} s is not possible.",
            remedy="Set at least one event and up to 86400 s under Settings, Tracing.",
            unharmed="Nothing was recorded.",
        )
    if path.exists():
        raise TraceError(
            f"There already is a recording {path.name}.",
            remedy="Choose another name.",
            unharmed="It is untouched.",
        )
    if free_bytes(folder) < LOW_DISK_BYTES:
        raise DiskFullError(
            f"The disk holding {folder} has less than {LOW_DISK_BYTES >> 20} MB left.",
            remedy="Free some space, then record again.",
            unharmed="Nothing was recorded; everything else goes on.",
        )


def _open_work(folder: Path, recording_id: str) -> tuple[Path, IO[bytes]]:
    work = folder / UNFINISHED / recording_id
    try:
        work.mkdir(parents=True)
        lock = (work / LOCK).open("wb")
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError as error:
        raise storage_error(error, str(work), unharmed="Nothing was recorded.") from error
    return work, lock


@contextlib.contextmanager
def _locked(path: Path) -> Iterator[None]:
    """Hold the lock of an unfinished recording; raises BlockingIOError when its program still lives."""
    with path.open("ab") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield
