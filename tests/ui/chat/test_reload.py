"""Conversations go on after their model was lost, stalled or unloaded."""

from __future__ import annotations

import pytest

from runtime.errors import ErrorInfo
from runtime.messages import Failed, Generate, LoadModel, ModelFailed, ModelLoaded, ModelUnloaded
from tests.ui.chat.conftest import info

LOST = ErrorInfo("device.lost", "The board went away.", "Load the model again.")
STALLED = ErrorInfo("device.stalled", "The device has not answered for 120 seconds.", "Load the model again.")


@pytest.mark.parametrize("error", [LOST, STALLED], ids=["lost", "stalled"])
def test_a_conversation_goes_on_with_the_model_loaded_again(qtbot, pane, host, script, context, error):
    script.exchange("One", "1")
    request = script.ask("Two")
    script.stream(request, "half")
    host.post(Failed(request, error), ModelFailed("smollm2", error))
    qtbot.waitUntil(lambda: error.summary in pane.transcript.toPlainText())
    assert pane.header.model.text() == "smollm2 title (not loaded)"
    assert context.shell.errors == [error]
    loads = len(host.sent(LoadModel))
    again = script.ask("Three")
    assert len(host.sent(LoadModel)) == loads + 1
    assert [type(command) for command in host.commands[-2:]] == [LoadModel, Generate]
    texts = [turn.text for turn in host.sent(Generate)[-1].turns]
    assert texts == ["One", "1", "Two", "half", "Three"]
    host.post(ModelLoaded(info()))
    script.answer(again, "3")
    assert "3" in pane.transcript.toPlainText()
    assert pane.header.model.text() == "smollm2 title"


def test_a_reload_with_another_layout_keeps_the_choice(qtbot, pane, host, script):
    host.post(ModelLoaded(info("b")))
    qtbot.waitUntil(lambda: pane.models.is_loaded("b"))
    host.post(ModelUnloaded("smollm2"), ModelLoaded(info()))
    qtbot.waitUntil(lambda: pane.models.is_loaded("smollm2"))
    assert pane.header.model.text() == "smollm2 title"
