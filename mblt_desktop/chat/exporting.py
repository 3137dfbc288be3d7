"""Saves a conversation as a file somebody chose; the writing happens off the GUI thread."""

from __future__ import annotations

import os
import re
from pathlib import Path

from PySide6.QtCore import QObject, QThreadPool, Signal, Slot

from mblt_desktop.store.export import to_json, to_markdown
from mblt_desktop.store.records import Conversation
from mblt_desktop.store.tree import MessageTree
from runtime.errors import ErrorInfo, storage_error


class Exporter(QObject):
    """Writes one file at a time; a former file of that name is replaced only by a whole new one."""

    saved = Signal(str)
    """The path that was written."""
    failed = Signal(object)
    """ErrorInfo."""
    _done = Signal(str, object)

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(1)
        self._done.connect(self._on_done)

    def export(self, conversation: Conversation, tree: MessageTree, target: Path) -> None:
        """Write the conversation as its name says: .json with every branch, else Markdown."""
        make = to_json if target.suffix.lower() == ".json" else to_markdown
        text = make(conversation, tree)
        self._pool.start(lambda: self._done.emit(str(target), _write(target, text)))

    def close(self) -> None:
        """Wait for what is being written."""
        self._pool.waitForDone()

    @Slot(str, object)
    def _on_done(self, path: str, error: ErrorInfo | None) -> None:
        if error is None:
            self.saved.emit(path)
        else:
            self.failed.emit(error)


def file_name(title: str, suffix: str) -> str:
    """A conversation's title as a file name that every file system takes."""
    plain = re.sub(r'[\x00-\x1f/\\:*?"<>|]+', " ", title).strip(" .")
    return f"{plain[:80] or 'chat'}{suffix}"


def _write(target: Path, text: str) -> ErrorInfo | None:
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_text(text, encoding="utf-8")
        os.replace(part, target)
    except OSError as error:
        part.unlink(missing_ok=True)
        return storage_error(error, str(target), unharmed="The conversation is unharmed.").info
    return None
