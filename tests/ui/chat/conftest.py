"""A chat pane on a scripted runtime."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from PySide6.QtCore import QUrl

from mblt_desktop.chat.pane import ChatPane
from mblt_desktop.chat.view import SCHEME
from mblt_desktop.context import AppContext
from runtime.layout.request import EffectiveLayout
from runtime.messages import (
    CatalogRow,
    Finished,
    Generate,
    LoadModel,
    ModelInfo,
    ModelLoaded,
    ModelsListed,
    StopReason,
    TextDelta,
    Timings,
    Usage,
)
from tests.ui.conftest import ScriptedBridge, ScriptedHost

DEVICE = "Simulated ARIES (CPU)"
MODEL = "smollm2"


def row(
    model_id: str = MODEL, state: str = "installed", kind: str = "chat", device: str = "simulated"
) -> CatalogRow:
    folder = f"/models/{model_id}"
    return CatalogRow(model_id, f"{model_id} title", kind, "llama", device, state, folder, 9, 9, "MIT")


def info(model_id: str = MODEL, kind: str = "chat", **more) -> ModelInfo:
    return ModelInfo(
        model_id=model_id,
        title=f"{model_id} title",
        kind=kind,
        family="llama",
        folder=f"/models/{model_id}",
        device=DEVICE,
        simulated=True,
        layout=EffectiveLayout("aries-rb", "global4", (), ("0:0",), (0,), 1, 1),
        context_length=2048,
        prefill_chunk=128,
        **more,
    )


def finished(request_id: str, reason: StopReason = "end", completion: int = 214) -> Finished:
    decode = (completion - 1) / 26.4
    timings = Timings(0.003, 0.001, 0.001, 0.171, decode, 0.18, 0.18 + decode)
    return Finished(request_id, reason, Usage(571, 540, completion), timings, DEVICE)


@pytest.fixture
def host(bridge: ScriptedBridge) -> ScriptedHost:
    return bridge.host


@pytest.fixture
def empty_pane(qtbot, context: AppContext) -> Iterator[ChatPane]:
    """A pane before anything is known about models."""
    pane = ChatPane(context)
    qtbot.addWidget(pane)
    pane.resize(1376, 866)
    pane.show()
    yield pane
    pane.close_down()


@pytest.fixture
def pane(qtbot, host: ScriptedHost, empty_pane: ChatPane) -> ChatPane:
    """A pane with a loaded model."""
    empty_pane.start()
    host.post(ModelsListed((row(),)))
    qtbot.waitUntil(lambda: bool(host.sent(LoadModel)))
    host.post(ModelLoaded(info()))
    qtbot.waitUntil(lambda: empty_pane.models.loaded is not None)
    return empty_pane


class Script:
    """Plays the runtime's part in a conversation."""

    def __init__(self, qtbot, pane: ChatPane, host: ScriptedHost) -> None:
        self.qtbot, self.pane, self.host = qtbot, pane, host

    def ask(self, text: str) -> str:
        """Send a message; returns the id of the request that came of it."""
        sent = len(self.host.sent(Generate))
        self.pane.composer.set_text(text)
        self.pane.composer.send.click()
        assert len(self.host.sent(Generate)) == sent + 1
        return self.host.sent(Generate)[-1].request_id

    def answer(self, request_id: str, *parts: str, reason: StopReason = "end") -> None:
        """Stream an answer and finish it."""
        self.stream(request_id, *parts)
        self.host.post(finished(request_id, reason))
        self.qtbot.waitUntil(lambda: request_id not in {run.message.id for run in self.pane.session.runs})

    def stream(self, request_id: str, *parts: str) -> None:
        """Stream text without finishing."""
        run = next(run for run in self.pane.session.runs if run.message.id == request_id)
        for part in parts:
            wanted = run.message.text + part
            self.host.post(TextDelta(request_id, part))
            self.qtbot.waitUntil(lambda wanted=wanted: run.message.text == wanted)

    def exchange(self, question: str, answer: str) -> str:
        """One whole turn."""
        request_id = self.ask(question)
        self.answer(request_id, answer)
        return request_id


@pytest.fixture
def script(qtbot, pane: ChatPane, host: ScriptedHost) -> Script:
    return Script(qtbot, pane, host)


def click(pane: ChatPane, action: str, message_id: str, number: int = 0) -> None:
    """Press one of the transcript's own links."""
    pane.transcript.anchorClicked.emit(QUrl(f"{SCHEME}:{action}/{message_id}/{number}"))


def shown(pane: ChatPane) -> str:
    return pane.transcript.toPlainText()
