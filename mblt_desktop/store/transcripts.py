"""Transcripts: saved whole when they are done, edited afterwards."""

from __future__ import annotations

import json
import sqlite3
import time
from collections.abc import Callable
from dataclasses import replace

from PySide6.QtCore import QObject, Signal

from mblt_desktop.store.database import Database, Write
from mblt_desktop.store.records import (
    TranscriptRecord,
    TranscriptSummary,
    segments_from_json,
    segments_to_json,
)
from runtime.messages import Segment


class Transcripts(QObject):
    """Lives in the GUI thread; the list is in memory, the texts are read when somebody opens one."""

    changed = Signal()
    """The list, or something shown in it, changed."""

    def __init__(self, database: Database, put: Callable[[Write], None], parent: QObject) -> None:
        super().__init__(parent)
        self._database = database
        self._put = put
        self._list: dict[str, TranscriptSummary] = {}
        self._deleted: dict[str, TranscriptSummary] = {}
        # Written in this session: the writer may not have come to them yet.
        self._fresh: dict[str, TranscriptRecord] = {}
        columns = "id, title, source, duration, language, engine, created_at"
        for row in database.reader.execute(f"SELECT {columns} FROM transcripts WHERE deleted_at IS NULL"):
            self._list[row["id"]] = TranscriptSummary(*row)

    def list(self) -> list[TranscriptSummary]:
        """All transcripts, newest first, without their text."""
        return sorted(self._list.values(), key=lambda row: -row.created_at)

    def get(self, transcript_id: str) -> TranscriptRecord | None:
        """A whole transcript. Raises sqlite3.Error when its row is damaged."""
        if transcript_id not in self._list:
            return None
        return self._fresh.get(transcript_id) or self._read(transcript_id)

    def save(self, record: TranscriptRecord) -> None:
        """Save a new transcript, or the new state of one."""
        self._fresh[record.id] = record
        self._list[record.id] = record.summary
        self._put(lambda db: db.execute(_REPLACE, _values(record)))
        self.changed.emit()

    def update(
        self, transcript_id: str, *, title: str | None = None, segments: tuple[Segment, ...] | None = None
    ) -> None:
        """Change the title or the lines of a transcript."""
        record = self.get(transcript_id)
        if record is None:
            return
        if title is not None:
            record = replace(record, title=title)
        if segments is not None:
            record = replace(record, segments=segments)
        self.save(record)

    def delete(self, transcript_id: str) -> None:
        """Take a transcript out of the list; `restore` brings it back until the next start."""
        summary = self._list.pop(transcript_id, None)
        if summary is not None:
            self._deleted[transcript_id] = summary
            self._mark_deleted(transcript_id, time.time())

    def restore(self, transcript_id: str) -> None:
        """Undo a delete."""
        summary = self._deleted.pop(transcript_id, None)
        if summary is not None:
            self._list[transcript_id] = summary
            self._mark_deleted(transcript_id, None)

    def _read(self, transcript_id: str) -> TranscriptRecord | None:
        row = self._database.reader.execute(
            "SELECT * FROM transcripts WHERE id = ?", (transcript_id,)
        ).fetchone()
        return None if row is None else _record(row)

    def _mark_deleted(self, transcript_id: str, when: float | None) -> None:
        self._put(
            lambda db: db.execute("UPDATE transcripts SET deleted_at = ? WHERE id = ?", (when, transcript_id))
        )
        self.changed.emit()


_REPLACE = (
    "INSERT OR REPLACE INTO transcripts (id, title, source, duration, language, segments, engine, warnings,"
    " created_at) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def _values(record: TranscriptRecord) -> tuple[object, ...]:
    return (
        record.id,
        record.title,
        record.source,
        record.duration,
        record.language,
        segments_to_json(record.segments),
        record.engine,
        json.dumps(record.warnings, ensure_ascii=False),
        record.created_at,
    )


def _record(row: sqlite3.Row) -> TranscriptRecord:
    return TranscriptRecord(
        title=row["title"],
        source=row["source"],
        duration=row["duration"],
        language=row["language"],
        segments=segments_from_json(row["segments"]),
        engine=row["engine"],
        warnings=tuple(json.loads(row["warnings"])),
        created_at=row["created_at"],
        id=row["id"],
    )
