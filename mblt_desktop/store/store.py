"""The store as the window sees it: three collections, one writer, and what went wrong, in words."""

from __future__ import annotations

import sqlite3
import uuid
from collections.abc import Callable
from pathlib import Path
from typing import Any

from PySide6.QtCore import QObject, Signal, Slot

from mblt_desktop.store.conversations import Conversations
from mblt_desktop.store.database import Database, Writer
from mblt_desktop.store.images import Images
from mblt_desktop.store.rounds import ImageRounds
from mblt_desktop.store.transcripts import Transcripts
from runtime.errors import ErrorInfo, to_info


class Store(QObject):
    """Open for as long as the window lives. Everything on it is called from the GUI thread."""

    write_failed = Signal(object)
    """ErrorInfo: a change could not be saved yet, or was dropped."""
    write_recovered = Signal()
    """What could not be saved is saved now."""
    # Emitted on the writer's thread; the slots below bring them into the GUI thread.
    _failed = Signal(object)
    _recovered = Signal()
    _answered = Signal(str, object, object)

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._database = Database(path)
        self.problem: ErrorInfo | None = self._database.problem
        """What had to be done to open the file, or None when all was well."""
        self._writer = Writer(self._database.path, self._failed.emit, self._recovered.emit)
        self._waiting: dict[str, Callable[[Any], None]] = {}
        self._failed.connect(self._on_failed)
        self._recovered.connect(self._on_recovered)
        self._answered.connect(self._on_answered)
        try:
            self.conversations = Conversations(self._database, self._writer.put, self)
            self.transcripts = Transcripts(self._database, self._writer.put, self)
            self.images = Images(self._database, self._writer.put, self)
            self.rounds = ImageRounds(self._database, self._writer.put)
        except BaseException:
            self._close_file()
            raise

    def ask(self, question: Callable[[sqlite3.Connection], Any], done: Callable[[Any], None]) -> None:
        """Run a slow read on the store's thread, after what is being written; `done` gets its result here."""
        self.conversations.flush()
        key = uuid.uuid4().hex
        self._waiting[key] = done

        def run(connection: sqlite3.Connection) -> None:
            # Asked again when its transaction is repeated after a failure; a second answer is ignored.
            try:
                self._answered.emit(key, question(connection), None)
            except sqlite3.Error as error:
                self._answered.emit(key, None, to_info(error))

        self._writer.put(run)

    def close(self) -> bool:
        """Save what waits and close the file; False when not everything could be saved."""
        self.conversations.flush()
        return self._close_file()

    def _close_file(self) -> bool:
        saved = self._writer.close()
        self._database.close()
        return saved

    @Slot(object)
    def _on_failed(self, error: ErrorInfo) -> None:
        self.write_failed.emit(error)

    @Slot()
    def _on_recovered(self) -> None:
        self.write_recovered.emit()

    @Slot(str, object, object)
    def _on_answered(self, key: str, result: object, error: object) -> None:
        done = self._waiting.pop(key, None)
        if isinstance(error, ErrorInfo):
            self.write_failed.emit(error)
        elif done is not None:
            done(result)
