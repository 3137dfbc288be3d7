"""Pictures of the gallery and what was asked and answered about each."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable, Iterable

from PySide6.QtCore import QObject, Signal

from mblt_desktop.store.database import Database, Write
from mblt_desktop.store.records import ImageAnswer, ImageRecord, result_from_json, result_to_json


class Images(QObject):
    """Lives in the GUI thread; pictures are in memory, their answers are read when one is opened."""

    changed = Signal()
    """A picture came, went, or got an answer."""

    def __init__(self, database: Database, put: Callable[[Write], None], parent: QObject) -> None:
        super().__init__(parent)
        self._database = database
        self._put = put
        self._rows: dict[str, ImageRecord] = {}
        self._deleted: dict[str, ImageRecord] = {}
        self._answers: dict[str, dict[str, ImageAnswer]] = {}
        columns = "path, name, width, height, created_at, id"
        for row in database.reader.execute(f"SELECT {columns} FROM images WHERE deleted_at IS NULL"):
            self._rows[row["id"]] = ImageRecord(*row)

    def get(self, image_id: str) -> ImageRecord | None:
        """A picture, or None when it was deleted."""
        return self._rows.get(image_id)

    def add(self, record: ImageRecord) -> None:
        """Save a picture whose file is already in the media folder."""
        self._rows[record.id] = record
        row = (record.id, record.path, record.name, record.width, record.height, record.created_at)
        self._put(
            lambda db: db.execute(
                "INSERT INTO images (id, path, name, width, height, created_at) VALUES (?, ?, ?, ?, ?, ?)",
                row,
            )
        )
        self.changed.emit()

    def answers(self, image_id: str) -> list[ImageAnswer]:
        """Questions and answers about a picture, oldest first."""
        return sorted(self._answers_of(image_id).values(), key=lambda answer: answer.created_at)

    def read_answers(self, image_ids: Iterable[str]) -> None:
        """Read the answers of many pictures at once, so that `answers` need not go to the file for each."""
        missing = [image_id for image_id in image_ids if image_id not in self._answers]
        rows = self._database.reader.execute(
            "SELECT * FROM image_answers WHERE image_id IN (SELECT value FROM json_each(?))",
            (json.dumps(missing),),
        ).fetchall()
        self._answers.update({image_id: {} for image_id in missing})
        for row in rows:
            self._answers[row["image_id"]][row["id"]] = _answer(row)

    def save_answer(self, answer: ImageAnswer) -> None:
        """Save a new answer, or the new state of one that is still being written."""
        self._answers_of(answer.image_id)[answer.id] = answer
        row = (
            answer.id,
            answer.image_id,
            answer.question,
            answer.text,
            answer.model,
            answer.device,
            result_to_json(answer.result),
            answer.created_at,
        )
        self._put(
            lambda db: db.execute("INSERT OR REPLACE INTO image_answers VALUES (?, ?, ?, ?, ?, ?, ?, ?)", row)
        )
        self.changed.emit()

    def delete(self, image_id: str) -> None:
        """Take a picture out of the gallery; `restore` brings it back until the next start."""
        record = self._rows.pop(image_id, None)
        if record is not None:
            self._deleted[image_id] = record
            self._mark_deleted(image_id, time.time())

    def restore(self, image_id: str) -> None:
        """Undo a delete."""
        record = self._deleted.pop(image_id, None)
        if record is not None:
            self._rows[image_id] = record
            self._mark_deleted(image_id, None)

    def list(self) -> list[ImageRecord]:
        """All pictures, newest first."""
        return sorted(self._rows.values(), key=lambda row: -row.created_at)

    def _answers_of(self, image_id: str) -> dict[str, ImageAnswer]:
        """Read at first need; from then on the copy in memory is the newest."""
        if image_id not in self._answers:
            self.read_answers([image_id])
        return self._answers[image_id]

    def _mark_deleted(self, image_id: str, when: float | None) -> None:
        self._put(lambda db: db.execute("UPDATE images SET deleted_at = ? WHERE id = ?", (when, image_id)))
        self.changed.emit()


def _answer(row: sqlite3.Row) -> ImageAnswer:
    return ImageAnswer(
        image_id=row["image_id"],
        question=row["question"],
        text=row["text"],
        model=row["model"],
        device=row["device"],
        result=result_from_json(row["result"]),
        created_at=row["created_at"],
        id=row["id"],
    )
