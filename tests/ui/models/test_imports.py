"""A model folder of one's own, added to the library."""

from __future__ import annotations

from pathlib import Path

from pytestqt.qtbot import QtBot

from mblt_desktop.models.pane import ModelsPane
from runtime.errors import ErrorInfo
from runtime.messages import Cancelled, Failed, ImportModel, JobFinished, JobProgress
from tests.ui.conftest import Post, ScriptedBridge
from tests.ui.models.conftest import Remembered, click, request_of, words_on


def test_only_model_folders_are_taken(listed: ModelsPane, tmp_path: Path) -> None:
    assert not listed.accepts_drop([tmp_path])
    (tmp_path / "config.json").write_text("{}")
    assert listed.accepts_drop([tmp_path])
    assert not listed.accepts_drop([tmp_path / "config.json"])


def test_an_added_folder_shows_its_progress_and_leaves_when_it_is_listed(
    listed: ModelsPane, bridge: ScriptedBridge, post: Post, shell: Remembered
) -> None:
    listed.open_files([Path("/somewhere/my-llama")])
    command = bridge.host.sent(ImportModel)[0]
    assert command.folder == "/somewhere/my-llama"
    card = listed.imports.cards[command.request_id]
    assert "my-llama: Waiting for its turn" in words_on(card)
    post(JobProgress(command.request_id, "Copying my-llama", 500_000_000, 1_000_000_000, 100_000_000.0))
    assert "my-llama: Copying my-llama" in words_on(card)
    assert "500 MB of 1.0 GB  ·  100.0 MB/s  ·  5 s left" in words_on(card)
    post(JobFinished(command.request_id, "my-llama is added."))
    assert shell.toasts == ["my-llama is added."]
    assert not listed.imports.isVisible()


def test_adding_can_be_cancelled(
    listed: ModelsPane, bridge: ScriptedBridge, post: Post, qtbot: QtBot
) -> None:
    listed.open_files([Path("/somewhere/my-llama")])
    request = request_of(bridge, ImportModel)
    click(qtbot, listed.imports.cards[request].progress.cancel)
    assert bridge.host.cancelled == [request]
    assert "Stopping…" in words_on(listed.imports.cards[request])
    post(Cancelled(request))
    assert not listed.imports.isVisible()


def test_a_folder_that_is_no_model_says_why_until_it_is_dismissed(
    listed: ModelsPane, bridge: ScriptedBridge, post: Post
) -> None:
    listed.open_files([Path("/somewhere/photos")])
    request = request_of(bridge, ImportModel)
    post(Failed(request, ErrorInfo("model.incomplete", "/somewhere/photos has no config.json.")))
    card = listed.imports.cards[request]
    assert "/somewhere/photos has no config.json." in words_on(card)
    card.banner.dismissed.emit()
    assert not listed.imports.isVisible()
