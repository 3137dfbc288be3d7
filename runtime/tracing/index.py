"""The folder of recordings: what is in it, titles, removal with a way back.

Each `.pftrace` says everything about itself, so the list survives anything the files survive. Only what a
person changed afterwards lies beside it, in `NAME.pftrace.info`: the title, and whether the file passed its
check when it was written.
"""

from __future__ import annotations

import contextlib
import json
import re
import shutil
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

from runtime.errors import MbltError, TraceError, storage_error
from runtime.messages import RecordingInfo
from runtime.tracing.assemble import FOREIGN
from runtime.tracing.model import Metadata
from runtime.tracing.read import read_metadata

SUFFIX = ".pftrace"
TRASH = ".trash"
KEEP_SECONDS = 24 * 3600
MAX_TITLE = 200

_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,99}")


def recording_path(folder: Path, recording_id: str) -> Path:
    """Where the recording of that id lies.

    Raises:
        TraceError: the id would not make a safe file name.
    """
    if not _ID.fullmatch(recording_id):
        raise TraceError(
            f"“{recording_id[:100]}” cannot be the name of a recording.",
            remedy="Use letters, digits, dots and dashes.",
            unharmed="Nothing was recorded.",
        )
    return folder / f"{recording_id}{SUFFIX}"


def make_info(
    path: Path, metadata: Metadata, *, checked: bool, problems: tuple[str, ...] = ()
) -> RecordingInfo:
    """The list's row for a file."""
    return RecordingInfo(
        recording_id=path.stem,
        path=str(path),
        title=metadata.title,
        started_at=metadata.started_at,
        duration=metadata.duration_ns / 1e9,
        host_events=metadata.host_events,
        device_events=metadata.device_events,
        simulated=metadata.simulated,
        bytes=path.stat().st_size,
        warnings=(*metadata.warnings, *problems),
        device=metadata.device,
        checked=checked,
    )


def list_recordings(folder: Path) -> tuple[list[RecordingInfo], str]:
    """Every recording in `folder`, newest first, and what could not be read, in words.

    Raises:
        StorageError: the folder cannot be read.
    """
    rows = []
    unread = []
    try:
        paths = [path for path in folder.glob(f"*{SUFFIX}") if not path.name.startswith(".")]
    except OSError as error:
        raise storage_error(error, str(folder)) from error
    for path in paths:
        try:
            rows.append(read_info(path))
        except (MbltError, OSError):
            unread.append(path.name)
    rows.sort(key=lambda row: (row.started_at, row.recording_id), reverse=True)
    notice = f"Could not be read: {', '.join(sorted(unread))}." if unread else ""
    return rows, notice


def read_info(path: Path) -> RecordingInfo:
    """The row of one recording, from the file itself and what lies beside it.

    Raises:
        StorageError: the file cannot be read.
    """
    metadata = read_metadata(path)
    if metadata is None:
        # Analysing it would tell more, but a list must be quick.
        modified = path.stat().st_mtime
        metadata = Metadata(path.stem, path.name, modified, 0, 0, warnings=(FOREIGN,))
    beside = _read_beside(path)
    info = make_info(path, metadata, checked=beside.get("checked") is True)
    title = beside.get("title")
    return replace(info, title=title) if isinstance(title, str) and title else info


def write_beside(path: Path, **changes: Any) -> None:
    """Keep `title` or `checked` beside the recording.

    Raises:
        StorageError: the folder cannot be written to.
    """
    beside = _beside(path)
    part = beside.with_name(f".{beside.name}.part")
    try:
        part.write_text(json.dumps({**_read_beside(path), **changes}, ensure_ascii=False), encoding="utf-8")
        part.replace(beside)
    except OSError as error:
        raise storage_error(error, str(beside), unharmed="The recording itself is unharmed.") from error


def rename(path: Path, title: str) -> None:
    """Give the recording another title.

    Raises:
        TraceError: the title is empty, or the recording is gone.
    """
    _require(path)
    words = " ".join(title.split())[:MAX_TITLE]
    if not words:
        raise TraceError(
            "A recording needs a title.",
            remedy="Type at least one letter.",
            unharmed="The old title was kept.",
        )
    write_beside(path, title=words)


def remove(path: Path) -> None:
    """Move the recording out of the list; `restore` brings it back within a day."""
    _require(path)
    trash = path.parent / TRASH
    try:
        trash.mkdir(exist_ok=True)
        _move(path, trash)
        (trash / path.name).touch()
    except OSError as error:
        raise storage_error(error, str(path), unharmed="The recording was kept.") from error


def restore(path: Path) -> None:
    """Bring a removed recording back to `path`."""
    kept = path.parent / TRASH / path.name
    if path.exists() or not kept.exists():
        raise TraceError(
            f"{path.name} cannot be brought back any more.",
            remedy="What was deleted is kept for a day; make a new recording.",
        )
    try:
        _move(kept, path.parent)
    except OSError as error:
        raise storage_error(error, str(path), unharmed="The recording is kept in the trash.") from error


def empty_trash(folder: Path) -> None:
    """Delete for good what was removed more than a day ago."""
    with contextlib.suppress(OSError):
        for path in (folder / TRASH).glob("*"):
            if time.time() - path.stat().st_mtime > KEEP_SECONDS:
                path.unlink()


def free_path(folder: Path, stem: str) -> Path:
    """A recording's path in `folder` that no file has yet, close to the wanted name."""
    safe = re.sub(r"[^A-Za-z0-9._-]+", "-", stem).strip(".-")[:80] or "recording"
    path = recording_path(folder, safe)
    number = 2
    while path.exists() or (folder / TRASH / path.name).exists():
        path = recording_path(folder, f"{safe}-{number}")
        number += 1
    return path


def _move(path: Path, folder: Path) -> None:
    beside = _beside(path)
    if beside.exists():
        shutil.move(beside, folder / beside.name)
    shutil.move(path, folder / path.name)


def _beside(path: Path) -> Path:
    return path.with_name(f"{path.name}.info")


def _read_beside(path: Path) -> dict[str, Any]:
    try:
        value = json.loads(_beside(path).read_text(encoding="utf-8"))
    except (OSError, ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


def _require(path: Path) -> None:
    if path.suffix != SUFFIX or not path.is_file():
        raise TraceError(
            f"The recording {path.name} is not there any more.",
            remedy="Refresh the list.",
            unharmed="The other recordings are unharmed.",
        )
