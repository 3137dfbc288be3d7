"""What the program's files take on the disk, and giving back what can be fetched again."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

from runtime.config import RuntimeConfig
from runtime.errors import storage_error


def bytes_below(path: Path) -> int:
    """Bytes of a file, or of all files below a folder; 0 when there is none. Links are not followed."""
    total = 0
    waiting = [path]
    while waiting:
        place = waiting.pop()
        try:
            if place.is_dir() and not place.is_symlink():
                waiting.extend(Path(entry.path) for entry in os.scandir(place))
            else:
                total += place.lstat().st_size
        except OSError:  # gone meanwhile, or not ours to look into
            continue
    return total


def clear_downloads(config: RuntimeConfig) -> int:
    """Delete what downloads left behind; returns the bytes freed.

    Raises DownloadError while models are being installed, StorageError when the disk refuses.
    """
    from runtime.catalog.library import Library

    library = Library(config)
    before = bytes_below(config.downloads_dir)
    try:
        with library.locked():
            for entry in list(config.downloads_dir.iterdir()):
                if entry.is_dir() and not entry.is_symlink():
                    shutil.rmtree(entry)
                else:
                    entry.unlink()
    except OSError as error:
        raise storage_error(
            error, str(config.downloads_dir), unharmed="Installed models are unharmed."
        ) from error
    return before


def clear_kept_caches(config: RuntimeConfig) -> int:
    """Delete the caches of conversations; returns the bytes freed. Raises StorageError if that fails."""
    before = bytes_below(config.kv_dir)
    try:
        shutil.rmtree(config.kv_dir)
    except FileNotFoundError:  # cleared already, or just replaced by a model that is writing
        pass
    except OSError as error:
        raise storage_error(
            error, str(config.kv_dir), unharmed="Conversations are unharmed; they are read again."
        ) from error
    return before
