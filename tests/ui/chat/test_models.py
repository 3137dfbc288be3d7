"""Which model answers in the chat pane: fetched, loaded, chosen, one of several; and how a chat begins."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt, QTimer
from PySide6.QtWidgets import QApplication

from mblt_desktop.store.records import Attachment
from mblt_desktop.widgets import Button
from runtime.errors import ErrorInfo
from runtime.messages import (
    Failed,
    FetchModel,
    Generate,
    JobFinished,
    JobProgress,
    ListModels,
    LoadModel,
    ModelFailed,
    ModelLoaded,
    ModelLoading,
    ModelsListed,
    ModelUnloaded,
    UnloadModel,
)
from tests.ui.chat.conftest import info, row

# -- models -----------------------------------------------------------------------------------------


def test_a_first_start_offers_the_demo_models_and_loads_the_one_it_fetched(qtbot, empty_pane, host):
    assert not empty_pane.welcome.state.button.isVisible()
    empty_pane.start()
    assert host.commands == [ListModels()]
    host.post(ModelsListed((row(state="available"), row("whisper", "available", "speech", "cpu"))))
    qtbot.waitUntil(lambda: empty_pane.welcome.state.button.isVisible())
    assert not empty_pane.composer.send.isEnabled()
    empty_pane.welcome.state.button.click()
    fetches = host.sent(FetchModel)
    assert [fetch.model_id for fetch in fetches] == ["smollm2", "whisper"]
    host.post(JobProgress(fetches[0].request_id, "Downloading", 25, 100, 5e6))
    qtbot.waitUntil(lambda: len(empty_pane.welcome._jobs) == 2)
    host.post(
        JobFinished(fetches[0].request_id, "Installed"), JobFinished(fetches[1].request_id, "Installed")
    )
    qtbot.waitUntil(lambda: len(host.sent(ListModels)) == 3)
    host.post(ModelsListed((row(),)))
    qtbot.waitUntil(lambda: bool(host.sent(LoadModel)))
    assert host.sent(LoadModel)[0].folder == "/models/smollm2"


def test_a_fetch_can_be_cancelled_and_its_failure_is_said(qtbot, empty_pane, host, context):
    empty_pane.start()
    host.post(ModelsListed((row(state="available"),)))
    qtbot.waitUntil(lambda: empty_pane.welcome.state.button.isVisible())
    empty_pane.welcome.state.button.click()
    (fetch,) = host.sent(FetchModel)
    qtbot.waitUntil(lambda: bool(empty_pane.welcome._jobs))
    empty_pane.welcome._jobs["smollm2"].cancel.click()
    assert host.cancelled == [fetch.request_id]
    host.post(Failed(fetch.request_id, ErrorInfo("download.network", "No network.")))
    qtbot.waitUntil(lambda: len(context.shell.errors) == 1)
    assert empty_pane.welcome.state.button.isVisible()


def test_the_last_used_model_is_loaded_first_and_remembered(qtbot, empty_pane, host, context):
    context.preferences.set("state.chat_model", "b")
    empty_pane.start()
    host.post(ModelsListed((row("a"), row("b"))))
    qtbot.waitUntil(lambda: bool(host.sent(LoadModel)))
    assert host.sent(LoadModel)[0].model_id == "b"
    host.post(ModelLoading("b", "Reading the weights", 0.4))
    qtbot.waitUntil(lambda: empty_pane.header.model.text() == "Loading b title…")
    host.post(ModelLoaded(info("b")))
    qtbot.waitUntil(lambda: empty_pane.header.model.text() == "b title")


def test_without_loading_at_start_the_first_message_loads_the_model(qtbot, empty_pane, host, context):
    context.preferences.set("storage.load_last_model", False)
    empty_pane.start()
    host.post(ModelsListed((row(),)))
    qtbot.waitUntil(lambda: empty_pane.models.rows is not None)
    assert not host.sent(LoadModel)
    empty_pane.composer.set_text("Hello")
    empty_pane.composer.send.click()
    assert [type(command) for command in host.commands[-2:]] == [LoadModel, Generate]


def test_a_model_that_holds_no_conversation_is_not_offered(qtbot, empty_pane, host, context):
    empty_pane.start()
    blip = replace(row("blip", kind="image"), family="blip")
    silent = (row("bert", kind="other"), row("whisper", kind="speech"), blip)
    host.post(ModelsListed(silent))
    qtbot.waitUntil(lambda: empty_pane.models.rows is not None)
    assert empty_pane.models.installed == []
    assert empty_pane.models.ready() is None
    host.post(ModelLoaded(replace(info("blip", kind="image"), family="blip")))  # for the Image pane
    qtbot.waitUntil(lambda: "blip" in context.dispatcher.loaded)
    assert empty_pane.models.loaded is None
    host.post(ModelsListed((*silent, row("a"))))
    qtbot.waitUntil(lambda: bool(host.sent(LoadModel)))
    assert [each.model_id for each in host.sent(LoadModel)] == ["a"]


def test_a_model_that_cannot_be_loaded_is_said_and_another_can_be_chosen(qtbot, empty_pane, host, context):
    empty_pane.start()
    host.post(ModelsListed((row(),)))
    qtbot.waitUntil(lambda: bool(host.sent(LoadModel)))
    host.post(ModelFailed("smollm2", ErrorInfo("model.damaged", "weights.mxq is damaged.")))
    qtbot.waitUntil(lambda: len(context.shell.errors) == 1)
    assert empty_pane.header.model.text() == "smollm2 title (not loaded)"


def test_a_load_that_was_cancelled_in_the_models_pane_is_not_waited_for(qtbot, empty_pane, host):
    empty_pane.start()
    host.post(ModelsListed((row(),)))
    qtbot.waitUntil(lambda: bool(host.sent(LoadModel)))
    host.post(ModelLoading("smollm2", "Reading the weights", 0.4))
    host.post(ModelUnloaded("smollm2", cancelled=True))
    qtbot.waitUntil(lambda: empty_pane.header.model.text() == "smollm2 title (not loaded)")
    empty_pane.composer.set_text("Hello")
    empty_pane.composer.send.click()
    assert [type(command) for command in host.commands[-2:]] == [LoadModel, Generate]


def test_a_sample_is_asked_and_one_can_write_on_at_once(qtbot, pane, host):
    pane.activateWindow()
    other = next(button for button in pane.welcome.findChildren(Button) if "sky" in button.text())
    assert other.isVisible()
    qtbot.mouseClick(other, Qt.MouseButton.LeftButton)
    (command,) = host.sent(Generate)
    assert command.turns[-1].text == "Why is the sky blue?"
    assert pane.focusWidget() is pane.composer.edit


def test_letters_typed_over_the_transcript_go_into_the_message(qtbot, pane, script):
    script.exchange("One", "1")
    pane.transcript.setFocus()
    qtbot.keyClicks(pane.transcript, "W")
    assert pane.composer.text == "W"
    assert pane.focusWidget() is pane.composer.edit
    pane.transcript.setFocus()
    qtbot.keyClick(pane.transcript, Qt.Key.Key_A, Qt.KeyboardModifier.ControlModifier)
    qtbot.keyClick(pane.transcript, Qt.Key.Key_Space)
    assert pane.composer.text == "W"


def test_a_picture_waits_with_the_draft_of_its_chat(pane):
    first = pane.conversation
    picture = Attachment("/media/cat.png", "cat.png")
    pane.composer.add_attachment(picture)
    pane.composer.set_text("What is this?")
    pane.new_chat()
    assert pane.composer.attachments == ()
    pane.open(first.id)
    assert (pane.composer.text, pane.composer.attachments) == ("What is this?", (picture,))


def test_a_chat_gets_a_title_of_its_own(pane, script):
    script.exchange("One", "1")

    def write(title: str, accept: bool) -> None:
        dialog = QApplication.activeModalWidget()
        dialog.setTextValue(title)
        dialog.accept() if accept else dialog.reject()

    for title, accept in (("바다", True), ("Mountains", False), ("  ", True)):
        QTimer.singleShot(0, lambda title=title, accept=accept: write(title, accept))
        pane.rename(pane.conversation.id)
    assert pane.page.header.title == "바다"


# -- several models ---------------------------------------------------------------------------------


def choose(pane, model_id: str) -> None:
    """Pick a model in the header's menu."""
    menu = pane.header.model.menu()
    menu.aboutToShow.emit()
    next(action for action in menu.actions() if action.data() == model_id).trigger()


