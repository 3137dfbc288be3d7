"""The chat pane as it is used, against a scripted runtime."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QUrl
from PySide6.QtGui import QGuiApplication

from mblt_desktop.chat.pane import ChatPane
from mblt_desktop.store.store import Store
from runtime.errors import ErrorInfo
from runtime.messages import (
    CallOverdue,
    Failed,
    ForgetConversation,
    Generate,
    LaneFaulted,
    ModelFailed,
    ModelLoaded,
    PrefillProgress,
    Queued,
    TextPart,
    Turn,
    model_lane,
)
from tests.ui.chat.conftest import DEVICE, click, finished, info, shown

# -- asking -----------------------------------------------------------------------------------------


def test_a_question_an_answer_and_its_facts(qtbot, pane, host, script):
    request = script.ask("Why are there two tides?")
    assert pane.composer.text == ""
    assert pane.composer.stop.isVisible()
    (command,) = host.sent(Generate)
    assert command.turns == (Turn("user", (TextPart("Why are there two tides?"),)),)
    host.post(Queued(request, 0, "loading"))
    qtbot.waitUntil(lambda: "Waiting: the model is still being loaded" in shown(pane))
    host.post(Queued(request, 1))
    qtbot.waitUntil(lambda: "Waiting: 1 before this one" in shown(pane))
    host.post(PrefillProgress(request, 540, 560, 571))
    qtbot.waitUntil(lambda: "560 of 571 tokens, 540 of them reused" in shown(pane))
    script.answer(request, "Because of ", "**two** bulges.")
    text = shown(pane)
    assert "Because of two bulges." in text
    for fact in (
        "26.4 tok/s",
        "first token 0.18 s",
        "214 tokens",
        "prompt 571: 540 reused, 31 new",
        "stopped: by itself",
        DEVICE,
    ):
        assert fact in text
    assert pane.composer.tokens.text() == "785 of 2048 tokens used"
    assert pane.inspector.answer.isVisible()
    assert pane.inspector.answer.values["Prefill"].text() == "0.17 s"
    assert pane.page.header.title == "Why are there two tides?"


def test_the_second_turn_holds_the_whole_branch_and_the_system_prompt(pane, host, script):
    pane.inspector.prompt.setPlainText("Be brief.")
    script.exchange("One", "1")
    script.ask("Two")
    roles = [(turn.role, turn.text) for turn in host.sent(Generate)[-1].turns]
    assert roles == [("system", "Be brief."), ("user", "One"), ("assistant", "1"), ("user", "Two")]


def test_sampling_of_the_conversation_over_the_users_over_the_models(qtbot, pane, host, script, context):
    rows = pane.inspector.rows
    host.post(ModelLoaded(info(sampling_defaults={"temperature": 0.2, "top_k": 50})))
    qtbot.waitUntil(lambda: rows["sampling.top_k"].edit.placeholderText() == "50")
    assert rows["sampling.top_k"].source.text() == "model"
    context.preferences.set("sampling.temperature", 0.5)
    assert (
        rows["sampling.temperature"].edit.placeholderText(),
        rows["sampling.temperature"].source.text(),
    ) == ("0.50", "you")
    edit = rows["sampling.temperature"].edit
    edit.setText("0.9")
    edit.editingFinished.emit()
    assert rows["sampling.temperature"].source.text() == "conversation"
    script.ask("Hello")
    sampling = host.sent(Generate)[-1].sampling
    assert (sampling.temperature, sampling.top_k) == (0.9, None)
    edit.setText("hot")
    edit.editingFinished.emit()
    assert rows["sampling.temperature"].source.text() == "not valid"
    edit.setText("")
    edit.editingFinished.emit()
    assert rows["sampling.temperature"].source.text() == "you"


def test_a_failed_answer_says_why_and_can_be_tried_again(qtbot, pane, host, script, context):
    request = script.ask("Hello")
    script.stream(request, "Half an ans")
    error = ErrorInfo(
        "device.lost", "The board went away.", "Reload the model.", "Your chat is unharmed.", "trace"
    )
    host.post(Failed(request, error))
    qtbot.waitUntil(lambda: "The board went away." in shown(pane))
    assert "Half an ans" in shown(pane)
    assert "Reload the model." in shown(pane)
    assert "Regenerate" not in shown(pane), "Retry is the same, and nearer"
    assert pane.composer.send.isVisible()
    click(pane, "details", request)
    assert context.shell.errors == [error]
    click(pane, "retry", request)
    again = host.sent(Generate)[-1]
    assert again.request_id != request
    assert again.turns == host.sent(Generate)[0].turns
    assert "1/2" not in shown(pane)
    script.answer(again.request_id, "Whole answer")
    assert "2/2" in shown(pane)


@pytest.mark.parametrize("model", ["smollm2", "vision"])
def test_an_answer_goes_on_and_can_be_stopped_after_a_fault_of_a_models_thread(
    qtbot, pane, host, script, model
):
    request = script.ask("Hello")
    host.post(LaneFaulted(model_lane(model), ErrorInfo("internal", "The engine broke.")))
    script.stream(request, "Still here")
    assert "Still here" in shown(pane)
    pane.composer.stop.click()
    assert host.cancelled == [request]
    host.post(finished(request, "cancelled"))
    qtbot.waitUntil(lambda: pane.session.runs == [])
    assert "The engine broke." not in shown(pane)


def test_a_device_that_does_not_answer_is_said_with_its_time_until_it_does(qtbot, pane, host, script):
    request = script.ask("Hello")
    script.stream(request, "Half")
    host.post(CallOverdue(request, time.mktime((2026, 11, 30, 14, 3, 12, 0, 0, -1)), 60.0))
    qtbot.waitUntil(lambda: "has not answered since 14:03:12" in shown(pane))
    assert pane.composer.stop.isEnabled()
    script.stream(request, " an answer")
    assert "has not answered" not in shown(pane)
    pane.composer.stop.click()
    assert host.cancelled == [request]
    stalled = ErrorInfo("device.stalled", "The device has not answered for 60 seconds.")
    host.post(Failed(request, stalled), ModelFailed("smollm2", stalled))
    qtbot.waitUntil(lambda: "The device has not answered for 60 seconds." in shown(pane))
    assert pane.header.model.text() == "smollm2 title (not loaded)"
    assert "Half an answer" in shown(pane)


# -- stopping ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("moment", ["before anything", "in the prompt", "in the answer"])
def test_stop_cancels_once_keeps_what_is_there_and_the_next_send_works(qtbot, pane, host, script, moment):
    request = script.ask("Tell me a long story")
    if moment == "in the prompt":
        host.post(PrefillProgress(request, 0, 128, 571))
    if moment == "in the answer":
        script.stream(request, "Once upon")
    pane.composer.stop.click()
    assert pane.composer.stop.text() == "Stopping…"
    assert not pane.composer.stop.isEnabled()
    pane.stop()
    assert host.cancelled == [request]
    assert "Stopping…" in shown(pane)
    host.post(finished(request, "cancelled", completion=2))
    qtbot.waitUntil(lambda: pane.composer.send.isVisible())
    assert "stopped: by you" in shown(pane)
    assert ("Once upon" in shown(pane)) == (moment == "in the answer")
    script.exchange("And now?", "Done")
    assert "Done" in shown(pane)


# -- several conversations ---------------------------------------------------------------------------


def test_switching_while_an_answer_arrives_keeps_it_in_its_own_chat(
    qtbot, pane, host, script, context, paths
):
    request = script.ask("Question in A")
    script.stream(request, "first ")
    chat_a = pane.conversation
    pane.new_chat()
    assert pane.composer.send.isVisible()
    pane.composer.set_text("half a thought in B")
    script.stream(request, "second ")
    assert "second" not in shown(pane)
    other = script.exchange("Question in B", "Answer in B")
    chat_b = pane.conversation
    script.stream(request, "third")
    pane.delete(chat_b.id)
    assert ForgetConversation(chat_b.id) in host.commands
    pane.open(chat_a.id)
    assert "first second third" in shown(pane)
    script.answer(request, " fourth")
    assert "first second third fourth" in shown(pane)
    assert "Answer in B" not in shown(pane)
    assert other != request
    context.store.close()
    again = Store(paths.database)
    texts = [message.text for message in again.conversations.tree(chat_a.id).path(None)]
    assert texts == ["Question in A", "first second third fourth"]
    again.close()


def test_a_draft_belongs_to_its_chat_and_survives_a_restart(qtbot, pane, script, paths, context):
    script.exchange("Question in A", "Answer")
    chat_a = pane.conversation
    pane.composer.set_text("draft in A")
    pane.new_chat()
    assert pane.composer.text == ""
    pane.composer.set_text("draft in a new chat")
    chat_b = pane.conversation
    pane.open(chat_a.id)
    assert pane.composer.text == "draft in A"
    pane.save()
    context.store.close()
    again = Store(paths.database)
    drafts = {row.id: row.draft for row in again.conversations.list()}
    assert drafts == {chat_a.id: "draft in A", chat_b.id: "draft in a new chat"}
    again.close()


def test_delete_can_be_taken_back(pane, script, context):
    script.exchange("Keep me", "Yes")
    chat = pane.conversation
    pane.delete(chat.id)
    assert pane.conversation.id != chat.id
    text, undo = context.shell.toasts[-1]
    assert text == "Deleted “Keep me”"
    undo()
    assert pane.conversation.id == chat.id
    assert "Yes" in shown(pane)


def test_the_list_groups_searches_and_pins(qtbot, pane, script):
    script.exchange("Sea and tides", "The Moon pulls")
    sea = pane.conversation
    pane.new_chat()
    script.exchange("Regex for logs", "Use groups")
    titles = [pane.history.list.item(index).text() for index in range(pane.history.list.count())]
    assert titles == ["Today", "Regex for logs", "Sea and tides"]
    pane.toggle_pin(sea.id)
    titles = [pane.history.list.item(index).text() for index in range(pane.history.list.count())]
    assert titles == ["Pinned", "Sea and tides", "Today", "Regex for logs"]
    pane.history.search.setText("moon")
    qtbot.waitUntil(lambda: pane.history.list.count() == 1)
    assert pane.history.list.item(0).text() == "Sea and tides\nThe Moon pulls"
    pane.history.list.setCurrentRow(0)
    assert pane.conversation is sea
    pane.history.search.setText("")
    qtbot.waitUntil(lambda: pane.history.list.count() == 4)


# -- branches ---------------------------------------------------------------------------------------


def test_regenerating_and_editing_make_branches_that_can_be_switched(pane, host, script):
    first = script.exchange("Name a colour", "Red")
    click(pane, "regenerate", first)
    second = host.sent(Generate)[-1].request_id
    script.answer(second, "Green")
    assert "Green" in shown(pane)
    assert "Red" not in shown(pane)
    assert "2/2" in shown(pane)
    click(pane, "previous", second)
    assert "Red" in shown(pane)
    question = pane.conversation_page.branch[0]
    click(pane, "edit", question.id)
    assert pane.composer.text == "Name a colour"
    third = script.ask("Name an animal")
    script.answer(third, "Cat")
    assert host.sent(Generate)[-1].turns == (Turn("user", (TextPart("Name an animal"),)),)
    assert "Red" not in shown(pane)
    click(pane, "previous", pane.conversation_page.branch[0].id)
    assert "Green" in shown(pane) or "Red" in shown(pane)
    tree = pane._store.tree(pane.conversation.id)
    assert len(tree) == 5


def test_an_edit_can_be_given_up_without_losing_the_draft(pane, script):
    script.exchange("Question", "Answer")
    pane.composer.set_text("my draft")
    click(pane, "edit", pane.conversation_page.branch[0].id)
    assert pane.composer.text == "Question"
    pane.composer.edit_cancelled.emit()
    assert pane.composer.text == "my draft"
    assert pane.conversation.draft == "my draft"


def test_copying_an_answer_and_its_code(pane, script):
    request = script.exchange("Code?", "Here:\n```python\nx = 1\n\ny = 2\n```\nDone")
    click(pane, "copy", request)
    assert QGuiApplication.clipboard().text() == "Here:\n```python\nx = 1\n\ny = 2\n```\nDone"
    click(pane, "copy-code", request)
    assert QGuiApplication.clipboard().text() == "x = 1\n\ny = 2"


# -- files ------------------------------------------------------------------------------------------


def test_text_files_are_written_into_the_message(qtbot, pane, tmp_path: Path):
    file = tmp_path / "노트 1.py"
    file.write_text("print('```')\n", encoding="utf-8")
    assert pane.accepts_drop([file])
    pane.open_files([file])
    qtbot.waitUntil(lambda: bool(pane.composer.text))
    assert pane.composer.text == "노트 1.py:\n````py\nprint('```')\n````\n"


@pytest.mark.parametrize(
    ("name", "data", "words"),
    [
        ("a.txt", b"\x80\x81\xff", "not a text file"),
        ("b.txt", b"x" * 70_000, "longer than 64 KB"),
        ("c.txt", None, "cannot be used"),
    ],
)
def test_files_that_cannot_be_used_are_refused_in_words(qtbot, pane, context, tmp_path, name, data, words):
    if data is not None:
        (tmp_path / name).write_bytes(data)
    pane.open_files([tmp_path / name])
    qtbot.waitUntil(lambda: len(context.shell.errors) == 1)
    assert name in context.shell.errors[0].summary
    assert words in context.shell.errors[0].summary
    assert pane.composer.text == ""


def test_pictures_need_an_image_model(qtbot, pane, host, script, context, tmp_path: Path):
    picture = tmp_path / "cat.png"
    picture.write_bytes(b"not looked at here")
    pane.open_files([picture])
    assert "reads text only" in context.shell.errors[0].summary
    host.post(ModelLoaded(info(kind="image")))
    qtbot.waitUntil(lambda: pane.models.loaded.kind == "image")
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(picture))])
    pane.composer.edit.insertFromMimeData(mime)
    qtbot.waitUntil(lambda: len(pane.composer.attachments) == 1)
    picture.unlink()
    script.ask("What is it?")
    part = host.sent(Generate)[-1].turns[0].parts[0]
    assert Path(part.path).read_bytes() == b"not looked at here"
    assert "Attached: cat.png" in shown(pane)
    assert pane.composer.attachments == ()


def test_exporting_the_chat(qtbot, pane, script, context, tmp_path, monkeypatch):
    script.exchange("Question", "Answer")
    dialog = "mblt_desktop.chat.pane.QFileDialog.getSaveFileName"
    monkeypatch.setattr(dialog, lambda *_: (str(tmp_path / "chat.md"), ""))
    pane.header.export_requested.emit("markdown")
    qtbot.waitUntil(lambda: bool(context.shell.toasts))
    assert "Answer" in (tmp_path / "chat.md").read_text(encoding="utf-8")
    monkeypatch.setattr(
        "mblt_desktop.chat.pane.QFileDialog.getSaveFileName",
        lambda *_: (str(tmp_path / "no" / "chat.json"), ""),
    )
    pane.header.export_requested.emit("json")
    qtbot.waitUntil(lambda: len(context.shell.errors) == 1)
    assert "chat.json" in context.shell.errors[0].summary


# -- the window's width -----------------------------------------------------------------------------


def test_the_inspector_gives_way_in_a_narrow_window_and_comes_back(pane):
    assert pane.inspector.isVisible()
    pane.resize(900, 600)
    assert not pane.inspector.isVisible()
    pane.header.panel.setChecked(True)
    assert pane.inspector.isVisible()
    pane.resize(1376, 866)
    assert pane.inspector.isVisible()
    pane.header.panel.setChecked(False)
    pane.resize(900, 600)
    pane.resize(1376, 866)
    assert not pane.inspector.isVisible()


def test_a_long_title_is_cut_and_the_buttons_stay(pane, script):
    script.exchange("A question with a long first line that does not fit into the header", "Yes")
    pane.resize(900, 600)
    export, title = pane.header.export, pane.page.header._title
    assert export.isVisible()
    assert title.geometry().right() < pane.header.model.geometry().left()
    assert pane.header.model.geometry().right() < export.geometry().left()
    assert title.toolTip() == pane.conversation.title


def test_lines_of_the_list_have_their_height_from_the_start(qtbot, context):
    conversation = context.store.conversations.create()
    context.store.conversations.update(conversation.id, title="There at the start", titled=True)
    pane = ChatPane(context)
    qtbot.addWidget(pane)
    pane.show()
    qtbot.waitUntil(lambda: pane.history.list.visualItemRect(pane.history.list.item(1)).height() > 24)
    pane.close_down()
