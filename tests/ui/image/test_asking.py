"""A question goes out, its answer streams into the right picture, and is on disk whatever happens."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.image import asking
from mblt_desktop.image.asking import Asking
from mblt_desktop.store.records import ImageAnswer, ImageRecord
from mblt_desktop.store.store import Store
from runtime.errors import ContextFullError
from runtime.messages import (
    Failed,
    Finished,
    Generate,
    ImagePart,
    ModelInfo,
    PrefillProgress,
    Queued,
    TextDelta,
    TextPart,
    Timings,
    Usage,
)
from tests.ui.conftest import ScriptedBridge

TIMINGS = Timings(0.1, 0.0, 0.0, 0.5, 2.0, 0.6, 2.6)
USAGE = Usage(100, 80, 21)


@pytest.fixture
def asker(qtbot: QtBot, context: AppContext) -> Iterator[Asking]:
    asker = Asking(context)
    yield asker
    asker.deleteLater()


@pytest.fixture
def record(context: AppContext) -> ImageRecord:
    record = ImageRecord("/media/a.png", "a.png", 10, 10)
    context.store.images.add(record)
    return record


def ask(asker: Asking, bridge: ScriptedBridge, model: ModelInfo, *records: ImageRecord) -> Generate:
    asker.ask(model, list(records), "What is it?")
    return bridge.host.sent(Generate)[-1]


def test_the_question_reaches_the_engine_with_its_picture(
    asker: Asking, bridge: ScriptedBridge, context: AppContext, vision_model: ModelInfo, record: ImageRecord
) -> None:
    context.preferences.set("sampling.temperature", 0.25)
    command = ask(asker, bridge, vision_model, record)
    assert command.model_id == "qwen2-vl"
    assert command.turns[0].parts == (ImagePart("/media/a.png"), TextPart("What is it?"))
    assert command.sampling.temperature == 0.25
    assert command.submitted_ns > 0


def test_the_same_picture_keeps_its_conversation_and_another_one_does_not(
    qtbot: QtBot, asker: Asking, bridge: ScriptedBridge, vision_model: ModelInfo, record: ImageRecord
) -> None:
    other = ImageRecord("/media/b.png", "b.png", 10, 10)
    conversations = []
    for records in ((record,), (record,), (record, other)):
        command = ask(asker, bridge, vision_model, *records)
        conversations.append(command.conversation_id)
        with qtbot.waitSignal(asker.ended):
            bridge.host.post(Finished(command.request_id, "end", USAGE, TIMINGS, "device"))
    assert conversations[0] == conversations[1] != conversations[2]


def test_the_answer_streams_and_is_saved_with_its_statistics(
    qtbot: QtBot,
    asker: Asking,
    bridge: ScriptedBridge,
    context: AppContext,
    vision_model: ModelInfo,
    record: ImageRecord,
) -> None:
    painted: list[str] = []
    statuses: list[str] = []
    asker.text_added.connect(lambda _, text: painted.append(text))
    asker.status_changed.connect(lambda _, words: statuses.append(words))
    command = ask(asker, bridge, vision_model, record)
    key = command.request_id
    bridge.host.post(Queued(key, 0), PrefillProgress(key, 80, 90, 100), TextDelta(key, "A red "))
    qtbot.waitUntil(lambda: painted == ["A red "])
    bridge.host.post(TextDelta(key, "circle."))
    qtbot.waitUntil(lambda: "".join(painted) == "A red circle.")
    with qtbot.waitSignal(asker.ended):
        bridge.host.post(Finished(key, "end", USAGE, TIMINGS, "Simulated ARIES (CPU)"))
    assert statuses[-2:] == ["Reading the picture: 90 of 100 tokens, 80 of them reused", "Writing…"]
    (answer,) = context.store.images.answers(record.id)
    assert (answer.question, answer.text) == ("What is it?", "A red circle.")
    assert answer.result.usage == USAGE
    assert answer.result.timings == TIMINGS
    assert answer.device == "Simulated ARIES (CPU)"
    assert asker.running is None


def test_a_half_written_answer_is_on_disk(
    qtbot: QtBot,
    asker: Asking,
    bridge: ScriptedBridge,
    context: AppContext,
    vision_model: ModelInfo,
    record: ImageRecord,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(asking, "SAVE_SECONDS", 0.0)
    command = ask(asker, bridge, vision_model, record)
    bridge.host.post(TextDelta(command.request_id, "Half an"))

    def saved() -> list[tuple[str]]:
        with sqlite3.connect(context.paths.database) as reader:
            return reader.execute("SELECT text FROM image_answers").fetchall()

    qtbot.waitUntil(lambda: saved() == [("Half an",)])
    reopened = Store(context.paths.database)
    assert [answer.text for answer in reopened.images.answers(record.id)] == ["Half an"]
    reopened.close()


def test_stop_is_asked_for_once_and_keeps_what_came(
    qtbot: QtBot, asker: Asking, bridge: ScriptedBridge, vision_model: ModelInfo, record: ImageRecord
) -> None:
    command = ask(asker, bridge, vision_model, record)
    asker.stop()
    asker.stop()
    assert bridge.host.cancelled == [command.request_id]
    assert asker.stopping
    with qtbot.waitSignal(asker.ended) as ended:
        bridge.host.post(
            TextDelta(command.request_id, "Late"),
            Finished(command.request_id, "cancelled", USAGE, TIMINGS, "device"),
        )
    answer: ImageAnswer = ended.args[0]
    assert (answer.text, answer.result.reason) == ("Late", "cancelled")
    assert ask(asker, bridge, vision_model, record).request_id != command.request_id


def test_a_failure_is_kept_with_the_question(
    qtbot: QtBot,
    asker: Asking,
    bridge: ScriptedBridge,
    context: AppContext,
    vision_model: ModelInfo,
    record: ImageRecord,
) -> None:
    command = ask(asker, bridge, vision_model, record)
    error = ContextFullError("The picture is too long.", remedy="Use a smaller one.").info
    with qtbot.waitSignal(asker.ended):
        bridge.host.post(Failed(command.request_id, error))
    assert context.store.images.answers(record.id)[0].result.error == error


def test_a_second_question_waits_for_the_first(
    asker: Asking, bridge: ScriptedBridge, vision_model: ModelInfo, record: ImageRecord
) -> None:
    ask(asker, bridge, vision_model, record)
    ask(asker, bridge, vision_model, record)
    assert len(bridge.host.sent(Generate)) == 1
