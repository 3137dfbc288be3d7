"""Files through the queue: dropped, waiting, running, done, failed, cancelled, retried, removed."""

from __future__ import annotations

import time
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.microphone import queue as queue_module
from mblt_desktop.microphone.pane import MicrophonePane
from mblt_desktop.microphone.queue_view import fact_words, value_words
from mblt_desktop.widgets import Chip
from runtime.errors import AudioError, ErrorInfo, ModelDamagedError
from runtime.messages import (
    CallOverdue,
    Cancelled,
    Failed,
    ListMicrophones,
    LoadSpeech,
    ModelFailed,
    ModelLoaded,
    ModelLoading,
    ModelsListed,
    ModelUnloaded,
    Queued,
    Segment,
    SegmentReady,
    Transcribe,
    Transcribed,
    TranscribeProgress,
    Word,
)
from tests.ui.conftest import Post, RecordingShell, ScriptedBridge
from tests.ui.microphone.conftest import TINY, TINY_LOADED

LINE = Segment(
    0.4, 5.0, "Good morning, everyone.", (Word(0.4, 0.9, "Good", 0.9), Word(1.0, 2.0, "morning,", 0.2))
)


def done(
    request_id: str, path: str = "/a/talk.wav", *segments: Segment, warnings: tuple[str, ...] = ()
) -> Transcribed:
    return Transcribed(
        request_id, path, 24.0, "en", segments or (LINE,), "Whisper tiny.en · host CPU", 2.0, warnings
    )


