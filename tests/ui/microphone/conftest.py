"""The pane on a scripted runtime."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.microphone.pane import MicrophonePane
from runtime.messages import CatalogRow, Microphone, MicrophonesListed, ModelInfo, ModelsListed
from tests.ui.conftest import Post

TINY = CatalogRow(
    "whisper-tiny.en", "Whisper tiny.en", "speech", "whisper", "cpu", "installed", "/models/tiny", 1, 1, "MIT"
)
TINY_NPU = CatalogRow(
    "whisper-tiny.en-sim",
    "Whisper tiny.en",
    "speech",
    "whisper",
    "simulated",
    "installed",
    "/models/sim",
    1,
    1,
    "MIT",
)
HEADSET = Microphone("ALSA/USB Headset Mono", "USB Headset Mono", is_default=True)
BUILT_IN = Microphone("ALSA/Built-in", "Built-in", is_default=False)
TINY_LOADED = ModelInfo(
    "whisper-tiny.en", "Whisper tiny.en", "speech", "whisper", "/models/tiny", "host CPU", False, None, 30, 0,
    languages=("en",),
)  # fmt: skip


@pytest.fixture
def pane(qtbot: QtBot, context: AppContext) -> MicrophonePane:
    pane = MicrophonePane(context)
    qtbot.addWidget(pane)
    pane.resize(1376, 868)
    pane.show()
    return pane


@pytest.fixture
def ready(pane: MicrophonePane, post: Post) -> MicrophonePane:
    """The pane once the runtime has said what there is."""
    pane.activated()
    post(MicrophonesListed((HEADSET, BUILT_IN)), ModelsListed((TINY, TINY_NPU)))
    return pane
