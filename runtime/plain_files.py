"""Opening what somebody named or dropped, which may be a pipe that nobody writes to."""

from __future__ import annotations

import errno
import os
import stat
from pathlib import Path
from typing import BinaryIO


def open_plain(path: Path) -> BinaryIO:
    """Open a file for reading, and never wait for it. Raises OSError, for a pipe or a device too."""
    return open(path, "rb", opener=_plain)


def _plain(path: str, flags: int) -> int:
    descriptor = os.open(path, flags | os.O_NONBLOCK)
    kind = os.fstat(descriptor).st_mode
    if stat.S_ISREG(kind) or stat.S_ISDIR(kind):  # for a folder Python has its own error
        return descriptor
    os.close(descriptor)
    raise OSError(errno.EINVAL, "It is not a file", path)