def drop(pane: MicrophonePane, *paths: Path) -> None:
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    args = (Qt.DropAction.CopyAction, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    enter = QDragEnterEvent(QPoint(500, 500), *args)
    QApplication.sendEvent(pane, enter)
    assert enter.isAccepted()
    QApplication.sendEvent(pane, QDropEvent(QPoint(500, 500), *args))


def chips(pane: MicrophonePane) -> list[str]:
    """What the heading says beside the file's name."""
    return [chip.text for chip in pane.page.findChildren(Chip) if chip.isVisible()]


def test_the_pane_looks_for_inputs_and_models_when_it_comes_to_the_front(
    pane: MicrophonePane, bridge: ScriptedBridge
) -> None:
    pane.activated()
    assert bridge.host.sent(ListMicrophones)


@pytest.mark.parametrize(
    ("name", "welcome"),
    [
        ("a.wav", True),
        ("b.MP3", True),
        ("c.opus", True),
        ("film.webm", True),
        ("d.png", False),
        ("e.txt", False),
    ],
)
def test_what_the_pane_takes_by_its_name(pane: MicrophonePane, name: str, welcome: bool) -> None:
    assert pane.accepts_drop([Path("/a") / name]) is welcome


def test_a_dropped_file_loads_the_model_once_and_shows_its_lines_as_they_come(
    ready: MicrophonePane, bridge: ScriptedBridge, post: Post, context: AppContext
) -> None:
    drop(ready, Path("/a/인터뷰 02.wav"), Path("/a/talk.mp3"))
    assert [command.model_id for command in bridge.host.sent(LoadSpeech)] == ["whisper-tiny.en"]
    first, second = bridge.host.sent(Transcribe)
    assert (first.source, first.language, first.word_times) == ("/a/인터뷰 02.wav", None, True)
    assert first.priority == "background"
    post(Queued(second.request_id, 1, "loading"))
    assert fact_words(list(ready.queue.items.values())[1]) == "Starts when the model is loaded."
    post(ModelLoaded(TINY_LOADED), Queued(first.request_id, 0), Queued(second.request_id, 1))
    rows = ready.queue_view.rows
    assert rows[second.request_id].facts.text() == "1 before it"
    assert ready.page.header.title == "인터뷰 02.wav"
    post(TranscribeProgress(first.request_id, 6.0, 24.0), SegmentReady(first.request_id, LINE))
    assert rows[first.request_id].value.text() == "25 %"
    assert ready.page.text.plain_text() == LINE.text
    post(done(first.request_id, first.source))
    assert rows[first.request_id].value.text() == "done"
    assert rows[first.request_id].facts.text() == "0:24 · saved"
    saved = context.store.transcripts.list()
    assert [(row.title, row.source) for row in saved] == [("인터뷰 02.wav", "/a/인터뷰 02.wav")]
    assert ready.page.export_button.isEnabled()
    assert ready.history.current_id == saved[0].id


def test_warnings_colour_the_row_and_stand_above_the_text(
    ready: MicrophonePane, bridge: ScriptedBridge, post: Post
) -> None:
    ready.open_files([Path("/a/call.mp3")])
    request = bridge.host.sent(Transcribe)[0]
    words = "3 damaged packets were skipped at 0:41."
    post(done(request.request_id, request.source, warnings=(words,)))
    row = ready.queue_view.rows[request.request_id]
    assert row.facts.text() == words
    assert row.facts.property("tone") == "warn"
    assert ready.page._notes.text() == words
    assert ready.page._notes.isVisible()


def test_no_speech_is_said_and_saved_as_an_empty_transcript(
    ready: MicrophonePane, bridge: ScriptedBridge, post: Post
) -> None:
    ready.open_files([Path("/a/still.wav")])
    request = bridge.host.sent(Transcribe)[0]
    empty = Transcribed(
        request.request_id, request.source, 30.0, "", (), "engine", 0.1, ("No speech detected.",)
    )
    post(empty)
    assert ready.queue_view.rows[request.request_id].facts.text() == "No speech detected."
    assert ready.page._notes.text() == "No speech detected."
    assert ready.page.text.plain_text() == ""


def test_speed_and_time_left(ready: MicrophonePane, monkeypatch: pytest.MonkeyPatch) -> None:
    item = ready.queue.add(Path("/a/board-meeting.m4a"))
    item.state, item.duration = "running", 4320.0
    item.started_at, item.position = 100.0, 1641.6
    monkeypatch.setattr(queue_module.time, "monotonic", lambda: 217.0)
    assert value_words(item) == "38 %"
    assert fact_words(item) == "1:12:00 · 14× real time · 3:10 left"


def test_a_file_that_gives_way_says_for_what_and_its_time_left_does_not_count_the_wait(
    ready: MicrophonePane,
    bridge: ScriptedBridge,
    post: Post,
    context: AppContext,
    qtbot: QtBot,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    now = [1000.0]
    monkeypatch.setattr(queue_module.time, "monotonic", lambda: now[0])
    ready.open_files([Path("/a/board-meeting.m4a")])
    takes = [ready.queue.add(context.paths.media / f"take-2026-11-30-14020{second}.wav") for second in (5, 9)]
    file, *_ = bridge.host.sent(Transcribe)
    row = ready.queue_view.rows[file.request_id]
    post(ModelLoaded(TINY_LOADED), TranscribeProgress(file.request_id, 0.0, 4000.0))
    now[0] += 100.0
    post(TranscribeProgress(file.request_id, 1000.0, 4000.0))
    assert row.facts.text() == "1:06:40 · 10× real time · 5:00 left"
    post(Queued(file.request_id, 1, "gave_way", takes[0].id))
    now[0] += 5000.0
    post(Queued(file.request_id, 2, "gave_way", takes[0].id))
    assert row.value.text() == "waiting"
    assert row.facts.text() == (
        "Waits for “Recording, 30 November, 14:02” and 1 more · goes on at 16:40, 5:00 left"
    )
    assert "goes on at 16:40" in row.accessibleName()
    assert row._bar.value() == 250
    post(Queued(file.request_id, 1, "gave_way", "known-to-nobody"))
    assert row.facts.text() == "Waits for what was just said · goes on at 16:40, 5:00 left"
    post(Queued(file.request_id, 0, "next"))
    assert (row.value.text(), row.facts.text()) == ("25 %", "1:06:40 · 10× real time · 5:00 left")
    now[0] += 100.0
    post(TranscribeProgress(file.request_id, 2000.0, 4000.0))
    assert row.facts.text() == "1:06:40 · 10× real time · 3:20 left"
    post(Queued(file.request_id, 1, "gave_way", takes[1].id))
    qtbot.mouseClick(row.close_button, Qt.MouseButton.LeftButton)
    post(Queued(file.request_id, 0, "next"))
    assert (bridge.host.cancelled, row.value.text()) == ([file.request_id], "stopping…")
    post(Cancelled(file.request_id))
    assert row.value.text() == "cancelled"


def test_a_failed_file_says_why_and_can_be_tried_again(
    ready: MicrophonePane, bridge: ScriptedBridge, post: Post, qtbot: QtBot
) -> None:
    ready.open_files([Path("/a/zero.wav"), Path("/a/good.wav")])
    bad, good = bridge.host.sent(Transcribe)
    error = AudioError("zero.wav: the file is empty (0 bytes).", remedy="Copy or record it again.")
    post(Failed(bad.request_id, error.info), done(good.request_id))
    row = ready.queue_view.rows[bad.request_id]
    assert row.facts.text() == "zero.wav: the file is empty (0 bytes). Copy or record it again."
    assert row.again.isVisibleTo(row)
    qtbot.mouseClick(row.again, Qt.MouseButton.LeftButton)
    assert bridge.host.sent(Transcribe)[2].source == "/a/zero.wav"
    assert bad.request_id not in ready.queue_view.rows
    assert len(ready.queue_view.rows) == 2


def test_cancel_waits_for_its_acknowledgement(
    ready: MicrophonePane, bridge: ScriptedBridge, post: Post, qtbot: QtBot
) -> None:
    ready.open_files([Path("/a/long.wav")])
    request = bridge.host.sent(Transcribe)[0]
    post(TranscribeProgress(request.request_id, 1.0, 100.0))
    row = ready.queue_view.rows[request.request_id]
    qtbot.mouseClick(row.close_button, Qt.MouseButton.LeftButton)
    assert bridge.host.cancelled == [request.request_id]
    assert row.value.text() == "stopping…"
    post(Cancelled(request.request_id))
    assert row.value.text() == "cancelled"
    qtbot.mouseClick(row.close_button, Qt.MouseButton.LeftButton)
    assert ready.queue_view.rows == {}


def test_files_wait_for_a_model_to_be_installed(
    qtbot: QtBot, pane: MicrophonePane, bridge: ScriptedBridge, post: Post, shell: RecordingShell
) -> None:
    pane.activated()
    post(ModelsListed(()))
    names = ["/a/talk.wav", "/a/more.wav", "/a/last.wav"]
    pane.open_files([Path(name) for name in names])
    item = next(iter(pane.queue.items.values()))
    assert fact_words(item) == "Waits for a speech model."
    assert bridge.host.sent(Transcribe) == []
    assert pane.record_panel.engine.currentText() == "No speech model installed"
    qtbot.waitUntil(lambda: chips(pane) == ["waiting"])
    pane.record_panel.install.click()
    assert shell.panes == ["models"]
    post(ModelsListed((TINY,)))
    assert not pane.record_panel.install.isVisible()
    request = bridge.host.sent(Transcribe)[0].request_id
    post(ModelLoaded(TINY_LOADED), TranscribeProgress(request, 1.0, 24.0))
    qtbot.waitUntil(lambda: chips(pane) == ["transcribing"])
    assert [command.source for command in bridge.host.sent(Transcribe)] == names
    assert len(bridge.host.sent(LoadSpeech)) == 1
    kinds = [type(command) for command in bridge.host.commands]
    assert kinds.index(LoadSpeech) < kinds.index(Transcribe)


def test_a_damaged_model_is_told_and_can_be_tried_again(
    ready: MicrophonePane, bridge: ScriptedBridge, post: Post
) -> None:
    ready.open_files([Path("/a/talk.wav")])
    error = ModelDamagedError("The file model.bin of the speech model is damaged.", remedy="Fetch it again.")
    post(ModelFailed("whisper-tiny.en", error.info))
    assert ready.banner.error == error.info
    ready.open_files([Path("/a/more.wav")])
    assert len(bridge.host.sent(LoadSpeech)) == 2


def test_another_engine_is_loaded_with_the_next_file(
    ready: MicrophonePane, bridge: ScriptedBridge, post: Post
) -> None:
    ready.open_files([Path("/a/1.wav")])
    post(ModelLoaded(TINY_LOADED))
    picker = ready.record_panel.engine
    assert picker.itemText(1) == "Whisper tiny.en · Simulated ARIES (CPU)"
    picker.setCurrentIndex(1)
    picker.activated.emit(1)
    ready.open_files([Path("/a/2.wav")])
    ready.open_files([Path("/a/3.wav")])
    assert [command.model_id for command in bridge.host.sent(LoadSpeech)] == [
        "whisper-tiny.en",
        "whisper-tiny.en-sim",
    ]


def test_the_sample_is_one_click_away(
    pane: MicrophonePane, ready: MicrophonePane, bridge: ScriptedBridge, qtbot: QtBot
) -> None:
    qtbot.mouseClick(pane.page.empty.button, Qt.MouseButton.LeftButton)
    assert Path(bridge.host.sent(Transcribe)[0].source).name == "jfk.flac"
    assert Path(bridge.host.sent(Transcribe)[0].source).is_file()


def test_a_file_that_is_no_sound_is_left_to_the_window(ready: MicrophonePane) -> None:
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile("/a/talk.wav"), QUrl.fromLocalFile("/a/photo.png")])
    enter = QDragEnterEvent(
        QPoint(500, 500),
        Qt.DropAction.CopyAction,
        mime,
        Qt.MouseButton.LeftButton,
        Qt.KeyboardModifier.NoModifier,
    )
    QApplication.sendEvent(ready, enter)
    assert not enter.isAccepted()


