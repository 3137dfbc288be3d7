"""The round asked last: kept over a restart, and in a library of an earlier version."""

from __future__ import annotations

import sqlite3

import pytest

from mblt_desktop.paths import Paths
from mblt_desktop.store.records import ImageAnswer, ImageRecord, ImageRound, Result
from mblt_desktop.store.schema import MIGRATIONS
from mblt_desktop.store.store import Store

ROUND = ImageRound("What is it?", ("a", "b"), "a photo of ", describes=True, since=12.5)


def test_only_the_latest_is_kept_and_comes_back_whole(qapp: object, paths: Paths) -> None:
    store = Store(paths.database)
    assert store.rounds.latest is None
    store.rounds.save(ImageRound("Before?", ("a",)))
    store.rounds.save(ROUND)
    assert store.close()
    store = Store(paths.database)
    assert store.rounds.latest == ROUND
    store.rounds.forget()
    assert store.close()
    store = Store(paths.database)
    assert store.rounds.latest is None
    assert store.close()


def test_a_library_of_the_first_version_is_taken_over(qapp: object, paths: Paths) -> None:
    paths.data.mkdir(parents=True)
    with sqlite3.connect(paths.database) as db:
        db.executescript(f"{MIGRATIONS[0]};PRAGMA user_version = 1;")
        db.execute("INSERT INTO images VALUES ('a', '/a.png', 'a.png', 1, 1, 2.0, NULL)")
    db.close()
    store = Store(paths.database)
    assert store.problem is None
    assert [record.name for record in store.images.list()] == ["a.png"]
    store.rounds.save(ROUND)
    assert store.close()


@pytest.mark.parametrize(
    "bad", ["image_ids = '{'", "image_ids = '7'", "since = 'never'", "image_ids = x'ff'"]
)
def test_a_row_that_cannot_be_read_hides_nothing_else(qapp: object, paths: Paths, bad: str) -> None:
    store = Store(paths.database)
    store.images.add(ImageRecord("/a.png", "a.png", 1, 1))
    store.rounds.save(ROUND)
    assert store.close()
    with sqlite3.connect(paths.database) as db:
        db.execute(f"UPDATE image_rounds SET {bad}")
    db.close()
    store = Store(paths.database)
    assert store.rounds.latest is None
    assert len(store.images.list()) == 1
    assert store.close()


def test_the_answers_of_many_pictures_are_read_at_once(qapp: object, paths: Paths) -> None:
    store = Store(paths.database)
    records = [ImageRecord(f"/{name}", name, 1, 1) for name in "abc"]
    for record in records:
        store.images.add(record)
        store.images.save_answer(ImageAnswer(record.id, "Q?", record.name, result=Result("end")))
    assert store.close()
    store = Store(paths.database)
    statements: list[str] = []
    store._database.reader.set_trace_callback(statements.append)
    store.images.read_answers([record.id for record in records])
    assert [store.images.answers(record.id)[0].text for record in records] == ["a", "b", "c"]
    assert len(statements) == 1
    assert store.close()
