"""Rounds on the real runtime: who asks now comes first, a batch model is kept full, every answer is right."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from mblt_desktop.chat.session import ChatSession
from mblt_desktop.context import AppContext
from mblt_desktop.image.asking import Asking
from mblt_desktop.image.rounds import Rounds
from mblt_desktop.paths import Paths
from mblt_desktop.store.records import ImageRecord
from mblt_desktop.store.store import Store
from runtime.layout.request import LayoutRequest
from runtime.messages import Event, Finished, LoadModel, ModelInfo, Queued, TextDelta
from runtime.simulator.build import build_artifact
from tests.runtime.families.pictured import saved, user
from tests.runtime.families.test_image_again import CONTEXT, Model, make_model
from tests.ui.image.conftest import on_the_real_runtime

QUESTION, NOW = "What is it?", "And this, now?"
TOKENS = 64
SLOTS = 3
PATIENCE = 60_000


@pytest.fixture(scope="module")
def plain(tmp_path_factory: pytest.TempPathFactory) -> Model:
    return make_model("qwen3_vl", tmp_path_factory.mktemp("rounds"))


@pytest.fixture
def context(qapp: object, paths: Paths) -> Iterator[AppContext]:
    yield from on_the_real_runtime(paths, TOKENS)


@pytest.fixture
def pictures(tmp_path: Path, context: AppContext) -> list[ImageRecord]:
    made = []
    for seed in range(5):
        path = saved(tmp_path, 56 + 28 * (seed % 2), 56, seed)
        made.append(ImageRecord(str(path), path.name, 84, 56))
        context.store.images.add(made[-1])
    return made


@pytest.fixture
def load(qtbot: QtBot, context: AppContext) -> Callable[[Path], ModelInfo]:
    def load(folder: Path) -> ModelInfo:
        with qtbot.waitSignal(context.dispatcher.model_loaded, timeout=PATIENCE) as loaded:
            context.submit(LoadModel("vl", str(folder), LayoutRequest()))
        info: ModelInfo = loaded.args[0].info
        return info

    return load


def right(plain: Model, record: ImageRecord, question: str) -> str:
    """What plain transformers answer about the picture alone."""
    return plain.text(plain.answer([user(question, Path(record.path))], TOKENS))


def test_a_question_asked_now_comes_before_the_round_and_nothing_is_lost(
    qtbot: QtBot,
    context: AppContext,
    plain: Model,
    pictures: list[ImageRecord],
    load: Callable[[Path], ModelInfo],
) -> None:
    info = load(plain.artifact)
    rounds, asking = Rounds(context), Asking(context)
    events: list[Event] = []
    words: set[str] = set()
    asked_during: list[str] = []

    def watch(event: Event) -> None:
        events.append(event)
        words.update(item.words for item in rounds.items)
        if isinstance(event, TextDelta) and not asked_during:
            asked_during.append(event.request_id)
            asking.ask(info, pictures[-1:], NOW)

    context.dispatcher.event_received.connect(watch)
    rounds.start(info, pictures[:4], QUESTION, again=False)
    qtbot.waitUntil(lambda: not rounds.running and asking.running is None, timeout=PATIENCE)
    (first,) = asked_during
    ended = [event.request_id for event in events if isinstance(event, Finished)]
    assert first in ended[1:], "the one that was being answered gave way"
    gave_way = next(one for one in events if isinstance(one, Queued) and one.cause == "gave_way")
    assert (gave_way.request_id, gave_way.behind) == (first, ended[0])
    assert f"Gave way, and goes on after what somebody asks now: “{NOW}”" in words
    assert f"Waits while somebody asks: “{NOW}”" in words
    for record in pictures[:4]:
        (answer,) = context.store.images.answers(record.id)
        assert answer.text == right(plain, record, QUESTION)
    (now,) = context.store.images.answers(pictures[4].id)
    assert now.text == right(plain, pictures[4], NOW)


def test_a_chat_with_the_same_model_comes_before_the_round(
    qtbot: QtBot,
    context: AppContext,
    plain: Model,
    pictures: list[ImageRecord],
    load: Callable[[Path], ModelInfo],
) -> None:
    info = load(plain.artifact)
    rounds, chat = Rounds(context), ChatSession(context)
    conversation = context.store.conversations.create()
    ended: list[str] = []
    words: set[str] = set()

    def watch(event: Event) -> None:
        words.update(item.words for item in rounds.items)
        if isinstance(event, Finished):
            ended.append(event.request_id)
        elif isinstance(event, TextDelta) and not context.store.conversations.tree(conversation.id).all():
            chat.send(conversation, NOW, info.model_id, info.title)

    context.dispatcher.event_received.connect(watch)
    rounds.start(info, pictures[:3], QUESTION, again=False)
    qtbot.waitUntil(lambda: not rounds.running and not chat.runs, timeout=PATIENCE)
    asked, answer = context.store.conversations.tree(conversation.id).all()
    assert ended[0] == answer.id
    assert answer.text == plain.text(plain.answer([user(NOW)], TOKENS))
    assert f"Waits while somebody asks: “{NOW}”" in words
    assert asked.text == NOW
    for record in pictures[:3]:
        (kept,) = context.store.images.answers(record.id)
        assert kept.text == right(plain, record, QUESTION)


def test_a_batch_model_answers_about_as_many_pictures_at_once_as_it_can(
    qtbot: QtBot,
    context: AppContext,
    plain: Model,
    pictures: list[ImageRecord],
    load: Callable[[Path], ModelInfo],
    tmp_path: Path,
) -> None:
    folder = tmp_path / "batch"
    checkpoint = plain.artifact.parent / "checkpoint"
    build_artifact(checkpoint, folder, prefill_chunk=32, context_length=CONTEXT, max_batch_size=SLOTS)
    info = load(folder)
    rounds = Rounds(context)
    said: list[str] = []
    ended: list[str] = []

    def watch(event: Event) -> None:
        if isinstance(event, TextDelta):
            said.append(event.request_id)
        elif isinstance(event, Finished):
            ended.append(event.request_id)

    context.dispatcher.event_received.connect(watch)
    rounds.start(info, pictures, QUESTION, again=False)
    qtbot.waitUntil(lambda: not rounds.running, timeout=PATIENCE)
    spans = {key: (said.index(key), len(said) - said[::-1].index(key)) for key in ended}
    at_once = [sum(begin <= place < end for begin, end in spans.values()) for place in range(len(said))]
    assert max(at_once) == SLOTS
    assert sum(count == SLOTS for count in at_once) > len(said) / 3, "another joins when one has left"
    for record in pictures:
        (answer,) = context.store.images.answers(record.id)
        assert answer.text == right(plain, record, QUESTION)


def test_the_end_of_the_program_keeps_what_was_answered_and_offers_the_rest(
    qtbot: QtBot,
    context: AppContext,
    plain: Model,
    pictures: list[ImageRecord],
    load: Callable[[Path], ModelInfo],
) -> None:
    info = load(plain.artifact)
    rounds = Rounds(context)
    rounds.start(info, pictures, QUESTION, again=False)
    qtbot.waitUntil(lambda: rounds.count("answered") == 2 and rounds.count("writing") == 1, timeout=PATIENCE)
    assert context.bridge.host.stop() == []
    context.dispatcher.deliver()  # as the end of the program does
    assert not rounds.running
    assert context.store.close()
    again = Store(context.paths.database)
    try:
        context.store = again
        later = Rounds(context)
        done = later.count("answered")
        assert (done, later.count("left")) == (rounds.count("answered"), 5 - done)
        assert 2 <= done < 5
        kept = [[answer.text for answer in again.images.answers(record.id)] for record in pictures]
        expected = [[right(plain, record, QUESTION)] for record in pictures[:done]]
        assert kept == expected + [[]] * (5 - done)
    finally:
        again.close()
