"""The real window on the simulated device while that fails: what it says, and that the chat goes on."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QPlainTextEdit
from pytestqt.qtbot import QtBot

from mblt_desktop.app import Application
from mblt_desktop.paths import Paths
from mblt_desktop.store.records import Message
from runtime.simulator.faults import FAULTS, Fault

PATIENCE = 120_000
SETTINGS = {
    "advanced.stall_seconds": 5,
    "advanced.kv_calibrate": False,
    "sampling.temperature": 0.0,
    "sampling.max_tokens": 24,
    "layout.core_mode": "global4",
    "layout.clusters": ["0:0"],
}

pytestmark = [pytest.mark.slow, pytest.mark.timeout(400)]


@pytest.fixture
def program(qtbot: QtBot, qapp: QApplication, paths: Paths, demo_models: Path) -> Iterator[Application]:
    """The program with the demo model loaded."""
    paths.data.mkdir(parents=True)
    (paths.data / "models").symlink_to(demo_models)
    paths.settings_file.parent.mkdir(parents=True)
    paths.settings_file.write_text(json.dumps(SETTINGS))
    program = Application(qapp, paths, "simulated")
    with qtbot.waitSignal(program.dispatcher.model_loaded, timeout=PATIENCE):
        program.window.show()
    yield program
    FAULTS.clear()
    program.window.close()
    stuck = [lane for lane in program.bridge.host.lanes() if lane.abandoned]
    qtbot.waitUntil(lambda: all(lane.ended.is_set() for lane in stuck), timeout=PATIENCE)
    assert program.shut_down()
    program.deleteLater()


def begin(qtbot: QtBot, program: Application, text: str) -> None:
    """Type a message and press Enter."""
    edit = program.window.chat.composer.findChild(QPlainTextEdit)
    qtbot.keyClicks(edit, text)
    qtbot.keyClick(edit, Qt.Key.Key_Return)


def send(qtbot: QtBot, program: Application, text: str) -> Message:
    """Send a message and wait for the end of its answer."""
    with qtbot.waitSignal(program.window.chat.session.ended, timeout=PATIENCE) as ended:
        begin(qtbot, program, text)
    message: Message = ended.args[0]
    return message


def shown(program: Application) -> str:
    text: str = program.window.chat.conversation_page.transcript.toPlainText()
    return text


def test_a_chat_goes_on_after_the_device_was_lost_in_the_middle_of_an_answer(
    qtbot: QtBot, program: Application
) -> None:
    assert "Paris" in send(qtbot, program, "What is the capital of France?").text
    FAULTS.inject(Fault("device_lost", nth=5))
    lost = send(qtbot, program, "Tell me a story.")
    assert lost.state == "failed"
    assert "was lost" in shown(program)
    # The answer fails at once; the model is gone when its memory has been given back.
    qtbot.waitUntil(lambda: program.dispatcher.loaded == {}, timeout=PATIENCE)
    assert "device.lost" in {error.code for error in program.window.notices.errors}
    again = send(qtbot, program, "And what is the capital of Italy?")
    assert "Rome" in again.text
    assert program.window.notices.errors == []  # what it was lost for is over
    (chat,) = program.store.conversations.list()
    said = [message.text for message in program.store.conversations.tree(chat.id).path(chat.leaf_id)]
    assert said[0] == "What is the capital of France?"
    assert len(said) == 6


def test_a_poisoned_answer_fails_alone_and_the_model_stays(qtbot: QtBot, program: Application) -> None:
    FAULTS.inject(Fault("nan_logits", nth=2))
    bad = send(qtbot, program, "Hello")
    assert bad.state == "failed"
    error = bad.result.error
    assert error is not None
    assert error.code == "request.bad_logits"
    assert error.summary in shown(program)
    assert len(program.dispatcher.loaded) == 1
    assert "Paris" in send(qtbot, program, "What is the capital of France?").text


def test_a_hanging_answer_is_stopped_and_the_chat_goes_on_on_other_cores(
    qtbot: QtBot, program: Application
) -> None:
    assert "Paris" in send(qtbot, program, "What is the capital of France?").text
    FAULTS.inject(Fault("slow_core", value=16, nth=4))
    begin(qtbot, program, "Tell me a story.")
    qtbot.waitUntil(lambda: "The device has not answered since" in shown(program), timeout=PATIENCE)
    with qtbot.waitSignal(program.window.chat.session.ended, timeout=3000) as ended:
        program.window.chat.composer.stop.click()
    assert ended.args[0].result.error.code == "device.stalled"
    held = send(qtbot, program, "What is the capital of Italy?")
    error = held.result.error
    assert error is not None
    assert "still held by an earlier call" in error.summary
    assert error.remedy in shown(program)
    program.preferences.set("layout.clusters", ["0:1"])
    assert "Rome" in send(qtbot, program, "What is the capital of Italy?").text


def test_a_model_that_does_not_fit_says_which_layout_is_smaller(qtbot: QtBot, program: Application) -> None:
    window = program.window
    window.navigate("models")
    pane = window.pane("models")
    model_id = next(iter(program.dispatcher.loaded))
    qtbot.waitUntil(lambda: model_id in pane.cards, timeout=PATIENCE)
    card = pane.cards[model_id]
    with qtbot.waitSignal(program.dispatcher.model_unloaded, timeout=PATIENCE):
        card.unload.click()
    qtbot.waitUntil(card.load.isVisible)
    FAULTS.inject(Fault("out_of_memory"))
    with qtbot.waitSignal(program.dispatcher.model_failed, timeout=PATIENCE):
        card.load.click()
    error = card.banner.error
    assert error is not None
    assert error.code == "device.memory"
    assert error.summary.startswith("SmolLM2 135M Instruct ")
    assert error in window.notices.errors
    assert "load it in single mode on one core" in error.remedy
    assert card.banner.isVisible()
    with qtbot.waitSignal(program.dispatcher.model_loaded, timeout=PATIENCE):
        card.banner.action.click()
    assert window.notices.errors == []
    window.navigate("chat")
    assert "Paris" in send(qtbot, program, "What is the capital of France?").text
