"""Damaged files, full disks, folders that cannot be written: said in words, and nothing is lost."""

from __future__ import annotations

import gc
import os
import sqlite3
import tempfile
import threading
from pathlib import Path

import pytest

from mblt_desktop.paths import Paths
from mblt_desktop.store import database
from mblt_desktop.store.records import Message
from mblt_desktop.store.schema import VERSION
from mblt_desktop.store.store import Store


def say(store: Store, text: str):
    conversation = store.conversations.create()
    store.conversations.add(Message(conversation.id, "user", text))
    return conversation


def rows(path: Path) -> list[str]:
    with sqlite3.connect(path) as db:
        return [row[0] for row in db.execute("SELECT text FROM messages ORDER BY number")]


@pytest.mark.parametrize("damage", [b"not a database at all" * 300, b"SQLite format 3\0" + b"\xff" * 5000])
def test_a_damaged_file_is_kept_aside_and_a_new_one_is_made(qapp, paths: Paths, damage: bytes):
    paths.data.mkdir(parents=True)
    paths.database.write_bytes(damage)
    store = Store(paths.database)
    (kept,) = paths.data.glob("library-damaged-*.db")
    assert kept.read_bytes() == damage
    assert store.problem.code == "storage.corrupt"
    assert kept.name in store.problem.summary
    say(store, "life goes on")
    assert store.close()
    assert rows(paths.database) == ["life goes on"]


def test_a_file_with_a_damaged_page_in_the_middle_is_kept_aside_too(qapp, paths: Paths):
    store = Store(paths.database)
    for number in range(200):
        say(store, f"message {number} " * 20)
    store.close()
    data = bytearray(paths.database.read_bytes())
    data[4096 * 1 : 4096 * 6] = os.urandom(4096 * 5)
    paths.database.write_bytes(data)
    again = Store(paths.database)
    assert again.problem.code == "storage.corrupt"
    assert list(paths.data.glob("library-damaged-*.db"))
    again.close()


def test_a_folder_that_cannot_be_used_means_a_session_without_saving(qapp, tmp_path: Path):
    (tmp_path / "file").write_text("not a folder")
    store = Store(tmp_path / "file" / "library.db")
    assert "will not be kept" in store.problem.summary
    say(store, "still works")
    assert store.close()


def test_a_read_only_file_shows_its_chats_and_says_that_nothing_new_is_kept(
    qapp, paths: Paths, monkeypatch: pytest.MonkeyPatch
):
    store = Store(paths.database)
    say(store, "old")
    store.close()
    plain = database.connect

    def read_only(path: Path) -> sqlite3.Connection:
        # A root user can write everywhere, so SQLite itself is told to refuse.
        connection = plain(path)
        if path == paths.database:
            connection.execute("PRAGMA query_only = ON")
        return connection

    monkeypatch.setattr(database, "connect", read_only)
    again = Store(paths.database)
    assert again.problem.code == "storage.read_only"
    assert [chat.title for chat in again.conversations.list()] == ["old"]
    say(again, "new")
    again.close()
    assert rows(paths.database) == ["old"]


def test_a_file_of_a_newer_version_is_left_alone(qapp, paths: Paths):
    Store(paths.database).close()
    with sqlite3.connect(paths.database) as db:
        db.execute(f"PRAGMA user_version = {VERSION + 1}")
    before = paths.database.read_bytes()
    store = Store(paths.database)
    assert "newer version" in store.problem.summary
    say(store, "not there")
    store.close()
    assert paths.database.read_bytes() == before


def test_a_full_disk_is_reported_once_and_everything_is_saved_when_there_is_room(
    qtbot, paths: Paths, monkeypatch: pytest.MonkeyPatch
):
    monkeypatch.setattr(database, "RETRY_SECONDS", 0.05)
    limit = 40
    plain = database.connect

    def small_disk(path: Path) -> sqlite3.Connection:
        connection = plain(path)
        connection.execute(f"PRAGMA max_page_count = {limit}")
        return connection

    monkeypatch.setattr(database, "connect", small_disk)
    store = Store(paths.database)
    writer_connections = []
    store.ask(writer_connections.append, lambda _: None)
    errors, recovered = [], []
    store.write_failed.connect(errors.append)
    store.write_recovered.connect(lambda: recovered.append(True))
    chat = say(store, "fits")
    big = Message(chat.id, "assistant", "x" * 400_000, chat.leaf_id)
    store.conversations.add(big)
    qtbot.waitUntil(lambda: len(errors) == 1)
    assert errors[0].code == "storage.full"
    assert str(paths.database) in errors[0].summary
    small = Message(chat.id, "user", "after it", big.id)
    store.conversations.add(small)
    qtbot.wait(200)
    assert len(errors) == 1
    assert store.conversations.tree(chat.id).get(big.id).text == "x" * 400_000
    store.ask(lambda db: db.execute("PRAGMA max_page_count = 100000"), lambda _: None)
    writer_connections[0].execute("PRAGMA max_page_count = 100000")
    qtbot.waitUntil(lambda: bool(recovered))
    assert store.close()
    assert rows(paths.database) == ["fits", "x" * 400_000, "after it"]


def test_a_fault_in_one_change_does_not_stop_the_saving_of_others(qtbot, paths: Paths):
    store = Store(paths.database)
    errors = []
    store.write_failed.connect(errors.append)
    store._writer.put(lambda db: db.execute("INSERT INTO messages (id) VALUES ('no role')"))
    say(store, "saved")
    qtbot.waitUntil(lambda: len(errors) == 1)
    assert errors[0].code == "internal"
    assert store.close()
    assert rows(paths.database) == ["saved"]


