"""The product's first uses, in the real window, with real models and the real Perfetto engine."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import jiwer
import numpy as np
import pytest
from PIL import Image
from PySide6.QtCore import QMimeData, QPointF, Qt, QUrl
from PySide6.QtGui import QDropEvent
from PySide6.QtWidgets import QApplication, QPlainTextEdit

from mblt_desktop.app import Application
from mblt_desktop.paths import Paths
from tests.perfetto import PROBLEMS, UNFINISHED, perfetto_query

if TYPE_CHECKING:
    from pytestqt.qtbot import QtBot

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"
SPOKEN = """And so, my fellow Americans, ask not what your country can do for you,
ask what you can do for your country."""
SECONDS = 1000
PATIENCE = 120 * SECONDS


@pytest.fixture
def start(
    qtbot: QtBot, qapp: QApplication, paths: Paths, demo_models: Path
) -> Iterator[Callable[[], Application]]:
    """Start the program on the demo models; ends it afterwards, and before it is started again."""
    paths.data.mkdir(parents=True)
    (paths.data / "models").symlink_to(demo_models)
    running: list[Application] = []

    def stop() -> None:
        while running:
            program = running.pop()
            program.window.close()
            assert program.shut_down()
            program.deleteLater()

    def begin() -> Application:
        stop()
        program = Application(qapp, paths, "simulated")
        running.append(program)
        program.preferences.set("sampling.temperature", 0.0)  # the same words every time
        program.preferences.set("sampling.max_tokens", 48)
        with qtbot.waitSignal(program.dispatcher.model_loaded, timeout=PATIENCE):
            program.window.show()
        return program

    yield begin
    stop()


def send(qtbot: QtBot, program: Application, text: str) -> str:
    """Type a prompt, press Enter, and wait for the answer."""
    program.window.navigate("chat")
    edit = program.window.chat.composer.findChild(QPlainTextEdit)
    qtbot.keyClicks(edit, text)
    with qtbot.waitSignal(program.window.chat.session.ended, timeout=PATIENCE) as ended:
        qtbot.keyClick(edit, Qt.Key.Key_Return)
    return str(ended.args[0].text)


def drop(program: Application, *files: Path) -> None:
    """Drop files on the window, as the desktop does."""
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(file)) for file in files])
    program.window.dropEvent(
        QDropEvent(
            QPointF(400, 300),
            Qt.DropAction.CopyAction,
            mime,
            Qt.MouseButton.LeftButton,
            Qt.KeyboardModifier.NoModifier,
        )
    )


def words(text: str) -> str:
    return " ".join("".join(c for c in text.lower() if c.isalnum() or c.isspace()).split())


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_chat_transcribe_look_and_record(
    qtbot: QtBot, start: Callable[[], Application], tmp_path: Path
) -> None:
    program = start()
    window = program.window

    with qtbot.waitSignal(program.dispatcher.recording_started, timeout=PATIENCE):
        window.toggle_recording()

    answer = send(qtbot, program, "What is the capital of France?")
    assert "Paris" in answer
    shown = window.chat.conversation_page.transcript.toPlainText()
    assert answer in shown
    assert "Simulated ARIES (CPU)" in shown
    second = send(qtbot, program, "And of Italy?")
    assert "Rome" in second

    drop(program, SAMPLES / "jfk.flac")
    assert window.current_name == "microphone"
    qtbot.waitUntil(lambda: len(program.store.transcripts.list()) == 1, timeout=PATIENCE)
    summary = program.store.transcripts.list()[0]
    transcript = program.store.transcripts.get(summary.id)
    assert transcript is not None
    heard = " ".join(segment.text.strip() for segment in transcript.segments)
    assert jiwer.wer(words(SPOKEN), words(heard)) == 0.0

    picture = tmp_path / "sideways.jpg"
    exif = Image.Exif()
    exif[0x0112] = 6  # taken with the camera turned: shown upright it is 40 wide and 80 high
    Image.fromarray(np.zeros((40, 80, 3), np.uint8)).save(picture, exif=exif)
    drop(program, picture)
    assert window.current_name == "image"
    qtbot.waitUntil(lambda: len(program.store.images.list()) == 1, timeout=PATIENCE)
    (kept,) = program.store.images.list()
    assert (kept.width, kept.height) == (40, 80)

    with qtbot.waitSignal(program.dispatcher.recording_finished, timeout=PATIENCE) as finished:
        window.toggle_recording()
    info = finished.args[0].info
    assert info.simulated
    assert info.device_events > 0
    problems, unfinished, spans, flows = perfetto_query(
        Path(info.path),
        PROBLEMS,
        UNFINISHED,
        "select name, count(*) as n from slice group by name",
        "select count(*) as n from flow",
    )
    assert problems == []
    assert unfinished == [{"n": 0}]
    counts = {row["name"]: row["n"] for row in spans}
    for name in (
        "submit", "queue", "template", "tokenise", "prefill chunk", "decode step", "sample", "detokenise",
        "paint", "infer", "run npu",
    ):  # fmt: skip
        assert counts.get(name, 0) > 0, name
    assert counts["infer"] >= counts["decode step"] + counts["prefill chunk"]
    assert flows[0]["n"] >= 2


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_the_conversation_is_there_after_a_restart_and_goes_on(
    qtbot: QtBot, start: Callable[[], Application]
) -> None:
    first = send(qtbot, start(), "Name a colour of the rainbow.")
    program = start()
    (conversation,) = program.store.conversations.list()
    program.window.chat.open(conversation.id)
    assert first in program.window.chat.conversation_page.transcript.toPlainText()
    assert send(qtbot, program, "Name another one.")


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_stop_keeps_what_was_said(qtbot: QtBot, start: Callable[[], Application]) -> None:
    program = start()
    program.preferences.set("sampling.max_tokens", None)
    chat = program.window.chat
    edit = chat.composer.findChild(QPlainTextEdit)
    qtbot.keyClicks(edit, "Tell me a very long story.")
    with qtbot.waitSignal(chat.session.text_added, timeout=PATIENCE):
        qtbot.keyClick(edit, Qt.Key.Key_Return)
    with qtbot.waitSignal(chat.session.ended, timeout=5 * SECONDS) as ended:
        qtbot.keyClick(edit, Qt.Key.Key_Escape)
    message = ended.args[0]
    assert message.result.reason == "cancelled"
    assert message.text in chat.conversation_page.transcript.toPlainText()
    assert send(qtbot, program, "Say yes.")
