"""Which model can answer, in words."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.image.models import ImageModels, ModelNotice
from runtime.errors import DeviceMemoryError
from runtime.messages import (
    CatalogRow,
    LoadModel,
    ModelFailed,
    ModelInfo,
    ModelLoaded,
    ModelLoading,
    ModelsListed,
    ModelUnloaded,
)
from tests.ui.conftest import ScriptedBridge

ROW = CatalogRow(
    model_id="qwen2-vl",
    title="Qwen2-VL-2B",
    kind="image",
    family="qwen2_vl",
    device="npu",
    state="available",
    folder="",
    download_bytes=3_200_000_000,
    disk_bytes=3_300_000_000,
    licence="Apache-2.0",
    note="needs a Mobilint board",
)
CHAT_ROW = replace(ROW, model_id="smol", title="SmolLM2", kind="chat", state="installed")


@pytest.fixture
def notice(qtbot: QtBot, context: AppContext) -> ModelNotice:
    notice = ModelNotice(ImageModels(context, context.dispatcher))
    qtbot.addWidget(notice)
    return notice


def tell(bridge: ScriptedBridge, qtbot: QtBot, notice: ModelNotice, *events: object) -> None:
    with qtbot.waitSignal(notice._models.changed):
        bridge.host.post(*events)


def test_what_can_be_installed_is_said_with_the_way_there(
    qtbot: QtBot, bridge: ScriptedBridge, notice: ModelNotice
) -> None:
    tell(bridge, qtbot, notice, ModelsListed((CHAT_ROW, ROW)))
    assert notice.reason == "No image model is installed, so nothing can be asked yet."
    assert "Qwen2-VL-2B (3.2 GB, needs a Mobilint board)" in notice.text.text()
    assert "SmolLM2" not in notice.text.text()
    with qtbot.waitSignal(notice.models_requested):
        qtbot.mouseClick(notice.models_button, Qt.MouseButton.LeftButton)


def test_an_empty_catalogue_and_a_long_one(qtbot: QtBot, bridge: ScriptedBridge, notice: ModelNotice) -> None:
    tell(bridge, qtbot, notice, ModelsListed(()))
    assert "Qwen2-VL-2B-Instruct" in notice.text.text()
    assert "drop it on Models" in notice.text.text()
    rows = tuple(replace(ROW, model_id=str(number), title=f"Model {number}") for number in range(6))
    tell(bridge, qtbot, notice, ModelsListed(rows))
    assert "and 2 more" in notice.text.text()


def test_an_installed_model_can_be_loaded_from_here(
    qtbot: QtBot, bridge: ScriptedBridge, notice: ModelNotice, context: AppContext
) -> None:
    context.preferences.set("layout.core_mode", "global4")
    installed = replace(ROW, state="installed", folder="/models/qwen2-vl")
    tell(bridge, qtbot, notice, ModelsListed((installed,)))
    assert notice.load_button.text() == "Load Qwen2-VL-2B"
    qtbot.mouseClick(notice.load_button, Qt.MouseButton.LeftButton)
    command = bridge.host.sent(LoadModel)[0]
    assert (command.model_id, command.folder) == ("qwen2-vl", "/models/qwen2-vl")
    assert command.layout.core_mode == "global4"
    assert notice.reason == "Loading Qwen2-VL-2B…"
    assert notice.load_button.isHidden()


def test_loading_shows_its_progress_and_ends_loaded(
    qtbot: QtBot, bridge: ScriptedBridge, notice: ModelNotice, vision_model: ModelInfo
) -> None:
    tell(bridge, qtbot, notice, ModelsListed((ROW,)))
    tell(bridge, qtbot, notice, ModelLoading("qwen2-vl", "Reading the processor", 0.5))
    assert notice.text.text() == "Reading the processor"
    assert notice.progress.value() == 500
    tell(bridge, qtbot, notice, ModelLoaded(vision_model))
    assert notice.reason == ""
    assert notice.isHidden()


def test_a_chat_model_takes_its_place_and_a_speech_model_does_not(
    qtbot: QtBot, bridge: ScriptedBridge, notice: ModelNotice, vision_model: ModelInfo
) -> None:
    tell(bridge, qtbot, notice, ModelLoaded(vision_model))
    bridge.host.post(ModelLoaded(replace(vision_model, model_id="w", kind="speech")))
    qtbot.waitUntil(lambda: not bridge.host._events)
    assert notice.reason == ""
    chat = replace(vision_model, model_id="smol", kind="chat")
    tell(bridge, qtbot, notice, ModelUnloaded("qwen2-vl"), ModelLoaded(chat))
    assert notice.reason == "No image model is loaded."


def test_a_failed_load_offers_it_again(qtbot: QtBot, bridge: ScriptedBridge, notice: ModelNotice) -> None:
    installed = replace(ROW, state="installed", folder="/models/qwen2-vl")
    tell(bridge, qtbot, notice, ModelsListed((installed,)), ModelLoading("qwen2-vl", "Loading"))
    tell(bridge, qtbot, notice, ModelFailed("qwen2-vl", DeviceMemoryError("It does not fit.").info))
    assert not notice.load_button.isHidden()
