"""KV on the disk as people have it: talk, kill the window, start again, go on. With the real model."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication, QPlainTextEdit

from mblt_desktop.app import Application
from mblt_desktop.paths import Paths

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

PATIENCE = 120_000
"""Milliseconds."""
SETTLED = b"settled\n"
UNTIL_KILLED = """
from PySide6.QtCore import Qt, QTimer
from PySide6.QtTest import QTest
from PySide6.QtWidgets import QApplication, QPlainTextEdit

from mblt_desktop.app import Application
from mblt_desktop.paths import default_paths
from runtime.lanes.lane import QUIET_SECONDS

app = QApplication([])
program = Application(app, default_paths(), "simulated")
program.preferences.set("sampling.temperature", 0.0)
program.preferences.set("sampling.max_tokens", 16)
program.preferences.set("storage.keep_kv", True)
chat = program.window.chat
edit = chat.composer.findChild(QPlainTextEdit)


def ask(*_):
    program.window.navigate("chat")
    QTest.keyClicks(edit, "What is the capital of France?")
    QTest.keyClick(edit, Qt.Key.Key_Return)


def settle(*_):
    QTimer.singleShot(int(QUIET_SECONDS * 1000) + 2000, lambda: print("settled", flush=True))


program.dispatcher.model_loaded.connect(ask)
chat.session.ended.connect(settle)
program.window.show()
app.exec()
"""


@pytest.fixture
def start(
    qtbot: QtBot, qapp: QApplication, paths: Paths, demo_models: Path
) -> Iterator[Callable[..., Application]]:
    """Start the program where the killed one has left off. It is ended afterwards, and before the next one;
    `meanwhile` is what happens in between."""
    paths.data.mkdir(parents=True)
    (paths.data / "models").symlink_to(demo_models)
    _talk_until_killed()
    running: list[Application] = []

    def stop() -> None:
        while running:
            program = running.pop()
            program.window.close()
            assert program.shut_down()
            program.deleteLater()

    def begin(meanwhile: Callable[[], object] = lambda: None) -> Application:
        stop()
        meanwhile()
        program = Application(qapp, paths, "simulated")
        running.append(program)
        with qtbot.waitSignal(program.dispatcher.model_loaded, timeout=PATIENCE):
            program.window.show()
        (conversation,) = program.store.conversations.list()
        program.window.navigate("chat")
        program.window.chat.open(conversation.id)
        return program

    yield begin
    stop()


def _talk_until_killed() -> None:
    process = subprocess.Popen([sys.executable, "-c", UNTIL_KILLED], stdout=subprocess.PIPE, env=os.environ)
    assert process.stdout is not None
    try:
        assert SETTLED in iter(process.stdout.readline, b"")
    finally:
        process.kill()
        process.wait()
        process.stdout.close()


def ask(qtbot: QtBot, program: Application, text: str) -> tuple[str, str]:
    """The answer, and what the window says of its prompt."""
    edit = program.window.chat.composer.findChild(QPlainTextEdit)
    with qtbot.waitSignal(program.window.chat.session.ended, timeout=PATIENCE) as ended:
        qtbot.keyClicks(edit, text)
        qtbot.keyClick(edit, Qt.Key.Key_Return)
    return str(ended.args[0].text), program.window.chat.inspector.answer.words.text()


def again(qtbot: QtBot, program: Application) -> tuple[str, str]:
    """Another answer to the same question."""
    with qtbot.waitSignal(program.window.chat.session.ended, timeout=PATIENCE) as ended:
        program.window.chat.conversation_page.regenerate_last()
    return str(ended.args[0].text), program.window.chat.inspector.answer.words.text()


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_a_killed_conversation_goes_on_from_the_disk_with_the_same_answer(
    qtbot: QtBot, start: Callable[..., Application], paths: Paths
) -> None:
    answer, words = ask(qtbot, start(), "And of Italy?")
    assert "prompt tokens were reused from the disk" in words

    answer_again, words = again(qtbot, start())  # after an orderly end
    assert "prompt tokens were reused from the disk" in words
    assert answer_again == answer

    def damage() -> None:
        file = sorted((paths.data / "kv").glob("*/*/data-*/*.bin"))[30]
        content = bytearray(file.read_bytes())
        content[len(content) // 2] ^= 1
        file.write_bytes(content)

    damaged, words = again(qtbot, start(damage))
    assert "prompt tokens were computed because the cache that was kept did not pass its check" in words
    assert damaged == answer

    program = start()
    program.preferences.set("storage.keep_kv", False)
    without, words = again(qtbot, program)
    assert "prompt tokens were computed because the model was loaded again since the last turn" in words
    assert without == answer