@pytest.fixture
def three(qtbot, pane, host):
    """Two chat models and an image model are installed, the first is loaded."""
    host.post(ModelsListed((row(), row("b"), row("v", kind="image"))))
    qtbot.waitUntil(lambda: len(pane.models.installed) == 3)
    return pane


def test_another_chat_model_takes_the_place_of_the_one_in_use(qtbot, three, host):
    choose(three, "b")
    assert host.commands[-2:] == [UnloadModel("smollm2"), host.sent(LoadModel)[-1]]
    host.post(ModelUnloaded("smollm2"), ModelLoading("b", "Reading"), ModelLoaded(info("b")))
    qtbot.waitUntil(lambda: three.header.model.text() == "b title")
    choose(three, "b")
    assert len(host.sent(UnloadModel)) == 1


def test_a_model_chosen_while_another_loads_takes_its_place_too(qtbot, three, host):
    choose(three, "b")
    host.post(ModelUnloaded("smollm2"))
    qtbot.waitUntil(lambda: not three.models.is_loaded("smollm2"))
    choose(three, "smollm2")
    assert [command.model_id for command in host.sent(UnloadModel)] == ["smollm2", "b"]
    assert host.sent(LoadModel)[-1].model_id == "smollm2"


def test_a_model_loaded_in_the_models_pane_stays_beside_and_is_one_click_away(qtbot, three, host, script):
    host.post(ModelLoading("b", "Reading", 0.5), ModelLoaded(info("b")), ModelLoaded(info("v", "image")))
    qtbot.waitUntil(lambda: three.models.is_loaded("v"))
    assert three.header.model.text() == "smollm2 title"
    choose(three, "b")
    assert three.header.model.text() == "b title"
    script.ask("Hello")
    assert host.sent(Generate)[-1].model_id == "b"
    assert not host.sent(UnloadModel)
    assert len(host.sent(LoadModel)) == 1


def test_an_image_model_is_loaded_beside_the_chat_model(qtbot, three, host):
    choose(three, "v")
    assert not host.sent(UnloadModel)
    host.post(ModelLoaded(info("v", "image")))
    qtbot.waitUntil(lambda: three.header.model.text() == "v title")
    choose(three, "b")
    assert host.sent(UnloadModel) == [UnloadModel("smollm2")]


def test_when_the_model_in_use_is_unloaded_another_loaded_one_answers(qtbot, three, host, script):
    host.post(ModelLoaded(info("b")), ModelUnloaded("smollm2"))
    qtbot.waitUntil(lambda: three.header.model.text() == "b title")
    script.ask("Hello")
    assert host.sent(Generate)[-1].model_id == "b"
