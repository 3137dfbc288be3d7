"""A chat about pictures with a real small model: what it was not given any more is said in the transcript."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtWidgets import QApplication

from mblt_desktop.chat.pane import ChatPane
from mblt_desktop.context import AppContext
from mblt_desktop.dispatcher import Dispatcher
from mblt_desktop.paths import Paths
from mblt_desktop.settings.preferences import Preferences
from mblt_desktop.store.records import Attachment, Message
from mblt_desktop.store.store import Store
from mblt_desktop.theme import theme_manager
from runtime.config import RuntimeConfig
from runtime.lanes.thread import RuntimeBridge
from runtime.layout.request import LayoutRequest
from runtime.messages import LoadModel
from runtime.simulator.build import build_artifact
from tests.simulator.pictures import noise
from tests.tiny_qwen2_vl import make_checkpoint

CONTEXT, TOKENS = 160, 24


@pytest.fixture
def context(qapp: QApplication, paths: Paths) -> Iterator[AppContext]:
    bridge = RuntimeBridge(RuntimeConfig(paths.data, device="simulated"))
    store = Store(paths.database)
    preferences = Preferences(paths.settings_file)
    preferences.set("sampling.temperature", 0.0)
    preferences.set("sampling.max_tokens", TOKENS)
    preferences.set("sampling.context_policy", "rolling")
    yield AppContext(bridge, Dispatcher(bridge), store, preferences, theme_manager(), paths)
    assert bridge.host.stop() == []
    assert store.close()
    preferences.flush()


def test_the_oldest_pictures_leave_a_long_chat_and_that_is_said(
    qtbot, empty_pane: ChatPane, context: AppContext, tmp_path: Path
) -> None:
    make_checkpoint(tmp_path / "checkpoint")
    build_artifact(tmp_path / "checkpoint", tmp_path / "artifact", context_length=CONTEXT, prefill_chunk=32)
    context.submit(LoadModel("vl", str(tmp_path / "artifact"), LayoutRequest()))
    qtbot.waitUntil(lambda: empty_pane.models.loaded is not None, timeout=60_000)
    answers: list[Message] = []
    empty_pane.session.ended.connect(answers.append)
    for number in range(4):
        path = tmp_path / f"{number}.png"
        noise(84, 84, number).save(path)
        empty_pane.session.send(
            empty_pane.conversation, "What?", "vl", "VL", (Attachment(str(path), path.name),)
        )
        qtbot.waitUntil(lambda count=number: len(answers) > count, timeout=30_000)
    assert [answer.result.error for answer in answers] == [None] * 4
    left_out = [answer.result.left_out for answer in answers]
    assert left_out[0] == 0
    assert left_out[-1] >= 2
    shown = empty_pane.transcript.toPlainText()
    assert f"{left_out[-1]} earlier turns left out, to keep within the model's context" in shown
    assert all(f"{number}.png" in shown for number in range(4)), "on the screen nothing is left out"
