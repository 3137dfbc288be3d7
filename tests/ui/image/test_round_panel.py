"""A round as it is seen: begun, decided about, watched, stopped, gone on with, shown as a table, saved."""

from __future__ import annotations

import csv
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.image.pane import ImagePane
from mblt_desktop.store.records import ImageAnswer, ImageRecord, ImageRound, Result
from runtime.errors import DeviceLostError
from runtime.messages import (
    Failed,
    Finished,
    Generate,
    ImagePart,
    ModelFailed,
    ModelInfo,
    ModelLoaded,
    Queued,
    TextDelta,
    Timings,
    Usage,
)
from tests.ui.conftest import Post, RecordingShell, ScriptedBridge

USAGE, TIMINGS = Usage(100, 0, 21), Timings(0.1, 0.0, 0.0, 0.5, 2.0, 0.6, 2.6)
QUESTION = "What is the total?"
Photo = Callable[..., Path]


@pytest.fixture
def full(qtbot: QtBot, pane: ImagePane, photo: Photo, post: Post, vision_model: ModelInfo) -> ImagePane:
    """Four pictures in the gallery, and a model."""
    post(ModelLoaded(vision_model))
    pane.open_files([photo(f"{colour}.png", colour) for colour in ("red", "green", "blue", "white")])
    qtbot.waitUntil(lambda: pane.model.rowCount() == 4)
    return pane