def test_in_a_low_window_files_and_transcripts_share_the_room(
    ready: MicrophonePane, bridge: ScriptedBridge, post: Post
) -> None:
    ready.resize(836, 526)
    ready.open_files([Path(f"/a/{number}.wav") for number in range(8)])
    first, *others = bridge.host.sent(Transcribe)
    post(done(first.request_id, first.source))
    error = AudioError("x.wav: this is not an audio or video file that can be read.", remedy="Convert it.")
    post(*(Failed(other.request_id, error.info) for other in others))
    QApplication.sendPostedEvents()
    rows, title, list_ = ready._rows, ready._history_title, ready.history
    assert rows.geometry().bottom() < title.geometry().top()
    assert title.geometry().bottom() < list_.geometry().top()
    assert list_.geometry().bottom() <= ready.height()


def test_every_file_is_in_sight_where_there_is_room(
    ready: MicrophonePane, bridge: ScriptedBridge, post: Post, qtbot: QtBot
) -> None:
    def in_sight() -> bool:
        last = [*ready.queue_view.rows.values()][-1]
        bar = ready._rows.verticalScrollBar()
        return bar.maximum() == 0 and last.geometry().bottom() <= ready._rows.viewport().height()

    ready.open_files([Path("/a/1.wav")])
    qtbot.waitUntil(in_sight)
    ready.open_files([Path("/a/2.wav"), Path("/a/3.wav")])
    qtbot.waitUntil(in_sight)
    first, *_ = bridge.host.sent(Transcribe)
    error = AudioError("1.wav: this is not an audio or video file that can be read.", remedy="Convert it.")
    post(Failed(first.request_id, error.info))
    qtbot.waitUntil(in_sight)
    high = ready._rows.height()
    ready.queue.dismiss(ready.queue.items[first.request_id])
    qtbot.waitUntil(lambda: in_sight() and ready._rows.height() < high)
    ready.open_files([Path(f"/a/{number}.wav") for number in range(8)])
    qtbot.waitUntil(lambda: ready._rows.verticalScrollBar().maximum() > 0)
    assert high < ready._rows.height() < ready.height() / 2


