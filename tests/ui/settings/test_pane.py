"""The settings pane: every setting once, found by search, changed at once, and its effect said."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton, QApplication, QLabel, QWidget
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.settings.audio_page import AudioPage
from mblt_desktop.settings.editors import ComboEditor
from mblt_desktop.settings.layout_page import LayoutPage
from mblt_desktop.settings.page import SettingsPage
from mblt_desktop.settings.pane import SettingsPane
from mblt_desktop.settings.preferences import Preferences
from mblt_desktop.settings.row import SettingRow
from mblt_desktop.settings.sampling_page import SamplingPage
from mblt_desktop.settings.storage_page import StoragePage
from runtime.config import RuntimeConfig
from runtime.errors import ErrorInfo
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    ListMicrophones,
    LoadModel,
    Microphone,
    MicrophonesListed,
    ModelFailed,
    ModelInfo,
    ModelLoaded,
    ModelLoading,
    ModelUnloaded,
)
from runtime.settings.table import SETTINGS
from tests.ui.conftest import ScriptedBridge
from tests.ui.settings.conftest import Remembered


def page_of(pane: SettingsPane, kind: type) -> SettingsPage:
    return next(page for page in pane.pages if isinstance(page, kind))


def row_of(pane: SettingsPane, key: str) -> SettingRow:
    return next(page.rows[key] for page in pane.pages if key in page.rows)


def shown_rows(pane: SettingsPane) -> set[str]:
    return {key for page in pane.pages for key, row in page.rows.items() if row.isVisibleTo(page)}


# -- the whole pane --------------------------------------------------------------------------------


def test_every_setting_has_exactly_one_row(pane: SettingsPane) -> None:
    keys = [key for page in pane.pages for key in page.rows]
    assert sorted(keys) == sorted(key for key, setting in SETTINGS.items() if setting.shown)


def test_everything_can_be_reached_and_named_without_a_mouse(pane: SettingsPane) -> None:
    for page in pane.pages:
        for key, row in page.rows.items():
            buddy = row.editor.buddy
            assert buddy.focusPolicy() & Qt.FocusPolicy.TabFocus, key
            name = (
                buddy.text()
                if isinstance(buddy, QAbstractButton) and buddy.text()
                else buddy.accessibleName()
            )
            assert name, key
            labels = [label for label in row.findChildren(QLabel) if label.buddy() is buddy]
            assert labels, f"{key} has no label that leads to its editor"
        for button in page.findChildren(QAbstractButton):
            assert button.text() or button.accessibleName() or button.isCheckable(), page.key


def test_nothing_is_cut_off_in_the_width_of_the_window(pane: SettingsPane) -> None:
    for page in pane.pages:
        pane.show_page(page.key)
        QApplication.processEvents()
        for widget in page.findChildren(QWidget):
            if widget.isVisible() and widget.parentWidget() is not None and widget.layout() is None:
                assert widget.width() >= min(widget.minimumSizeHint().width(), 24), widget
                wanted = widget.heightForWidth(widget.width()) if widget.hasHeightForWidth() else 0
                assert widget.height() >= wanted, (page.key, widget, widget.height(), wanted)


def test_a_page_is_made_when_it_is_needed_and_knows_the_model_loaded_before(
    qtbot: QtBot, context: AppContext, bridge: ScriptedBridge, chat_model: ModelInfo
) -> None:
    pane = SettingsPane(context)
    qtbot.addWidget(pane)
    assert not pane.findChildren(SettingsPage)
    with qtbot.waitSignal(context.dispatcher.model_loaded):
        bridge.host.post(ModelLoaded(chat_model))
    pane.show_page("sampling")
    assert len(pane.findChildren(SettingsPage)) == 1
    assert row_of(pane, "sampling.temperature").source.text() == "From the model: 0.20"


def test_no_file_belongs_here(pane: SettingsPane) -> None:
    assert not pane.accepts_drop([Path("a.png"), Path("b.wav")])


def test_search_shows_only_what_matches_and_esc_brings_everything_back(
    pane: SettingsPane, qtbot: QtBot
) -> None:
    everything = shown_rows(pane)
    pane.search.setFocus()
    qtbot.keyClicks(pane.search, "presence")
    assert shown_rows(pane) == {"sampling.apply_penalties", "sampling.presence_penalty"}
    assert pane.page.header.title == "Sampling & penalties"
    hidden = [pane.names.item(index).isHidden() for index in range(pane.names.count())]
    assert hidden.count(False) == 1
    qtbot.keyClick(pane.search, Qt.Key.Key_Escape)
    assert shown_rows(pane) == everything
    assert not any(pane.names.item(index).isHidden() for index in range(pane.names.count()))


def test_search_without_a_match_says_so(pane: SettingsPane, qtbot: QtBot) -> None:
    qtbot.keyClicks(pane.search, "xyzzy")
    assert pane.nothing.isVisible()
    assert pane.nothing.title.text() == "No setting matches “xyzzy”"


def test_the_pages_are_walked_with_the_arrow_keys(pane: SettingsPane, qtbot: QtBot) -> None:
    pane.activated()
    titles = []
    for _ in pane.pages:
        titles.append(pane.page.header.title)
        qtbot.keyClick(pane.names, Qt.Key.Key_Down)
    assert titles == [
        "Device & layout", "Sampling & penalties", "Audio", "Tracing", "Storage & privacy", "Appearance",
        "Advanced",
    ]  # fmt: skip


def test_a_choice_is_taken_at_once(pane: SettingsPane, preferences: Preferences) -> None:
    editor = row_of(pane, "appearance.theme").editor
    assert isinstance(editor, ComboEditor)
    editor.box.setCurrentIndex(editor.box.findData("dark"))
    editor.box.activated.emit(editor.box.currentIndex())
    assert preferences.text("appearance.theme") == "dark"


# -- sampling --------------------------------------------------------------------------------------


def test_a_row_says_where_its_value_comes_from_and_offers_the_way_back(
    pane: SettingsPane, bridge: ScriptedBridge, chat_model: ModelInfo, preferences: Preferences, qtbot: QtBot
) -> None:
    row = row_of(pane, "sampling.temperature")
    assert row.source.text() == "When the model says nothing: 1.00"
    bridge.host.post(ModelLoaded(chat_model))
    qtbot.waitUntil(lambda: row.source.text() == "From the model: 0.20")
    assert row_of(pane, "sampling.top_p").source.text() == "When the model says nothing: 1.00"
    preferences.set("sampling.temperature", 0.7)
    assert row.source.text() == "Set by you"
    assert row.reset.text() == "Reset to the model's own"
    row.reset.click()
    assert preferences.get("sampling.temperature") is None
    assert row.source.text() == "From the model: 0.20"


def test_greedy_is_said_whoever_asks_for_it(
    pane: SettingsPane, preferences: Preferences, bridge: ScriptedBridge, chat_model: ModelInfo, qtbot: QtBot
) -> None:
    page = page_of(pane, SamplingPage)
    assert isinstance(page, SamplingPage)
    pane.show_page("sampling")
    assert not page.greedy.isVisible()
    preferences.set("sampling.temperature", 0.0)
    assert page.greedy.isVisible()
    preferences.set("sampling.temperature", 0.5)
    assert not page.greedy.isVisible()
    preferences.set("sampling.top_k", 1)
    assert page.greedy.isVisible()
    preferences.reset("sampling.top_k")
    preferences.reset("sampling.temperature")
    chat_model.sampling_defaults["temperature"] = 0.0
    bridge.host.post(ModelLoaded(chat_model))
    qtbot.waitUntil(page.greedy.isVisible)


def test_what_a_model_with_a_draft_cannot_follow_is_dimmed_and_said(
    pane: SettingsPane, bridge: ScriptedBridge, chat_model: ModelInfo, qtbot: QtBot
) -> None:
    page = page_of(pane, SamplingPage)
    assert isinstance(page, SamplingPage)
    pane.show_page("sampling")
    assert not page.not_taken.isVisible()
    bridge.host.post(ModelLoaded(replace(chat_model, sampling_not_taken=frozenset({"min_p"}))))
    qtbot.waitUntil(page.not_taken.isVisible)
    assert "takes temperature, top-k and top-p only" in page.not_taken.text()
    tones = {name: page.rows[f"sampling.{name}"]._title.property("tone") for name in ("min_p", "top_p")}
    assert tones["min_p"] != tones["top_p"]
    bridge.host.post(ModelLoaded(chat_model))
    qtbot.waitUntil(lambda: not page.not_taken.isVisible())


# -- device and layout -----------------------------------------------------------------------------


@pytest.fixture
def layout(pane: SettingsPane, context: AppContext, qtbot: QtBot) -> LayoutPage:
    page = page_of(pane, LayoutPage)
    assert isinstance(page, LayoutPage)
    qtbot.waitUntil(lambda: context.devices.device is not None)
    return page


def settle(page: LayoutPage, qtbot: QtBot, text: str) -> None:
    qtbot.waitUntil(lambda: text in page.outcome.verdict.text())


def test_the_device_is_named_and_a_simulated_one_says_so(layout: LayoutPage) -> None:
    assert layout.running_on.text() == "Models run on: Simulated ARIES (CPU)"


def test_a_layout_is_checked_while_it_is_chosen(
    layout: LayoutPage, preferences: Preferences, qtbot: QtBot
) -> None:
    settle(layout, qtbot, "Allowed on this board.")
    preferences.set("layout.core_mode", "global8")
    preferences.set("layout.clusters", ["0:1"])
    settle(layout, qtbot, "Global 8 needs both clusters of device 0")
    assert "core_mode='global8' requires both clusters" in layout.outcome.vendor.text()
    preferences.set("layout.clusters", ["0:0", "0:1"])
    settle(layout, qtbot, "Allowed on this board.")
    assert not layout.outcome.vendor.isVisibleTo(layout.outcome)
    preferences.set("layout.core_mode", "multi")
    preferences.set("layout.clusters", [])
    preferences.set("layout.cores", ["0:0:0"])
    settle(layout, qtbot, "Rounded up to all cores of cluster 0:0")


def test_an_impossible_text_is_explained_by_the_same_rules(
    layout: LayoutPage, pane: SettingsPane, preferences: Preferences, qtbot: QtBot
) -> None:
    preferences.set("layout.core_mode", "single")
    line = row_of(pane, "layout.cores").editor.buddy
    qtbot.keyClicks(line, "0:0:4")
    qtbot.keyClick(line, Qt.Key.Key_Return)
    settle(layout, qtbot, "“0:0:4” is not one of the cores.")
    assert not layout.outcome.apply.isEnabled()


def test_requested_and_effective_stand_side_by_side_and_apply_reloads(
    layout: LayoutPage,
    pane: SettingsPane,
    preferences: Preferences,
    bridge: ScriptedBridge,
    chat_model: ModelInfo,
    qtbot: QtBot,
) -> None:
    outcome = layout.outcome
    assert outcome.requested.text() == "auto, as the model says → nothing is loaded"
    assert not outcome.apply.isEnabled()
    bridge.host.post(ModelLoaded(chat_model))
    qtbot.waitUntil(lambda: outcome.requested.text().endswith("room for 1 conversation"))
    preferences.set("layout.core_mode", "global4")
    preferences.set("layout.clusters", ["0:1"])
    settle(layout, qtbot, "Allowed on this board.")
    assert outcome.requested.text() == (
        "global4 on cluster 0:1 → single on core 0:0:0, room for 1 conversation"
    )
    outcome.apply.click()
    assert bridge.host.sent(LoadModel) == [
        LoadModel("smol", "/models/smol", LayoutRequest("global4", (), ("0:1",)))
    ]
    assert not outcome.apply.isEnabled(), "not twice at the same time"
    bridge.host.post(ModelUnloaded("smol"), ModelLoading("smol", "Reading weights", 0.5))
    qtbot.waitUntil(lambda: outcome.verdict.text() == "Reloading: Reading weights…")
    bridge.host.post(ModelLoaded(chat_model))
    qtbot.waitUntil(outcome.apply.isEnabled)
    outcome.apply.click()
    bridge.host.post(ModelUnloaded("smol", cancelled=True))
    qtbot.waitUntil(lambda: outcome.requested.text().endswith("nothing is loaded"))


def test_a_layout_that_the_model_cannot_take_is_said_where_it_was_applied(
    layout: LayoutPage, bridge: ScriptedBridge, chat_model: ModelInfo, qtbot: QtBot
) -> None:
    bridge.host.post(ModelLoaded(chat_model))
    qtbot.waitUntil(layout.outcome.apply.isEnabled)
    layout.outcome.apply.click()
    error = ErrorInfo("layout.invalid", "SmolLM2 was not compiled for global8.", "Choose another mode.")
    bridge.host.post(ModelFailed("smol", error))
    settle(layout, qtbot, "SmolLM2 was not compiled for global8. Choose another mode.")
    assert layout.outcome.requested.text().endswith("nothing is loaded")


def test_the_map_and_the_text_say_the_same(
    layout: LayoutPage, pane: SettingsPane, preferences: Preferences, qtbot: QtBot
) -> None:
    preferences.set("layout.clusters", ["0:0"])
    preferences.set("layout.core_mode", "single")
    layout.map.setFocus()
    qtbot.keyClick(layout.map, Qt.Key.Key_Space)
    qtbot.keyClick(layout.map, Qt.Key.Key_Right)
    qtbot.keyClick(layout.map, Qt.Key.Key_Space)
    assert preferences.get("layout.cores") == ("0:0:0", "0:0:1")
    assert preferences.get("layout.clusters") == (), "the list that would be dropped is emptied"
    assert row_of(pane, "layout.cores").editor.buddy.text() == "0:0:0, 0:0:1"
    layout.everything.click()
    assert preferences.get("layout.cores") == ()
    assert layout.map.chosen == ()


# -- audio and storage -----------------------------------------------------------------------------


def test_the_inputs_of_the_moment_are_offered_and_a_missing_one_is_kept(
    pane: SettingsPane, bridge: ScriptedBridge, preferences: Preferences, qtbot: QtBot
) -> None:
    page = page_of(pane, AudioPage)
    assert isinstance(page, AudioPage)
    pane.show_page("audio")
    assert bridge.host.sent(ListMicrophones)
    box = row_of(pane, "audio.device").editor.buddy
    bridge.host.post(MicrophonesListed((Microphone("a", "Built-in", True), Microphone("b", "USB"))))
    qtbot.waitUntil(lambda: box.count() == 3)
    assert [box.itemText(index) for index in range(3)] == ["The system's default", "Built-in", "USB"]
    box.setCurrentIndex(2)
    box.activated.emit(2)
    assert preferences.get("audio.device") == "b"
    none = ErrorInfo("microphone", "No microphone was found.", "Plug one in.")
    bridge.host.post(MicrophonesListed((), none))
    qtbot.waitUntil(page.problem.isVisible)
    assert page.problem.text() == "No microphone was found. Plug one in."
    asked = len(bridge.host.sent(ListMicrophones))
    page.again.click()
    assert len(bridge.host.sent(ListMicrophones)) == asked + 1
    assert box.currentText() == "b (not found)"
    assert preferences.get("audio.device") == "b"


def test_sizes_are_counted_and_downloads_cleared(
    pane: SettingsPane, context: AppContext, shell: Remembered, qtbot: QtBot
) -> None:
    page = page_of(pane, StoragePage)
    assert isinstance(page, StoragePage)
    config = RuntimeConfig(context.paths.data)
    config.downloads_dir.mkdir(parents=True)
    part = config.downloads_dir / "wheel.part"
    part.write_bytes(b"x" * 2_500_000)
    pane.show_page("storage")
    downloads = page.folders["Downloads"]
    qtbot.waitUntil(lambda: downloads.size_words.text() == "2 MB")
    assert page.folders["Models"].size_words.text() == "empty"
    assert not page.folders["Models"].open.isEnabled()
    qtbot.waitUntil(page.clear.isEnabled)
    page.clear.click()
    qtbot.waitUntil(lambda: downloads.size_words.text() == "empty")
    assert not part.exists()
    assert shell.toasts == ["Downloads cleared: 2 MB freed."]
    assert shell.errors == []


def test_kept_caches_are_counted_and_cleared(
    pane: SettingsPane, context: AppContext, shell: Remembered, qtbot: QtBot
) -> None:
    page = page_of(pane, StoragePage)
    assert isinstance(page, StoragePage)
    folder = RuntimeConfig(context.paths.data).kv_dir / "model" / "conversation"
    folder.mkdir(parents=True)
    (folder / "data").write_bytes(b"x" * 3_000_000)
    pane.show_page("storage")
    row = page.folders["Caches of conversations"]
    qtbot.waitUntil(lambda: row.size_words.text() == "3 MB")
    assert not page.clear.isEnabled()
    qtbot.waitUntil(page.clear_caches.isEnabled)
    page.clear_caches.click()
    qtbot.waitUntil(lambda: row.size_words.text() == "empty")
    assert not folder.exists()
    assert shell.toasts == ["Caches of conversations cleared: 3 MB freed."]
