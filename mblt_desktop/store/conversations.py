"""Conversations: the list, the messages of each as a tree, and text that is saved while it streams."""

from __future__ import annotations

import contextlib
import json
import sqlite3
import time
from collections.abc import Callable
from dataclasses import asdict, fields
from typing import Any

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from mblt_desktop.store.database import Database, Write
from mblt_desktop.store.records import (
    Attachment,
    Conversation,
    Message,
    MessageState,
    Result,
    result_from_json,
    result_to_json,
)
from mblt_desktop.store.tree import MessageTree

STREAM_MS = 250
"""Streamed text waits at most this many milliseconds before it goes to the disk."""
TITLE_LENGTH = 48
_COLUMNS = tuple(field.name for field in fields(Conversation))


class Conversations(QObject):
    """Lives in the GUI thread: changes its own copy at once and hands the write over."""

    changed = Signal()
    """The list, or something shown in it, changed."""

    def __init__(self, database: Database, put: Callable[[Write], None], parent: QObject) -> None:
        super().__init__(parent)
        self._database = database
        self._put = put
        self._rows: dict[str, Conversation] = {}
        self._unsaved: dict[str, Conversation] = {}
        self._deleted: dict[str, Conversation] = {}
        self._trees: dict[str, MessageTree] = {}
        self._buffers: dict[str, list[str]] = {}
        self._flush = QTimer(self, singleShot=True, interval=STREAM_MS)
        self._flush.timeout.connect(self.flush)
        for row in database.reader.execute("SELECT * FROM conversations WHERE deleted_at IS NULL"):
            # One that cannot be read stays in the file and hides no other.
            with contextlib.suppress(TypeError, ValueError):
                self._rows[row["id"]] = _conversation(row)

    def list(self) -> list[Conversation]:
        """Saved conversations: pinned first, then the last used."""
        return sorted(self._rows.values(), key=lambda row: (not row.pinned, -row.updated_at))

    def get(self, conversation_id: str) -> Conversation | None:
        """A conversation, saved or new; None when it was deleted."""
        return self._rows.get(conversation_id) or self._unsaved.get(conversation_id)

    def create(self) -> Conversation:
        """A new conversation; it is saved, and listed, with the first thing that happens in it."""
        conversation = Conversation()
        self._unsaved[conversation.id] = conversation
        self._trees[conversation.id] = MessageTree()
        return conversation

    def update(self, conversation_id: str, **values: Any) -> None:
        """Change fields of a conversation by name: title, pinned, system_prompt, sampling, draft, leaf_id…"""
        conversation = self.get(conversation_id)
        if conversation is None:
            return
        for name, value in values.items():
            setattr(conversation, name, value)
        if self._save_new(conversation):
            return
        columns = ", ".join(f"{name} = ?" for name in values if name in _COLUMNS)
        data = [_column(name, value) for name, value in values.items()]
        self._put(
            lambda db: db.execute(
                f"UPDATE conversations SET {columns} WHERE id = ?", (*data, conversation_id)
            )
        )
        if values.keys() & {"title", "pinned", "updated_at"}:
            self.changed.emit()

    def delete(self, conversation_id: str) -> None:
        """Take a conversation out of the list; `restore` brings it back until the next start."""
        conversation = self._rows.pop(conversation_id, None)
        if conversation is None:
            return
        self._deleted[conversation_id] = conversation
        self._mark_deleted(conversation_id, time.time())

    def restore(self, conversation_id: str) -> None:
        """Undo a delete."""
        conversation = self._deleted.pop(conversation_id, None)
        if conversation is not None:
            self._rows[conversation_id] = conversation
            self._mark_deleted(conversation_id, None)

    def tree(self, conversation_id: str) -> MessageTree:
        """The messages of a conversation; read once, then kept. Raises sqlite3.Error for damaged rows."""
        tree = self._trees.get(conversation_id)
        if tree is None:
            rows = self._database.reader.execute(
                "SELECT * FROM messages WHERE conversation_id = ? ORDER BY number", (conversation_id,)
            )
            tree = self._trees[conversation_id] = MessageTree(_message(row) for row in rows)
        return tree

    def add(self, message: Message) -> None:
        """Add a message at the end of the shown branch, save it, and name an unnamed conversation by it."""
        conversation = self.get(message.conversation_id) or self._deleted.get(message.conversation_id)
        if conversation is None:
            return
        self.tree(message.conversation_id).add(message)
        conversation.leaf_id = message.id
        conversation.updated_at = message.created_at
        if message.role == "user" and not conversation.titled and message.parent_id is None:
            conversation.title = title_from(message.text) or conversation.title
        if not self._save_new(conversation):
            row = (conversation.title, conversation.updated_at, conversation.leaf_id, conversation.id)
            self._put(
                lambda db: db.execute(
                    "UPDATE conversations SET title = ?, updated_at = ?, leaf_id = ? WHERE id = ?", row
                )
            )
            self.changed.emit()
        values = _message_values(message)
        self._put(lambda db: db.execute(_INSERT_MESSAGE, values))

    def append_text(self, message: Message, text: str) -> None:
        """More text of an answer: in memory at once, on disk within STREAM_MS."""
        message.text += text
        self._buffers.setdefault(message.id, []).append(text)
        if not self._flush.isActive():
            self._flush.start()

    def finish(self, message: Message, state: MessageState, result: Result, device: str = "") -> None:
        """Close an answer: what streamed so far is saved together with how it came out."""
        message.state, message.result = state, result
        message.device = device or message.device
        self.flush()
        row = (message.state, message.device, result_to_json(result), message.id)
        self._put(
            lambda db: db.execute("UPDATE messages SET state = ?, device = ?, result = ? WHERE id = ?", row)
        )

    @Slot()
    def flush(self) -> None:
        """Hand over all streamed text that is not written yet."""
        self._flush.stop()
        rows = [("".join(parts), message_id) for message_id, parts in self._buffers.items()]
        self._buffers.clear()
        if rows:
            self._put(lambda db: db.executemany("UPDATE messages SET text = text || ? WHERE id = ?", rows))

    def _save_new(self, conversation: Conversation) -> bool:
        if self._unsaved.pop(conversation.id, None) is None:
            return False
        self._rows[conversation.id] = conversation
        data = tuple(_column(name, getattr(conversation, name)) for name in _COLUMNS)
        marks = ", ".join("?" * len(_COLUMNS))
        self._put(
            lambda db: db.execute(f"INSERT INTO conversations ({', '.join(_COLUMNS)}) VALUES ({marks})", data)
        )
        self.changed.emit()
        return True

    def _mark_deleted(self, conversation_id: str, when: float | None) -> None:
        self._put(
            lambda db: db.execute(
                "UPDATE conversations SET deleted_at = ? WHERE id = ?", (when, conversation_id)
            )
        )
        self.changed.emit()