@pytest.mark.parametrize(
    "spoil",
    [
        "PRAGMA user_version = -3",
        "PRAGMA user_version = 0",
        "DROP TABLE messages",
        "ALTER TABLE conversations DROP COLUMN draft",
    ],
)
def test_a_file_with_other_tables_is_kept_aside(qapp, paths: Paths, spoil: str):
    assert Store(paths.database).close()
    with sqlite3.connect(paths.database) as connection:
        connection.execute(spoil)
    connection.close()
    store = Store(paths.database)
    assert store.problem is not None
    assert store.problem.code == "storage.corrupt"
    assert list(paths.data.glob("library-damaged-*.db"))
    store.conversations.add(Message(store.conversations.create().id, "user", "Saved again"))
    assert store.close()
    again = Store(paths.database)
    assert [row.title for row in again.conversations.list()] == ["Saved again"]
    assert again.close()


@pytest.mark.parametrize(
    "spoil",
    [
        "UPDATE conversations SET updated_at = 'never' WHERE title = 'Bad'",
        "UPDATE conversations SET title = x'ff' WHERE title = 'Bad'",
        f"UPDATE conversations SET sampling = '{'[' * 5000}' WHERE title = 'Bad'",
        f"UPDATE messages SET result = '{'[' * 5000}', attachments = '{'[' * 5000}' WHERE text = 'Bad'",
        "UPDATE messages SET text = x'ff00' WHERE text = 'Bad'",
        "UPDATE messages SET text = CAST(x'ff41' AS TEXT) WHERE text = 'Bad'",
    ],
)
def test_one_bad_row_hides_no_other(qapp, paths: Paths, spoil: str):
    store = Store(paths.database)
    for text in ("Good", "Bad"):
        store.conversations.add(Message(store.conversations.create().id, "user", text))
    assert store.close()
    with sqlite3.connect(paths.database) as connection:
        connection.execute(spoil)
    connection.close()
    store = Store(paths.database)
    shown = store.conversations.list()
    assert "Good" in [row.title for row in shown]
    for row in shown:
        (message,) = store.conversations.tree(row.id).path(row.leaf_id)
        assert isinstance(message.text, str)
    assert store.close()


def test_half_characters_do_not_lose_what_they_stand_in(qapp, paths: Paths):
    store = Store(paths.database)
    message = Message(store.conversations.create().id, "assistant", "before \udcff", state="writing")
    store.conversations.add(message)
    store.conversations.append_text(message, " after \ud83d")
    assert store.close()
    store = Store(paths.database)
    (row,) = store.conversations.list()
    (message,) = store.conversations.tree(row.id).path(row.leaf_id)
    assert message.text == "before \ufffd after \ufffd"
    assert store.close()


def test_a_file_in_use_says_what_to_close(qapp, paths: Paths, monkeypatch: pytest.MonkeyPatch):
    assert Store(paths.database).close()
    connect = sqlite3.connect
    monkeypatch.setattr(sqlite3, "connect", lambda *args, **more: connect(*args, **{**more, "timeout": 0.1}))
    other = connect(paths.database, isolation_level=None)
    other.execute("BEGIN EXCLUSIVE")
    store = Store(paths.database)
    assert store.problem is not None
    assert "in use by another program" in store.problem.summary
    assert store.problem.remedy.startswith("Close the other program and restart. Export what you need")
    assert store.close()
    other.close()


def test_a_second_window_leaves_the_first_ones_answers_and_undo_alone(qtbot, paths: Paths):
    first = Store(paths.database)
    writing, deleted = first.conversations.create(), first.conversations.create()
    question = Message(writing.id, "user", "Writing")
    first.conversations.add(question)
    first.conversations.add(Message(writing.id, "assistant", "Once", question.id, state="writing"))
    first.conversations.add(Message(deleted.id, "user", "Deleted"))
    first.conversations.delete(deleted.id)
    other = sqlite3.connect(paths.database)
    gone = "SELECT count(*) FROM conversations WHERE deleted_at IS NOT NULL"
    qtbot.waitUntil(lambda: other.execute(gone).fetchone() == (1,))
    other.close()
    second = Store(paths.database)
    assert second.conversations.tree(writing.id).path(writing.leaf_id)[1].state == "writing"
    assert second.close()
    first.conversations.restore(deleted.id)
    assert first.close()
    third = Store(paths.database)
    assert {row.title for row in third.conversations.list()} == {"Writing", "Deleted"}
    assert third.conversations.tree(writing.id).path(writing.leaf_id)[1].state == "interrupted"
    assert third.close()


def left_in(folder: Path) -> list[str]:
    return [path.name for path in folder.glob("mblt-desktop-*")]


def test_a_session_that_cannot_begin_leaves_no_folder(
    qapp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def full(path: Path) -> sqlite3.Connection:
        raise sqlite3.OperationalError("database or disk is full")

    monkeypatch.setattr(database, "connect", full)
    with pytest.raises(sqlite3.OperationalError):
        Store(tmp_path / "file" / "library.db")
    gc.collect()  # a folder that is only cleared away here warns, and a warning fails the test
    assert left_in(tmp_path) == []


def test_a_library_that_cannot_be_read_is_closed_again(
    qapp, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("not a folder")
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))

    def unreadable(*_: object) -> None:
        raise sqlite3.DatabaseError("database disk image is malformed")

    monkeypatch.setattr("mblt_desktop.store.store.Images", unreadable)
    before = threading.active_count()
    with pytest.raises(sqlite3.DatabaseError):
        Store(tmp_path / "file" / "library.db")
    gc.collect()
    assert left_in(tmp_path) == []
    assert threading.active_count() == before, "the writer's thread has ended"