def begin(qtbot: QtBot, pane: ImagePane, question: str = QUESTION) -> None:
    qtbot.keyClick(pane.gallery, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    pane.ask.question.edit.setPlainText(question)
    qtbot.keyClick(pane.ask.question.edit, Qt.Key.Key_Return)


def answer(bridge: ScriptedBridge, post: Post, number: int, text: str = "Forty.") -> None:
    command = bridge.host.sent(Generate)[number]
    post(TextDelta(command.request_id, text), Finished(command.request_id, "end", USAGE, TIMINGS, "device"))


def test_all_pictures_are_asked_about_with_the_keyboard_alone(
    qtbot: QtBot, full: ImagePane, bridge: ScriptedBridge, post: Post
) -> None:
    panel = full.ask.rounds
    assert not panel.isVisible()
    begin(qtbot, full)
    assert full.page.header.title == "4 pictures, the first 2 shown"
    assert panel.card.isVisible()
    assert full.ask.question.each.text() == "Ask about 4 pictures"
    assert "already" in full.ask.question.each.toolTip()
    assert not full.ask.question.each.isEnabled()
    first = bridge.host.sent(Generate)[0].request_id
    post(Queued(first, 1, "interactive", "nobody"))
    facts = panel.card.progress._facts
    qtbot.waitUntil(lambda: "Waits while somebody asks" in facts.text())
    for number in range(4):
        answer(bridge, post, number)
    qtbot.waitUntil(lambda: facts.text() == "4 of 4 answered")
    assert [card.answer.text for card in full.ask.answers.cards] == ["Forty."], "the picture that is shown"
    assert full.ask.question.each.toolTip() == "Write a question first, or choose one above."
    qtbot.mouseClick(panel.card.dismiss, Qt.MouseButton.LeftButton)
    assert not panel.isVisible()


def test_somebody_can_ask_about_one_picture_meanwhile(
    qtbot: QtBot, full: ImagePane, bridge: ScriptedBridge, post: Post
) -> None:
    begin(qtbot, full)
    full.gallery.choose(full.model.index(0))
    full.ask.question.edit.setPlainText("What colour?")
    qtbot.mouseClick(full.ask.question.ask, Qt.MouseButton.LeftButton)
    mine = bridge.host.sent(Generate)[-1]
    assert mine.priority == "interactive"
    first = bridge.host.sent(Generate)[0].request_id
    post(Queued(first, 1, "interactive", mine.request_id))
    facts = full.ask.rounds.card.progress._facts
    qtbot.waitUntil(lambda: "somebody asks: “What colour?”" in facts.text())
    post(Finished(mine.request_id, "end", USAGE, TIMINGS, "device"))


def test_a_round_of_an_earlier_run_is_offered_to_be_gone_on_with(
    qtbot: QtBot, context: AppContext, bridge: ScriptedBridge, post: Post, vision_model: ModelInfo
) -> None:
    records = [ImageRecord(f"/media/{name}.png", f"{name}.png", 10, 10) for name in "abc"]
    for record in records:
        context.store.images.add(record)
    kept = ImageAnswer(records[0].id, QUESTION, "Forty.", result=Result("end", USAGE, TIMINGS))
    context.store.images.save_answer(kept)
    context.store.rounds.save(ImageRound(QUESTION, tuple(record.id for record in records)))
    pane = ImagePane(context)
    qtbot.addWidget(pane)
    pane.show()
    card = pane.ask.rounds.card
    assert card.isVisible()
    assert (card.go_on.text(), card.go_on.isEnabled()) == ("Continue: 2 left", False)
    assert card.progress._facts.text() == "1 of 3 answered · 2 not answered"
    post(ModelLoaded(vision_model))
    qtbot.keyClick(card.go_on, Qt.Key.Key_Space)
    asked = [command.turns[0].parts[0] for command in bridge.host.sent(Generate)]
    assert asked == [ImagePart("/media/b.png"), ImagePart("/media/c.png")]
    for number in range(2):
        answer(bridge, post, number)
    pane.loader.close()


def test_two_pictures_are_asked_about_together_or_each(
    qtbot: QtBot, full: ImagePane, bridge: ScriptedBridge
) -> None:
    box = full.ask.question
    full.gallery.choose(full.model.index(0))
    assert not box.each.isVisible()
    qtbot.keyClick(full.gallery, Qt.Key.Key_Down, Qt.KeyboardModifier.ShiftModifier)
    assert (box.ask.isVisible(), box.each.isVisible()) == (True, True)
    box.edit.setPlainText(QUESTION)
    qtbot.mouseClick(box.each, Qt.MouseButton.LeftButton)
    assert [len(command.turns[0].parts) for command in bridge.host.sent(Generate)] == [2, 2]
    full.ask.rounds.rounds.stop_all()


def test_the_selection_says_how_many_and_offers_all(qtbot: QtBot, full: ImagePane) -> None:
    panel = full._panel
    full.gallery.choose(full.model.index(0))
    assert panel._selected.text() == "1 of 4 selected"
    qtbot.mouseClick(panel.select_all, Qt.MouseButton.LeftButton)
    assert panel._selected.text() == "4 of 4 selected"
    assert not panel.select_all.isVisible()


def test_known_answers_are_named_and_skipped_or_asked_for_again(
    qtbot: QtBot, full: ImagePane, bridge: ScriptedBridge, post: Post, context: AppContext
) -> None:
    records = full.model._rows
    known = ImageAnswer(records[1].id, QUESTION, "Before.", result=Result("end", USAGE, TIMINGS))
    context.store.images.save_answer(known)
    panel = full.ask.rounds
    begin(qtbot, full)
    assert bridge.host.sent(Generate) == []
    assert f"1 of 4 pictures has an answer to this already: {records[1].name}." in panel.choice.words.text()
    assert panel.choice.skip.text() == "Ask about the other 3 only"
    qtbot.keyClick(panel.choice.cancel, Qt.Key.Key_Space)
    assert not panel.choice.isVisible()
    begin(qtbot, full)
    qtbot.keyClick(panel.choice.skip, Qt.Key.Key_Space)
    for number in range(3):
        answer(bridge, post, number)
    assert not panel.rounds.running
    assert len(context.store.images.answers(records[1].id)) == 1
    qtbot.waitUntil(lambda: not panel.blocked and panel.card.dismiss.isVisible())
    begin(qtbot, full)
    assert panel.choice.skip.text() == "Show these answers"
    qtbot.keyClick(panel.choice.again, Qt.Key.Key_Space)
    for number in range(3, 7):
        answer(bridge, post, number, "Now.")
    assert [one.text for one in context.store.images.answers(records[1].id)] == ["Before.", "Now."]


def test_stopped_by_a_lost_device_it_says_so_and_goes_on_with_a_model(
    qtbot: QtBot, full: ImagePane, bridge: ScriptedBridge, post: Post, vision_model: ModelInfo
) -> None:
    begin(qtbot, full)
    card = full.ask.rounds.card
    error = DeviceLostError("The device is gone.", remedy="Load the model again.").info
    for command in bridge.host.sent(Generate):
        post(Failed(command.request_id, error))
    post(ModelFailed(vision_model.model_id, error))
    qtbot.waitUntil(lambda: card.go_on.isVisible())
    assert card.go_on.text() == "Continue: 4 left"
    assert "The device is gone." in card.problem.text()
    assert "Load the model again." in card.problem.text()
    assert not card.go_on.isEnabled()
    assert card.go_on.toolTip() == "Load an image model first."
    post(ModelLoaded(replace(vision_model, family="blip", title="BLIP")))
    assert card.go_on.toolTip() == "BLIP takes no question: load a model that does."
    post(ModelLoaded(vision_model))
    sent = len(bridge.host.sent(Generate))
    qtbot.mouseClick(card.go_on, Qt.MouseButton.LeftButton)
    assert len(bridge.host.sent(Generate)) == sent + 2
    qtbot.mouseClick(card.stop, Qt.MouseButton.LeftButton)
    assert len(bridge.host.cancelled) == 2


def test_all_answers_in_one_table_and_saved(
    qtbot: QtBot,
    full: ImagePane,
    bridge: ScriptedBridge,
    post: Post,
    shell: RecordingShell,
    tmp_path: Path,
) -> None:
    begin(qtbot, full)
    panel = full.ask.rounds
    qtbot.mouseClick(panel.card.table, Qt.MouseButton.LeftButton)
    dialog = panel.dialog
    assert dialog is not None
    assert dialog.table.accessibleName() == "Answers by picture"
    answer(bridge, post, 0, "**Forty**\nin all")
    cell = dialog.model.index(0, 1)
    qtbot.waitUntil(lambda: cell.data() == "**Forty** in all")
    qtbot.waitUntil(lambda: dialog.answer.toPlainText().split() == ["Forty", "in", "all"])
    assert dialog.model.index(0, 2).data() == "Answered"
    assert not dialog.stop_one.isEnabled()
    dialog.table.selectRow(3)
    qtbot.keyClick(dialog.stop_one, Qt.Key.Key_Space)
    qtbot.waitUntil(lambda: dialog.model.index(3, 2).data() == "Not answered")
    for name in ("all.csv", "all.md"):
        with qtbot.waitSignal(dialog.saved):
            dialog.save(tmp_path / name)
    with (tmp_path / "all.csv").open(newline="", encoding="utf-8-sig") as stream:
        rows = list(csv.reader(stream))
    assert [row[3] for row in rows] == ["State", "answered", "waiting", "waiting", "not answered"]
    assert "\\*\\*Forty\\*\\*<br>in all" in (tmp_path / "all.md").read_text()
    assert shell.toasts[-1][0] == f"Saved {tmp_path / 'all.md'}"
    dialog.save(tmp_path / "no such folder" / "all.csv")
    qtbot.waitUntil(lambda: dialog.banner.isVisible())
    assert dialog.banner.error is not None
    assert "The answers stay with their pictures." in dialog.banner.error.sentence()
    for number in (1, 2):
        answer(bridge, post, number)
    dialog.wait()
    dialog.close()
    assert QApplication.activeModalWidget() is None
