"""Files that appear only when they are complete, and the room there is for them."""

from __future__ import annotations

import contextlib
import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import IO

from runtime.errors import storage_error

Checkpoint = Callable[[], None]
"""Called every now and then during long work; raises to stop it."""


@contextlib.contextmanager
def written_whole(path: Path) -> Iterator[IO[bytes]]:
    """A binary file that replaces `path` when the block ends well, and leaves nothing behind otherwise.

    Raises:
        StorageError: the file cannot be written.
    """
    part = path.with_name(f".{path.name}.part")
    try:
        try:
            with part.open("wb", buffering=1 << 20) as file:
                yield file
                file.flush()
                os.fsync(file.fileno())
            part.replace(path)
        except OSError as error:
            raise storage_error(
                error, str(path), unharmed="A file that was there before is untouched."
            ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)


def free_bytes(folder: Path) -> int:
    """Room left on the disk that holds `folder`, which may not exist yet."""
    while not folder.exists() and folder != folder.parent:
        folder = folder.parent
    return shutil.disk_usage(folder).free
