"""Reads a recording back from disk: this program's own files exactly, others as far as they go.

A file is data from anywhere: sizes are limited, cut files give what they hold, and nothing in them is
followed or run. `read_trace` looks at the content, not at the name.
"""

from __future__ import annotations

import gzip
import zlib
from pathlib import Path
from typing import Final

from runtime.errors import TraceError, storage_error
from runtime.plain_files import open_plain
from runtime.tracing.files import Checkpoint
from runtime.tracing.model import Metadata, Trace
from runtime.tracing.read_chrome import read_chrome
from runtime.tracing.read_pftrace import find_about, read_pftrace

MAX_BYTES: Final = 512 << 20
"""Largest file read, after unpacking."""
HEAD_BYTES: Final = 1 << 20
"""A recording's note about itself is found within these."""

_GZIP = b"\x1f\x8b"
_REMEDY = "Choose a .pftrace, .json or .json.gz file made by this program, by qbruntime or by Chrome."


def read_trace(path: Path, checkpoint: Checkpoint = lambda: None) -> Trace:
    """Read a whole recording.

    Raises:
        TraceError: the file is no trace, is too large, or holds nothing.
        StorageError: the file cannot be read.
    """
    data = _content(path)
    if not data.strip():
        raise TraceError(f"{path.name} is empty.", remedy=_REMEDY, unharmed="The file is unchanged.")
    if data.lstrip()[:1] in (b"[", b"{") or data.startswith((b"\xef\xbb\xbf", b"\xff\xfe", b"\xfe\xff")):
        return read_chrome(data, path, checkpoint)
    return read_pftrace(data, path, checkpoint)


def read_metadata(path: Path) -> Metadata | None:
    """What a `.pftrace` of this program says about itself, from its first bytes; None for any other file.

    Raises:
        StorageError: the file cannot be read.
    """
    try:
        with open_plain(path) as file:
            about = find_about(file.read(HEAD_BYTES))
    except OSError as error:
        raise storage_error(error, str(path)) from error
    return about.metadata if about is not None else None


def _content(path: Path) -> bytes:
    try:
        with open_plain(path) as file:
            data = file.read(MAX_BYTES + 1)
        if data.startswith(_GZIP):
            with gzip.open(path) as packed:
                data = packed.read(MAX_BYTES + 1)
    except (EOFError, zlib.error, gzip.BadGzipFile) as error:
        raise TraceError(
            f"{path.name} is a damaged or cut gzip file.",
            remedy="Export the recording again.",
            unharmed="The file is unchanged.",
            detail=f"{type(error).__name__}: {error}",
        ) from error
    except OSError as error:
        raise storage_error(error, str(path)) from error
    if len(data) > MAX_BYTES:
        raise TraceError(
            f"{path.name} holds more than {MAX_BYTES >> 20} MB, which is more than this view can show.",
            remedy="Open it in Perfetto instead.",
            unharmed="The file is unchanged.",
        )
    return data
