"""One question about each of several pictures: what is sent, kept, stopped, gone on with and asked again."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.image.round_panel import round_words
from mblt_desktop.image.rounds import SAME_FAILURES, Item, Rounds
from mblt_desktop.store.records import ImageAnswer, ImageRecord, Result
from mblt_desktop.store.store import Store
from runtime.errors import DeviceLostError, ErrorInfo, ImageError
from runtime.layout.request import EffectiveLayout
from runtime.messages import (
    Failed,
    Finished,
    ForgetConversation,
    Generate,
    ImagePart,
    LaneFaulted,
    ModelFailed,
    ModelInfo,
    Queued,
    TextDelta,
    TextPart,
    Timings,
    Usage,
    model_lane,
)
from tests.ui.conftest import Post, ScriptedBridge

USAGE, TIMINGS = Usage(100, 0, 21), Timings(0.1, 0.0, 0.0, 0.5, 2.0, 0.6, 2.6)
QUESTION = "What is the total?"
COUNT = 5


@pytest.fixture
def rounds(qtbot: QtBot, context: AppContext) -> Iterator[Rounds]:
    rounds = Rounds(context)
    yield rounds
    rounds.deleteLater()


@pytest.fixture
def records(context: AppContext) -> list[ImageRecord]:
    made = [ImageRecord(f"/media/{name}.png", f"{name}.png", 10, 10) for name in "abcde"]
    for record in made:
        context.store.images.add(record)
    return made


def batch(model: ModelInfo, slots: int) -> ModelInfo:
    return replace(model, layout=EffectiveLayout("aries", "single", (), (), (0,), 1, slots))


class Engine:
    """Answers what was sent, as a test says."""

    def __init__(self, bridge: ScriptedBridge, post: Post) -> None:
        self._bridge, self._post = bridge, post
        self.done: set[str] = set()

    @property
    def open(self) -> list[Generate]:
        return [one for one in self._bridge.host.sent(Generate) if one.request_id not in self.done]

    def of(self, name: str) -> Generate:
        return next(one for one in self.open if one.turns[0].parts[0] == ImagePart(f"/media/{name}.png"))

    def answer(self, name: str, text: str = "Forty.") -> None:
        command = self.of(name)
        self.done.add(command.request_id)
        end = Finished(command.request_id, "end", USAGE, TIMINGS, "device")
        self._post(TextDelta(command.request_id, text), end)

    def cancelled(self, name: str, *said: str) -> None:
        command = self.of(name)
        self.done.add(command.request_id)
        words = [TextDelta(command.request_id, text) for text in said]
        usage = replace(USAGE, completion=len(words))
        self._post(*words, Finished(command.request_id, "cancelled", usage, TIMINGS, "device"))

    def fail(self, name: str, error: Exception) -> None:
        command = self.of(name)
        self.done.add(command.request_id)
        self._post(Failed(command.request_id, error.info))  # type: ignore[attr-defined]


@pytest.fixture
def engine(bridge: ScriptedBridge, post: Post) -> Engine:
    return Engine(bridge, post)


def states(rounds: Rounds) -> list[str]:
    return [item.state for item in rounds.items]


def test_each_picture_is_asked_about_in_the_background_and_its_answer_is_its_own(
    rounds: Rounds,
    engine: Engine,
    records: list[ImageRecord],
    vision_model: ModelInfo,
    context: AppContext,
    bridge: ScriptedBridge,
) -> None:
    rounds.start(vision_model, records, QUESTION, again=False)
    first, second = engine.open
    assert first.priority == "background"
    assert first.turns[0].parts == (ImagePart("/media/a.png"), TextPart(QUESTION))
    assert first.conversation_id != second.conversation_id
    assert first.conversation_id != f"image:{records[0].id}", "nobody who asks now waits for it"
    for name in "abcde":
        engine.answer(name, f"{name} has it.")
        assert len(engine.open) <= 2, "one slot: one is answered, one waits"
    assert states(rounds) == ["answered"] * COUNT
    assert not rounds.running
    for record, name in zip(records, "abcde", strict=True):
        (answer,) = context.store.images.answers(record.id)
        assert (answer.question, answer.text) == (QUESTION, f"{name} has it.")
        assert answer.result.usage == USAGE
    forgotten = [command.conversation_id for command in bridge.host.sent(ForgetConversation)]
    assert forgotten == [command.conversation_id for command in bridge.host.sent(Generate)]


def test_every_slot_of_a_batch_model_gets_a_picture(
    rounds: Rounds, engine: Engine, records: list[ImageRecord], vision_model: ModelInfo
) -> None:
    rounds.start(batch(vision_model, 4), records, QUESTION, again=False)
    assert len(engine.open) == COUNT


def test_why_a_picture_waits_is_said_with_the_question_it_waits_for(
    rounds: Rounds,
    engine: Engine,
    records: list[ImageRecord],
    vision_model: ModelInfo,
    context: AppContext,
    post: Post,
) -> None:
    rounds.start(vision_model, records, QUESTION, again=False)
    context.dispatcher.watch("chat", lambda _: None, "What is the weather?")
    first = engine.open[0].request_id
    post(Queued(first, 0, "next"), TextDelta(first, "For"))
    assert round_words(rounds) == "Now: a.png"
    post(Queued(first, 1, "gave_way", "chat"))
    waits = "a.png: Gave way, and goes on after what somebody asks now: “What is the weather?”"
    assert round_words(rounds) == waits
    post(TextDelta(first, "ty."))
    assert round_words(rounds) == "Now: a.png"
    engine.answer("a", "")
    assert rounds.items[0].answer is not None
    assert rounds.items[0].answer.text == "Forty."
    assert rounds.seconds_left is not None


def test_stop_all_keeps_what_came_and_asks_no_more(
    rounds: Rounds,
    engine: Engine,
    records: list[ImageRecord],
    vision_model: ModelInfo,
    context: AppContext,
    bridge: ScriptedBridge,
) -> None:
    rounds.start(vision_model, records, QUESTION, again=False)
    engine.answer("a")
    sent = len(bridge.host.sent(Generate))
    rounds.stop_all()
    assert sorted(bridge.host.cancelled) == sorted(one.request_id for one in engine.open)
    engine.cancelled("b", "Thir")
    engine.cancelled("c")
    assert states(rounds) == ["answered", "left", "left", "left", "left"]
    assert not rounds.running
    assert len(bridge.host.sent(Generate)) == sent
    kept = [[one.text for one in context.store.images.answers(record.id)] for record in records]
    assert kept == [["Forty."], ["Thir"], [], [], []]


def test_after_a_fault_of_the_models_thread_the_answers_come_and_can_be_stopped(
    rounds: Rounds,
    engine: Engine,
    post: Post,
    records: list[ImageRecord],
    vision_model: ModelInfo,
    bridge: ScriptedBridge,
) -> None:
    rounds.start(vision_model, records, QUESTION, again=False)
    post(LaneFaulted(model_lane(vision_model.model_id), ErrorInfo("internal", "The engine broke.")))
    engine.answer("a")
    assert states(rounds)[0] == "answered"
    rounds.stop_all()
    assert sorted(bridge.host.cancelled) == sorted(one.request_id for one in engine.open)


def test_one_is_stopped_and_the_others_go_on(
    rounds: Rounds, engine: Engine, records: list[ImageRecord], vision_model: ModelInfo
) -> None:
    rounds.start(vision_model, records, QUESTION, again=False)
    rounds.stop(rounds.items[1])
    rounds.stop(rounds.items[4])
    engine.cancelled("b")
    for name in "acd":
        engine.answer(name)
    assert states(rounds) == ["answered", "left", "answered", "answered", "left"]
    assert not rounds.running


def test_after_a_quit_what_was_answered_is_kept_and_the_rest_is_gone_on_with(
    rounds: Rounds,
    engine: Engine,
    records: list[ImageRecord],
    vision_model: ModelInfo,
    context: AppContext,
    bridge: ScriptedBridge,
) -> None:
    rounds.start(vision_model, records, QUESTION, again=False)
    engine.answer("a")
    engine.cancelled("b", "Half an ans")  # the end of the program, not of the user
    engine.cancelled("c")
    assert not rounds.running
    assert context.store.close()
    context.store = reopened = Store(context.paths.database)
    later = Rounds(context)
    assert states(later) == ["answered", "left", "left", "left", "left"]
    assert later.asked == rounds.asked
    rounds.deleteLater()
    later.go_on(vision_model)
    for name in "bcde":
        engine.answer(name)
    assert states(later) == ["answered"] * COUNT
    assert [len(reopened.images.answers(record.id)) for record in records] == [1] * COUNT
    later.deleteLater()
    assert reopened.close()


def test_known_answers_are_skipped_or_asked_for_again(
    rounds: Rounds, engine: Engine, records: list[ImageRecord], vision_model: ModelInfo, context: AppContext
) -> None:
    done = Result("end", USAGE, TIMINGS)
    for record, question, result in (
        (records[1], QUESTION, done),
        (records[2], "Another question?", done),
        (records[3], QUESTION, Result("cancelled", USAGE, TIMINGS)),
    ):
        earlier = ImageAnswer(record.id, question, "Before.", result=result, created_at=1.0)
        context.store.images.save_answer(earlier)
    assert rounds.known(vision_model, records, QUESTION) == [records[1]]
    rounds.start(vision_model, records, QUESTION, again=False)
    assert states(rounds) == ["waiting", "answered", "waiting", "waiting", "waiting"]
    for name in "acde":
        engine.answer(name)
    rounds.start(vision_model, records, QUESTION, again=True)
    assert states(rounds) == ["waiting"] * COUNT
    for name in "abcde":
        engine.answer(name, "Now.")
    answer = rounds.items[1].answer
    assert answer is not None
    assert answer.text == "Now."


def test_a_picture_that_fails_fails_alone_and_can_be_tried_again(
    rounds: Rounds, engine: Engine, records: list[ImageRecord], vision_model: ModelInfo, context: AppContext
) -> None:
    rounds.start(vision_model, records, QUESTION, again=False)
    engine.fail("a", ImageError("a.png is damaged.", remedy="Choose another."))
    for name in "bcde":
        engine.answer(name)
    assert states(rounds) == ["failed", *["answered"] * 4]
    assert rounds.problem is None
    assert context.store.images.answers(records[0].id)[0].result.error is not None
    rounds.go_on(vision_model)
    assert [one.turns[0].parts[0] for one in engine.open] == [ImagePart("/media/a.png")]
    engine.answer("a")
    assert states(rounds) == ["answered"] * COUNT


def test_a_picture_that_left_the_gallery_is_not_asked_about(
    rounds: Rounds, engine: Engine, records: list[ImageRecord], vision_model: ModelInfo, context: AppContext
) -> None:
    rounds.start(vision_model, records, QUESTION, again=False)
    context.store.images.delete(records[0].id)  # it is being answered
    context.store.images.delete(records[3].id)
    for name in "abce":
        engine.answer(name)
    assert states(rounds) == ["answered"] * 3
    assert [item.record.name for item in rounds.items] == ["b.png", "c.png", "e.png"]
    assert engine.open == []


def test_when_all_fail_alike_the_round_ends_with_the_reason(
    rounds: Rounds, engine: Engine, records: list[ImageRecord], vision_model: ModelInfo
) -> None:
    rounds.start(vision_model, records, QUESTION, again=False)
    error = ImageError("It cannot be read.", remedy="Choose another.")
    for name in "abcde"[:SAME_FAILURES]:
        engine.fail(name, error)
    engine.cancelled("d")
    assert states(rounds) == ["failed"] * SAME_FAILURES + ["left", "left"]
    assert rounds.problem == error.info
    assert not rounds.running


def test_a_lost_device_is_no_pictures_fault(
    rounds: Rounds,
    engine: Engine,
    records: list[ImageRecord],
    vision_model: ModelInfo,
    context: AppContext,
    post: Post,
) -> None:
    rounds.start(vision_model, records, QUESTION, again=False)
    error = DeviceLostError("The device is gone.", remedy="Load the model again.")
    engine.fail("a", error)
    engine.fail("b", error)
    post(ModelFailed(vision_model.model_id, error.info))
    assert engine.open == []
    assert states(rounds) == ["left"] * COUNT
    assert rounds.problem == error.info
    assert all(context.store.images.answers(record.id) == [] for record in records)
    rounds.go_on(vision_model)
    assert len(engine.open) == 2
    assert rounds.problem is None
    for name in "abcde":
        engine.answer(name)


def test_a_description_goes_on_from_its_beginning(
    rounds: Rounds, engine: Engine, records: list[ImageRecord], vision_model: ModelInfo
) -> None:
    blip = replace(vision_model, family="blip")
    rounds.start(blip, records[:1], "a photograph of", again=False)
    assert engine.of("a").turns[0].parts[1] == TextPart("a photograph of")
    engine.answer("a", "a field")
    item: Item = rounds.items[0]
    assert item.answer is not None
    assert (item.answer.question, item.answer.text) == ("Describe", "a photograph of a field")
    assert rounds.known(blip, records[:1], "a photograph of") == records[:1]
    assert rounds.known(blip, records[:1], "a painting of") == []


def test_what_is_shown_no_more_is_forgotten_and_the_answers_stay(
    rounds: Rounds, engine: Engine, records: list[ImageRecord], vision_model: ModelInfo, context: AppContext
) -> None:
    rounds.start(vision_model, records[:1], QUESTION, again=False)
    rounds.dismiss()
    assert rounds.asked is not None, "not while it is under way"
    engine.answer("a")
    rounds.dismiss()
    assert (rounds.asked, rounds.items, context.store.rounds.latest) == (None, [], None)
    assert len(context.store.images.answers(records[0].id)) == 1
