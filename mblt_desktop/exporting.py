"""Saves a text as a file somebody chose; the writing happens off the GUI thread."""

from __future__ import annotations

import os
import re
from pathlib import Path

from PySide6.QtCore import QObject, QThreadPool, Signal, Slot

from runtime.errors import ErrorInfo, storage_error


class TextWriter(QObject):
    """Writes one file at a time; a former file of that name is replaced only by a whole new one."""

    saved = Signal(str)
    """The path that was written."""
    failed = Signal(object)
    """ErrorInfo."""
    _done = Signal(str, object)

    def __init__(self, unharmed: str, parent: QObject) -> None:
        """`unharmed` is the sentence of a failure about what is still fine."""
        super().__init__(parent)
        self._unharmed = unharmed
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(1)
        self._done.connect(self._on_done)

    def write(self, target: Path, text: str) -> None:
        """Write the text as UTF-8."""
        unharmed = self._unharmed
        self._pool.start(lambda: self._done.emit(str(target), _write(target, text, unharmed)))

    def close(self) -> None:
        """Wait for what is being written."""
        self._pool.waitForDone()

    @Slot(str, object)
    def _on_done(self, path: str, error: ErrorInfo | None) -> None:
        if error is None:
            self.saved.emit(path)
        else:
            self.failed.emit(error)


def file_name(title: str, suffix: str, otherwise: str) -> str:
    """A title as a file name that every file system takes; `otherwise` when nothing of it is left."""
    plain = re.sub(r'[\x00-\x1f/\\:*?"<>|]+', " ", title).strip(" .")
    return f"{plain[:80] or otherwise}{suffix}"


def _write(target: Path, text: str, unharmed: str) -> ErrorInfo | None:
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_text(text, encoding="utf-8", errors="replace", newline="")
        os.replace(part, target)
    except OSError as error:
        part.unlink(missing_ok=True)
        return storage_error(error, str(target), unharmed=unharmed).info
    return None
