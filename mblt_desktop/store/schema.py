"""The tables of the library file, and how an older file becomes a newer one."""

from __future__ import annotations

import sqlite3

_FIRST = """
CREATE TABLE conversations (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    titled INTEGER NOT NULL DEFAULT 0,
    pinned INTEGER NOT NULL DEFAULT 0,
    created_at REAL NOT NULL,
    updated_at REAL NOT NULL,
    system_prompt TEXT NOT NULL DEFAULT '',
    sampling TEXT NOT NULL DEFAULT '{}',
    draft TEXT NOT NULL DEFAULT '',
    leaf_id TEXT,
    deleted_at REAL
);
CREATE TABLE messages (
    number INTEGER PRIMARY KEY,
    id TEXT NOT NULL UNIQUE,
    conversation_id TEXT NOT NULL REFERENCES conversations (id) ON DELETE CASCADE,
    parent_id TEXT,
    role TEXT NOT NULL,
    text TEXT NOT NULL DEFAULT '',
    state TEXT NOT NULL,
    created_at REAL NOT NULL,
    model TEXT NOT NULL DEFAULT '',
    device TEXT NOT NULL DEFAULT '',
    result TEXT NOT NULL DEFAULT '{}',
    attachments TEXT NOT NULL DEFAULT '[]'
);
CREATE INDEX messages_of_conversation ON messages (conversation_id, number);
CREATE TABLE transcripts (
    id TEXT PRIMARY KEY,
    title TEXT NOT NULL,
    source TEXT NOT NULL,
    duration REAL NOT NULL,
    language TEXT NOT NULL,
    segments TEXT NOT NULL,
    engine TEXT NOT NULL,
    warnings TEXT NOT NULL DEFAULT '[]',
    created_at REAL NOT NULL,
    deleted_at REAL
);
CREATE TABLE images (
    id TEXT PRIMARY KEY,
    path TEXT NOT NULL,
    name TEXT NOT NULL,
    width INTEGER NOT NULL,
    height INTEGER NOT NULL,
    created_at REAL NOT NULL,
    deleted_at REAL
);
CREATE TABLE image_answers (
    id TEXT PRIMARY KEY,
    image_id TEXT NOT NULL REFERENCES images (id) ON DELETE CASCADE,
    question TEXT NOT NULL,
    text TEXT NOT NULL,
    model TEXT NOT NULL,
    device TEXT NOT NULL,
    result TEXT NOT NULL DEFAULT '{}',
    created_at REAL NOT NULL
);
CREATE INDEX answers_of_image ON image_answers (image_id, created_at);
"""

_ROUNDS = """
CREATE TABLE image_rounds (
    id TEXT PRIMARY KEY,
    question TEXT NOT NULL,
    beginning TEXT NOT NULL,
    describes INTEGER NOT NULL,
    image_ids TEXT NOT NULL,
    since REAL NOT NULL,
    created_at REAL NOT NULL
);
"""

MIGRATIONS = (_FIRST, _ROUNDS)
"""Script `n` brings a file from version n to n + 1. Published scripts are never edited."""
VERSION = len(MIGRATIONS)
TABLES = ("conversations", "messages", "transcripts", "images", "image_answers", "image_rounds")


def version_of(connection: sqlite3.Connection) -> int:
    """The version a file is at; 0 for a new one."""
    return int(connection.execute("PRAGMA user_version").fetchone()[0])


def migrate(connection: sqlite3.Connection) -> None:
    """Bring the file to this program's version, each step whole or not at all."""
    if version_of(connection) < 0:
        raise sqlite3.DatabaseError(f"version {version_of(connection)}")
    for number in range(version_of(connection), VERSION):
        connection.executescript(
            f"BEGIN IMMEDIATE;{MIGRATIONS[number]};PRAGMA user_version = {number + 1};COMMIT;"
        )


def require_whole(connection: sqlite3.Connection) -> None:
    """Raise sqlite3.DatabaseError unless every table has the columns that this version reads and writes."""
    model = sqlite3.connect(":memory:")
    try:
        migrate(model)
        for table in TABLES:
            missing = _columns(model, table) - _columns(connection, table)
            if missing:
                raise sqlite3.DatabaseError(f"table {table} lacks {', '.join(sorted(missing))}")
    finally:
        model.close()


def _columns(connection: sqlite3.Connection, table: str) -> set[str]:
    return {str(row[1]) for row in connection.execute(f"PRAGMA table_info({table})")}
