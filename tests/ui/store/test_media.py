"""Transcripts and images: saved, listed, edited, deleted and brought back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from mblt_desktop.paths import Paths
from mblt_desktop.store.records import ImageAnswer, ImageRecord, Result, TranscriptRecord
from mblt_desktop.store.store import Store
from runtime.messages import Segment, Usage, Word


@pytest.fixture
def store(qapp, paths: Paths) -> Iterator[Store]:
    store = Store(paths.database)
    yield store
    store.close()


def transcript(title: str = "meeting", created_at: float = 1.0) -> TranscriptRecord:
    words = (Word(0.0, 0.4, "Good"), Word(0.4, 1.0, "morning", 0.7))
    segments = (Segment(0.0, 1.0, "Good morning", words), Segment(1.0, 2.5, "여러분"))
    return TranscriptRecord(
        title, "/a/b.wav", 2.5, "en", segments, "tiny.en", ("3 packets skipped",), created_at
    )


def test_a_transcript_is_the_same_after_a_restart(store: Store, paths: Paths):
    record = transcript()
    store.transcripts.save(record)
    assert store.transcripts.get(record.id) == record
    store.close()
    again = Store(paths.database)
    assert again.transcripts.get(record.id) == record
    assert again.transcripts.list() == [record.summary]
    again.close()


def test_lines_and_titles_can_be_edited(store: Store, paths: Paths):
    record = transcript()
    store.transcripts.save(record)
    store.close()
    again = Store(paths.database)
    lines = (Segment(0.0, 2.5, "corrected"),)
    again.transcripts.update(record.id, segments=lines)
    again.transcripts.update(record.id, title="Board meeting")
    again.close()
    third = Store(paths.database)
    loaded = third.transcripts.get(record.id)
    assert (loaded.title, loaded.segments, loaded.warnings) == ("Board meeting", lines, record.warnings)
    third.close()


def test_transcripts_newest_first_deleted_and_back(store: Store):
    old, new = transcript("old", 1.0), transcript("new", 2.0)
    store.transcripts.save(old)
    store.transcripts.save(new)
    store.transcripts.delete(new.id)
    assert [row.title for row in store.transcripts.list()] == ["old"]
    assert store.transcripts.get(new.id) is None
    store.transcripts.restore(new.id)
    assert [row.title for row in store.transcripts.list()] == ["new", "old"]


def test_images_keep_their_answers(store: Store, paths: Paths):
    picture = ImageRecord("/media/cat.png", "cat.png", 640, 480, 1.0)
    store.images.add(picture)
    answer = ImageAnswer(picture.id, "What is it?", "A", "Qwen2-VL", "Simulated ARIES (CPU)", created_at=2.0)
    store.images.save_answer(answer)
    done = ImageAnswer(
        picture.id, "What is it?", "A cat.", "Qwen2-VL", "", Result("end", Usage(9, 0, 3)), 2.0, answer.id
    )
    store.images.save_answer(done)
    store.close()
    again = Store(paths.database)
    assert again.images.list() == [picture]
    assert again.images.answers(picture.id) == [done]
    again.images.delete(picture.id)
    assert again.images.get(picture.id) is None
    again.images.restore(picture.id)
    assert again.images.get(picture.id) == picture
    again.close()
