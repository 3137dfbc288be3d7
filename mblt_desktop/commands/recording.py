"""`--trace OUT`: record a command's work, shared by the commands that offer it."""

from __future__ import annotations

import errno
import os
import shutil
import tempfile
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from mblt_desktop.session import Session
from runtime.config import RuntimeConfig
from runtime.errors import SettingError, storage_error
from runtime.messages import (
    Exported,
    ExportRecording,
    RecordingFinished,
    RecordingStarted,
    StartRecording,
    StopRecording,
)

SUFFIXES = (".pftrace", ".json", ".json.gz")


@contextmanager
def recorded(session: Session, config: RuntimeConfig, target: Path | None) -> Iterator[None]:
    """Record what the block does into `target`; without a target, do nothing."""
    if target is None:
        yield
        return
    _require_writable(target)
    recording_id = uuid.uuid4().hex
    with tempfile.TemporaryDirectory(prefix="mblt-trace-") as folder:
        session.submit(StartRecording(recording_id, target.stem, folder))
        session.wait_for(RecordingStarted)
        yield
        session.submit(StopRecording(recording_id))
        source = session.wait_for(RecordingFinished).info.path
        if target.name.endswith(".pftrace"):
            try:
                shutil.copyfile(source, target)
            except OSError as error:
                raise storage_error(error, str(target)) from error
        else:
            session.submit(ExportRecording(recording_id, source, str(target)))
            session.wait_for(Exported)


def _require_writable(target: Path) -> None:
    """Say before the work what would lose its trace after it."""
    if not target.name.endswith(SUFFIXES):
        raise SettingError(
            "--trace",
            f"A trace cannot be written as {target.name}.",
            remedy=f"Name it with one of these endings: {', '.join(SUFFIXES)}.",
        )
    try:
        with tempfile.TemporaryFile(dir=target.parent):
            pass
        if target.is_dir():
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
    except OSError as error:
        raise storage_error(error, str(target), unharmed="Nothing was started.") from error
