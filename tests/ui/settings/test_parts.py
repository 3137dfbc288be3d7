"""The parts of a model, each with a layout of its own: chosen, checked while typing, kept for the model."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtWidgets import QWidget
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.settings.layout_page import LayoutPage
from mblt_desktop.settings.pane import SettingsPane
from mblt_desktop.settings.parts_card import PartsCard
from mblt_desktop.settings.preferences import Preferences
from runtime.device import active as devices
from runtime.errors import ErrorInfo
from runtime.layout.from_settings import layout_request
from runtime.layout.request import EffectiveLayout, EffectivePart, LayoutRequest, PartLayout
from runtime.messages import (
    CatalogRow,
    ListModels,
    LoadSpeech,
    ModelFailed,
    ModelInfo,
    ModelLoaded,
    ModelsListed,
)
from runtime.simulator import artifact
from tests.ui.conftest import Post, ScriptedBridge


def installed(model_id: str, family: str, folder: str = "") -> CatalogRow:
    return CatalogRow(
        model_id, model_id.title(), "speech", family, "simulated", "installed", folder, 0, 1, ""
    )


@pytest.fixture
def whisper(tmp_path: Path) -> CatalogRow:
    """Two compiled files that were made for single mode and for global4 too."""
    (tmp_path / "config.json").write_text(
        json.dumps(
            {
                "model_type": "mobilint-whisper",
                "encoder_mxq_path": "encoder.mxq",
                "decoder_mxq_path": "decoder.mxq",
            }
        )
    )
    (tmp_path / "weights.safetensors").write_bytes(b"none are read here")
    weights = (artifact.describe_weights(tmp_path / "weights.safetensors"),)
    for name, modes in (("encoder", ("single", "global4")), ("decoder", ("single",))):
        header = artifact.Header(role="whisper_encoder", architecture={}, weights=weights, core_modes=modes)
        artifact.write(tmp_path / f"{name}.mxq", header)
    return installed("tiny", "whisper", str(tmp_path))


@pytest.fixture
def parts(
    pane: SettingsPane, context: AppContext, post: Post, whisper: CatalogRow, qtbot: QtBot
) -> PartsCard:
    devices.activate("simulated")
    pane.show_page("layout")
    page = next(page for page in pane.pages if isinstance(page, LayoutPage))
    post(ModelsListed((installed("plain", "llama"), whisper, installed("other", "blip"))))
    qtbot.waitUntil(page.parts.card.isVisible)
    return page.parts


def click(qtbot: QtBot, widget: QWidget, place: QPoint | None = None) -> None:
    qtbot.mouseClick(widget, Qt.MouseButton.LeftButton, pos=place or QPoint(8, widget.height() // 2))


def choose(parts: PartsCard, part: str, mode: str) -> None:
    box = parts.editors[part].mode.box
    box.setCurrentIndex(box.findData(mode))
    box.activated.emit(box.currentIndex())


def of(preferences: Preferences, model_id: str) -> tuple[PartLayout, ...]:
    return layout_request(preferences.get, model_id).parts


def test_only_models_with_parts_are_offered_and_they_follow_the_layout_for_all(
    parts: PartsCard, bridge: ScriptedBridge, preferences: Preferences
) -> None:
    assert bridge.host.sent(ListModels)
    assert [parts.models.itemText(index) for index in range(parts.models.count())] == ["Tiny", "Other"]
    assert parts.together.isChecked()
    assert not any(editor.isVisible() for editor in parts.editors.values())
    assert of(preferences, "tiny") == ()


def test_without_such_a_model_nothing_is_offered(pane: SettingsPane, post: Post) -> None:
    pane.show_page("layout")
    page = next(page for page in pane.pages if isinstance(page, LayoutPage))
    post(ModelsListed((installed("plain", "llama"),)))
    assert not page.parts.card.isVisible()


def test_each_part_begins_with_the_layout_for_all_and_is_kept_for_its_model(
    parts: PartsCard, preferences: Preferences, qtbot: QtBot
) -> None:
    preferences.set("layout.core_mode", "single")
    preferences.set("layout.cores", ["0:0:0", "0:0:1"])
    click(qtbot, parts.apart)
    same = LayoutRequest("single", ("0:0:0", "0:0:1"))
    assert of(preferences, "tiny") == (PartLayout("encoder", same), PartLayout("decoder", same))
    choose(parts, "encoder", "global4")
    line = parts.editors["encoder"].line
    assert (line.text(), parts.editors["encoder"].map.chosen) == ("", ()), "cores are no clusters"
    qtbot.keyClicks(line, "0:1")
    assert parts.editors["encoder"].map.chosen == ("0:1",)
    assert of(preferences, "tiny")[0] == PartLayout("encoder", LayoutRequest("global4", (), ("0:1",)))
    assert of(preferences, "other") == (), "another model's parts are its own"
    parts.models.setCurrentIndex(1)
    parts.models.activated.emit(1)
    assert set(parts.editors) == {"vision", "text"}
    assert parts.together.isChecked()
    parts.models.setCurrentIndex(0)
    parts.models.activated.emit(0)
    assert parts.editors["encoder"].line.text() == "0:1"
    click(qtbot, parts.together)
    assert of(preferences, "tiny") == ()


def test_the_map_and_the_text_of_a_part_say_the_same(
    parts: PartsCard, preferences: Preferences, qtbot: QtBot
) -> None:
    click(qtbot, parts.apart)
    choose(parts, "decoder", "single")
    decoder = parts.editors["decoder"]
    decoder.map.setFocus()
    qtbot.keyClick(decoder.map, Qt.Key.Key_Space)
    qtbot.keyClick(decoder.map, Qt.Key.Key_Down)
    qtbot.keyClick(decoder.map, Qt.Key.Key_Space)
    assert decoder.line.text() == "0:0:0, 0:0:2"
    assert of(preferences, "tiny")[1].layout.target_cores == ("0:0:0", "0:0:2")
    choose(parts, "decoder", "auto")
    assert decoder.line.text() == ""
    assert not decoder.line.isEnabled()


def test_the_rules_answer_while_somebody_types(parts: PartsCard, qtbot: QtBot) -> None:
    click(qtbot, parts.apart)
    choose(parts, "encoder", "single")
    choose(parts, "decoder", "single")
    said = parts.verdict
    qtbot.keyClicks(parts.editors["encoder"].line, "0:0:")
    qtbot.waitUntil(lambda: "Encoder: “0:0:” is not one of the cores." in said.text())
    qtbot.keyClicks(parts.editors["encoder"].line, "1")
    qtbot.keyClicks(parts.editors["decoder"].line, "0:0:1,0:0:2")
    qtbot.waitUntil(
        lambda: said.text().startswith("Encoder and decoder share core 0:0:1, where they take turns.")
    )
    choose(parts, "decoder", "global4")
    wrong = "Decoder: it was compiled for single, not for global4."
    qtbot.waitUntil(lambda: said.text().startswith(wrong))
    choose(parts, "decoder", "auto")
    qtbot.waitUntil(
        lambda: said.text() == "Allowed on this board. The model takes it when it is loaded next."
    )


def test_what_cannot_be_kept_is_said(parts: PartsCard, preferences: Preferences, qtbot: QtBot) -> None:
    click(qtbot, parts.apart)
    choose(parts, "encoder", "single")
    qtbot.keyClicks(parts.editors["encoder"].line, "0:0:1@")
    assert not parts.apply.isEnabled()
    assert "does not take “tiny/encoder=single@0:0:1@”" in parts.verdict.text()
    assert of(preferences, "tiny")[0].layout.target_cores == ("0:0:1",), "the last one that could be"


def test_a_loaded_speech_model_is_loaded_again_with_its_parts(
    parts: PartsCard, post: Post, bridge: ScriptedBridge, whisper: CatalogRow, qtbot: QtBot
) -> None:
    click(qtbot, parts.apart)
    choose(parts, "decoder", "single")
    qtbot.waitUntil(lambda: parts.verdict.text().startswith("Allowed"))
    assert not parts.apply.isVisible(), "it is not loaded"
    running = (EffectivePart("decoder", "single", ("0:1:3",), ("0:1",)),)
    layout = EffectiveLayout("aries-rb", "single", ("0:1:3",), ("0:1",), (0,), 1, 1, running)
    info = ModelInfo("tiny", "Tiny", "speech", "whisper", whisper.folder, "Simulated", True, layout, 30, 0)
    post(ModelLoaded(info))
    assert parts.apply.isEnabled()
    click(qtbot, parts.apply)
    asked = LayoutRequest(
        parts=(PartLayout("encoder", LayoutRequest()), PartLayout("decoder", LayoutRequest("single")))
    )
    assert bridge.host.sent(LoadSpeech) == [LoadSpeech("tiny", whisper.folder, asked)]
    assert not parts.apply.isEnabled(), "not twice at the same time"
    post(ModelFailed("tiny", ErrorInfo("device.memory", "It does not fit.", "Unload another model.")))
    assert parts.apply.isEnabled()
    post(ModelLoaded(info))
    qtbot.keyClicks(parts.editors["decoder"].line, "9")
    assert not parts.apply.isEnabled()
    qtbot.waitUntil(lambda: "is not one of the cores" in parts.verdict.text())
    assert not parts.apply.isEnabled()


def test_the_parts_are_found_by_searching(parts: PartsCard, pane: SettingsPane, qtbot: QtBot) -> None:
    pane.search.setFocus()
    qtbot.keyClicks(pane.search, "encoder")
    assert parts.card.isVisible()
    assert pane.page.header.title == "Device & layout"
    qtbot.keyClicks(pane.search, " penalty")
    assert not parts.isVisible()
    pane.search.clear()
    assert parts.card.isVisible()
