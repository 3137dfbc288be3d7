"""The round of questions asked last: what is needed to show its answers and to go on with it."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable

from mblt_desktop.store.database import Database, Write
from mblt_desktop.store.records import ImageRound


class ImageRounds:
    """Lives in the GUI thread. Of a round only the question and the pictures are kept here."""

    def __init__(self, database: Database, put: Callable[[Write], None]) -> None:
        self._put = put
        row = database.reader.execute("SELECT * FROM image_rounds ORDER BY created_at DESC").fetchone()
        self._latest = _from_row(row) if row is not None else None

    @property
    def latest(self) -> ImageRound | None:
        """The round asked last, unless it was forgotten."""
        return self._latest

    def save(self, asked: ImageRound) -> None:
        """Keep this round instead of the one before."""
        self._latest = asked
        ids = json.dumps(asked.image_ids)
        row = (asked.id, asked.question, asked.beginning, asked.describes, ids, asked.since, asked.created_at)

        def write(db: sqlite3.Connection) -> None:
            db.execute("DELETE FROM image_rounds")
            db.execute("INSERT INTO image_rounds VALUES (?, ?, ?, ?, ?, ?, ?)", row)

        self._put(write)

    def forget(self) -> None:
        """Keep none; the answers stay with their pictures."""
        self._latest = None
        self._put(lambda db: db.execute("DELETE FROM image_rounds"))


def _from_row(row: sqlite3.Row) -> ImageRound | None:
    """None for a row that cannot be read: its answers are not lost by that."""
    try:
        ids = tuple(str(one) for one in json.loads(row["image_ids"]))
        since, created_at = float(row["since"]), float(row["created_at"])
    except (ValueError, TypeError, RecursionError):
        return None
    question, beginning, describes = str(row["question"]), str(row["beginning"]), bool(row["describes"])
    return ImageRound(question, ids, beginning, describes, since, created_at, row["id"])