def test_a_link_to_elsewhere_is_not_welcomed(pane: MicrophonePane) -> None:
    mime = QMimeData()
    mime.setUrls([QUrl("https://example.org/talk.mp3")])
    args = (Qt.DropAction.CopyAction, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    enter = QDragEnterEvent(QPoint(500, 500), *args)
    QApplication.sendEvent(pane, enter)
    assert not enter.isAccepted()


def test_a_device_that_does_not_answer_is_said_with_what_to_do_and_the_file_can_be_tried_again(
    ready: MicrophonePane, bridge: ScriptedBridge, post: Post, qtbot: QtBot, tmp_path: Path
) -> None:
    ready.open_files([tmp_path / "talk.wav"])
    (sent,) = bridge.host.sent(Transcribe)
    post(ModelLoaded(TINY_LOADED), TranscribeProgress(sent.request_id, 30.0, 600.0))
    (row,) = ready.queue_view.rows.values()
    since = time.mktime((2026, 11, 30, 14, 3, 12, 0, 0, -1))
    post(CallOverdue(sent.request_id, since, 60.0))
    assert row.facts.text() == (
        "The device has not answered since 14:03:12. Cancel gives the model up; it can then be loaded again."
    )
    post(TranscribeProgress(sent.request_id, 60.0, 600.0))
    assert "not answered" not in row.facts.text()
    post(CallOverdue(sent.request_id, since, 60.0))
    qtbot.mouseClick(row.close_button, Qt.MouseButton.LeftButton)
    assert bridge.host.cancelled == [sent.request_id]
    error = ErrorInfo(
        "device.stalled", "The device has not answered the speech model.", "Load the model again."
    )
    post(Failed(sent.request_id, error), ModelFailed(TINY.model_id, error))
    assert value_words(row.item) == "failed"
    assert row.facts.text() == "The device has not answered the speech model. Load the model again."
    loads = len(bridge.host.sent(LoadSpeech))
    qtbot.mouseClick(row.again, Qt.MouseButton.LeftButton)
    assert [type(command) for command in bridge.host.commands[-2:]] == [LoadSpeech, Transcribe]
    assert len(bridge.host.sent(LoadSpeech)) == loads + 1


def test_a_load_that_was_cancelled_elsewhere_is_not_waited_for(
    ready: MicrophonePane, bridge: ScriptedBridge, post: Post, tmp_path: Path
) -> None:
    ready.open_files([tmp_path / "talk.wav"])
    (sent,) = bridge.host.sent(Transcribe)
    post(ModelLoading(TINY.model_id, "Reading"))
    gone = ErrorInfo("request.model_not_loaded", "Loading the model was cancelled.", "Try again.")
    post(Failed(sent.request_id, gone), ModelUnloaded(TINY.model_id, cancelled=True))
    ready.open_files([tmp_path / "other.wav"])
    assert len(bridge.host.sent(LoadSpeech)) == 2
