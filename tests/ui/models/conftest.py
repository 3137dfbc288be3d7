"""The Models pane on a scripted runtime."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QLabel, QWidget
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.models.pane import ModelsPane
from runtime.errors import ErrorInfo
from runtime.layout.request import EffectiveLayout
from runtime.messages import CatalogRow, ModelInfo, ModelsListed
from tests.ui.conftest import Post, ScriptedBridge

CHAT = CatalogRow(
    model_id="smollm2-135m-instruct-sim",
    title="SmolLM2 135M Instruct",
    kind="chat",
    family="llama",
    device="simulated",
    state="available",
    folder="/models/smollm2-135m-instruct-sim",
    download_bytes=92_900_000,
    disk_bytes=540_000_000,
    licence="Apache-2.0",
    note="A very small English chat model: for trying the app, not for facts.",
)
SPEECH = CatalogRow(
    model_id="whisper-tiny.en",
    title="Whisper tiny.en",
    kind="speech",
    family="whisper",
    device="cpu",
    state="installed",
    folder="/models/whisper-tiny.en",
    download_bytes=70_700_000,
    disk_bytes=78_100_000,
    licence="MIT",
    note="English speech; runs on the computer's own processor.",
)


@dataclass
class Remembered:
    """The window's services, remembered."""

    toasts: list[str] = field(default_factory=list)

    def show_error(self, error: ErrorInfo) -> None:
        raise AssertionError(f"failures are shown on the model's card: {error}")

    def navigate(self, pane: str) -> None:
        raise AssertionError(f"the pane sends nobody to {pane}")

    def toast(self, text: str, undo: Callable[[], None] | None = None) -> None:
        self.toasts.append(text)


@pytest.fixture
def shell() -> Remembered:
    """What the window was asked to say."""
    return Remembered()


@pytest.fixture
def pane(qtbot: QtBot, context: AppContext) -> ModelsPane:
    """The shown pane, before the runtime has answered."""
    pane = ModelsPane(context)
    qtbot.addWidget(pane)
    pane.resize(1376, 868)
    pane.show()
    pane.activated()
    return pane


@pytest.fixture
def listed(pane: ModelsPane, post: Post) -> ModelsPane:
    """The pane with one model that can be installed and one that is."""
    post(ModelsListed((CHAT, SPEECH)))
    return pane


@pytest.fixture
def chat_info() -> ModelInfo:
    """The chat model, loaded."""
    return ModelInfo(
        model_id=CHAT.model_id,
        title=CHAT.title,
        kind="chat",
        family="llama",
        folder=CHAT.folder,
        device="Simulated ARIES (CPU)",
        simulated=True,
        layout=EffectiveLayout("aries-rb", "single", ("0:0:0",), ("0:0",), (0,), 1, 1),
        context_length=4096,
        prefill_chunk=128,
    )


def words_on(card: QWidget) -> str:
    """Everything that can be read there."""
    labels = card.findChildren(QLabel)
    return "\n".join(label.text() for label in labels if label.isVisibleTo(card) and label.text())


def click(qtbot: QtBot, button: QAbstractButton) -> None:
    """Press it as a person does."""
    qtbot.mouseClick(button, Qt.MouseButton.LeftButton)


def request_of(bridge: ScriptedBridge, kind: type) -> str:
    """The id of the newest command of that kind."""
    return bridge.host.sent(kind)[-1].request_id