def find_conversations(connection: sqlite3.Connection, words: str) -> list[tuple[str, str]]:
    """Ids of conversations with all the words in their title or one message, each with a snippet.

    Runs on the store's thread: it reads every message.
    """
    terms = [f"%{_escaped(word)}%" for word in words.split()]
    if not terms:
        return []
    like = " AND ".join("{0} LIKE ? ESCAPE '\\'" for _ in terms)
    rows = connection.execute(
        "SELECT id, '' AS text FROM conversations WHERE deleted_at IS NULL AND "
        + like.format("title")
        + " UNION ALL SELECT m.conversation_id, m.text FROM messages m JOIN conversations c ON c.id ="
        " m.conversation_id WHERE c.deleted_at IS NULL AND " + like.format("m.text"),
        (*terms, *terms),
    )
    found: dict[str, str] = {}
    for conversation_id, text in rows:
        found[conversation_id] = found.get(conversation_id) or _snippet(text, words.split()[0])
    return list(found.items())


def title_from(text: str) -> str:
    """A title from a first message: its first line, cut between words."""
    line = next((line.strip() for line in text.splitlines() if line.strip()), "")
    if len(line) <= TITLE_LENGTH:
        return line
    cut = line[:TITLE_LENGTH].rsplit(" ", 1)[0]
    return f"{cut.rstrip(' ,.;:')}…"


def _snippet(text: str, word: str) -> str:
    at = max(0, text.casefold().find(word.casefold()))
    start = max(0, at - 24)
    cut = " ".join(text[start : at + 56].split())
    return f"…{cut}" if start else cut


def _escaped(word: str) -> str:
    return word.replace("\\", "\\\\").replace("%", "\\%").replace("_", "\\_")


def _column(name: str, value: Any) -> Any:
    return json.dumps(value) if name == "sampling" else value


def _conversation(row: sqlite3.Row) -> Conversation:
    values = {name: row[name] for name in _COLUMNS}
    values["titled"], values["pinned"] = bool(row["titled"]), bool(row["pinned"])
    try:
        values["sampling"] = dict(json.loads(row["sampling"]))
    except (ValueError, TypeError, RecursionError):
        values["sampling"] = {}
    for name in ("created_at", "updated_at"):
        values[name] = float(row[name])
    for name in ("id", "title", "system_prompt", "draft"):
        if not isinstance(row[name], str):
            raise TypeError(f"{name} is no text")
    return Conversation(**values)


_INSERT_MESSAGE = (
    "INSERT INTO messages (id, conversation_id, parent_id, role, text, state, created_at, model, device,"
    " result, attachments) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)"
)


def _message_values(message: Message) -> tuple[Any, ...]:
    return (
        message.id,
        message.conversation_id,
        message.parent_id,
        message.role,
        message.text,
        message.state,
        message.created_at,
        message.model,
        message.device,
        result_to_json(message.result),
        json.dumps([asdict(attachment) for attachment in message.attachments]),
    )


def _as_text(value: object) -> str:
    return value.decode("utf-8", "replace") if isinstance(value, bytes) else str(value)


def _message(row: sqlite3.Row) -> Message:
    try:
        attachments = tuple(Attachment(**entry) for entry in json.loads(row["attachments"]))
    except (ValueError, TypeError, RecursionError):
        attachments = ()
    return Message(
        conversation_id=row["conversation_id"],
        role=row["role"],
        text=_as_text(row["text"]),
        parent_id=row["parent_id"],
        id=row["id"],
        state=row["state"],
        created_at=row["created_at"],
        model=row["model"],
        device=row["device"],
        result=result_from_json(row["result"]),
        attachments=attachments,
    )
