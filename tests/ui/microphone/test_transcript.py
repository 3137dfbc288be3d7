"""The transcript: times, words that were hard to hear, finding, playing, copying, exporting, deleting."""

from __future__ import annotations

from pathlib import Path

import pytest
from PySide6.QtCore import QPoint, Qt
from PySide6.QtGui import QGuiApplication, QTextCharFormat, QTextCursor
from PySide6.QtWidgets import QFileDialog
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.microphone.export import suggested_name
from mblt_desktop.microphone.pane import MicrophonePane
from mblt_desktop.microphone.transcript_lines import stamp
from mblt_desktop.microphone.transcript_text import TranscriptText
from mblt_desktop.store.records import TranscriptRecord
from runtime.errors import MicrophoneError
from runtime.messages import (
    AudioOutlined,
    Failed,
    OutlineAudio,
    PlayAudio,
    PlaybackEnded,
    PlaybackMoved,
    Segment,
    StopAudio,
    Word,
)
from tests.ui.conftest import Post, RecordingShell, ScriptedBridge

LINES = (
    Segment(0.4, 5.0, "Good morning.", (Word(0.4, 1.0, "Good", 0.9), Word(1.0, 2.0, "morning.", 0.2))),
    Segment(6.1, 11.0, "They arrived on Tuesday."),
    Segment(11.8, 17.0, "Good cooling in the small case."),
)


@pytest.fixture
def record() -> TranscriptRecord:
    return TranscriptRecord("talk.wav", "/a/talk.wav", 24.0, "en", LINES, "Whisper tiny.en · host CPU")


@pytest.fixture
def shown(
    ready: MicrophonePane, context: AppContext, record: TranscriptRecord, bridge: ScriptedBridge, post: Post
) -> MicrophonePane:
    context.store.transcripts.save(record)
    ready.history.setCurrentRow(0)
    outline = bridge.host.sent(OutlineAudio)[-1]
    assert outline.path == record.source
    post(AudioOutlined(outline.request_id, (0.1, 0.9, 0.2, 0.4), 24.0))
    return ready


def test_stamps() -> None:
    assert [stamp(value) for value in (0, 8.34, 59.96, 61.2, 3725.5)] == [
        "00:00.0", "00:08.3", "01:00.0", "01:01.2", "1:02:05.5",
    ]  # fmt: skip


def test_a_line_is_its_time_and_its_text(shown: MicrophonePane) -> None:
    document = shown.page.text.document()
    assert [document.findBlockByNumber(row).text() for row in range(3)] == [
        "00:00.4\tGood morning.",
        "00:06.1\tThey arrived on Tuesday.",
        "00:11.8\tGood cooling in the small case.",
    ]
    cursor = QTextCursor(document)
    cursor.setPosition(document.findBlockByNumber(0).text().index("morning") + 2)
    assert cursor.charFormat().underlineStyle() == QTextCharFormat.UnderlineStyle.DotLine
    cursor.setPosition(document.findBlockByNumber(0).text().index("Good") + 2)
    assert cursor.charFormat().underlineStyle() == QTextCharFormat.UnderlineStyle.NoUnderline


def test_text_of_a_model_is_never_markup(qtbot: QtBot) -> None:
    text = TranscriptText()
    qtbot.addWidget(text)
    text.show_segments([Segment(0, 1, "<b>bold</b> <img src='http://127.0.0.1/x'>")])
    assert text.toPlainText() == "00:00.0\t<b>bold</b> <img src='http://127.0.0.1/x'>"


def test_text_without_spaces_keeps_none(qtbot: QtBot) -> None:
    text = TranscriptText()
    qtbot.addWidget(text)
    words = (Word(0, 1, "안녕", 0.9), Word(1, 2, "하세요", 0.1), Word(2, 3, "세계", 0.9))
    text.show_segments([Segment(0, 3, "안녕하세요 세계", words)])
    assert text.toPlainText() == "00:00.0\t안녕하세요 세계"


def test_what_is_found_is_what_is_marked(qtbot: QtBot) -> None:
    """A text document counts an emoji as two."""
    text = TranscriptText()
    qtbot.addWidget(text)
    text.show_segments([Segment(0, 1, "😀 nothing"), Segment(3725, 3726, "😀😀 the Word and WORD")])
    text.find_all("word")
    assert [mark.cursor.selectedText() for mark in text.extraSelections()] == ["Word", "WORD"]


def test_a_long_transcript_does_not_keep_the_window_waiting(qtbot: QtBot) -> None:
    text = TranscriptText()
    qtbot.addWidget(text)
    text.show()
    lines = [Segment(3.0 * row, 3.0 * row + 2, f"line number {row}") for row in range(3000)]
    text.show_segments(lines)
    assert not text.is_complete
    text.find_all("number 2999")
    with qtbot.waitSignal(text.verticalScrollBar().valueChanged):
        qtbot.waitUntil(lambda: text.is_complete)
    assert text.document().blockCount() == 3000
    assert text.document().lastBlock().text() == "2:29:57.0\tline number 2999"
    qtbot.waitUntil(lambda: bool(text.extraSelections()))
    assert text.extraSelections()[0].cursor.selectedText() == "number 2999"
    text.add_segment(Segment(9000, 9001, "and one more"))
    assert text.document().blockCount() == 3001


def test_find_goes_round_and_counts(shown: MicrophonePane, qtbot: QtBot) -> None:
    search = shown.page.search
    qtbot.keyClicks(search, "good")
    assert shown.page._matches.text() == "1 of 2"
    qtbot.keyClick(search, Qt.Key.Key_Return)
    assert shown.page._matches.text() == "2 of 2"
    qtbot.keyClick(search, Qt.Key.Key_Return)
    assert shown.page._matches.text() == "1 of 2"
    qtbot.keyClicks(search, "xx")
    assert shown.page._matches.text() == "not found"
    search.clear()
    assert shown.page._matches.text() == ""


def test_copy_takes_the_text(shown: MicrophonePane, qtbot: QtBot, shell: RecordingShell) -> None:
    QGuiApplication.clipboard().setText("stale")
    qtbot.mouseClick(shown.page.copy_button, Qt.MouseButton.LeftButton)
    assert QGuiApplication.clipboard().text() == "\n".join(line.text for line in LINES)
    assert shell.toasts[-1][0] == "Copied."


def test_play_follows_the_text_and_pauses(
    shown: MicrophonePane, bridge: ScriptedBridge, post: Post, qtbot: QtBot
) -> None:
    page = shown.page
    qtbot.mouseClick(page._play, Qt.MouseButton.LeftButton)
    play = bridge.host.sent(PlayAudio)[0]
    assert (play.path, play.start) == ("/a/talk.wav", 0.0)
    assert page._play.accessibleName().startswith("Pause")
    post(PlaybackMoved(play.request_id, 6.5))
    assert page.text._current == 1
    assert page._time.text() == "00:06.5 / 00:24.0"
    qtbot.mouseClick(page._play, Qt.MouseButton.LeftButton)
    assert bridge.host.sent(StopAudio)[0].request_id == play.request_id
    post(PlaybackMoved(play.request_id, 6.6), PlaybackEnded(play.request_id, 6.6, at_end=False))
    assert shown.player.position == 6.5
    qtbot.mouseClick(page._play, Qt.MouseButton.LeftButton)
    again = bridge.host.sent(PlayAudio)[1]
    assert again.start == 6.5
    post(PlaybackEnded(again.request_id, 24.0, at_end=True))
    assert page._play.accessibleName().startswith("Play")
    assert shown.player.position == 0.0


def test_clicks_on_times_and_waveform_play_from_there(
    shown: MicrophonePane, bridge: ScriptedBridge, qtbot: QtBot
) -> None:
    text = shown.page.text
    cursor = QTextCursor(text.document().findBlockByNumber(2))
    qtbot.mouseClick(
        text.viewport(), Qt.MouseButton.LeftButton, pos=text.cursorRect(cursor).center() + QPoint(8, 0)
    )
    assert bridge.host.sent(PlayAudio)[-1].start == 11.8
    waveform = shown.page.waveform
    qtbot.mouseClick(waveform, Qt.MouseButton.LeftButton, pos=QPoint(waveform.width() // 2, 10))
    assert bridge.host.sent(PlayAudio)[-1].start == pytest.approx(12.0, abs=0.1)
    qtbot.keyClick(waveform, Qt.Key.Key_Left)
    assert bridge.host.sent(PlayAudio)[-1].start == pytest.approx(7.0, abs=0.1)


def test_a_missing_file_leaves_the_text(
    ready: MicrophonePane, context: AppContext, record: TranscriptRecord, bridge: ScriptedBridge, post: Post
) -> None:
    context.store.transcripts.save(record)
    ready.history.setCurrentRow(0)
    post(AudioOutlined(bridge.host.sent(OutlineAudio)[-1].request_id, (), 0.0))
    assert not ready.page._play.isEnabled()
    assert "not there any more" in ready.page._time.text()
    assert ready.page.text.plain_text()


def test_no_loudspeaker_is_said(shown: MicrophonePane, bridge: ScriptedBridge, post: Post) -> None:
    shown.player.toggle()
    error = MicrophoneError("No loudspeaker was found.").info
    post(Failed(bridge.host.sent(PlayAudio)[0].request_id, error))
    assert shown.banner.error == error
    assert not shown.player.playing


@pytest.mark.parametrize("form", ["txt", "srt", "vtt", "json", "tsv"])
def test_export_writes_the_chosen_form(
    shown: MicrophonePane, tmp_path: Path, qtbot: QtBot, shell: RecordingShell, form: str
) -> None:
    target = tmp_path / "한국어 [x]" / f"talk.{form}"
    target.parent.mkdir()
    actions = {action.data(): action for action in shown.page.export_button.menu().actions()}
    actions[form].trigger()
    dialog = shown.findChild(QFileDialog)
    assert dialog is not None
    with qtbot.waitSignal(shown.exporter.finished):
        dialog.fileSelected.emit(str(target))
    dialog.close()
    assert "Tuesday" in target.read_text(encoding="utf-8")
    assert shell.toasts[-1][0] == f"Saved talk.{form}."


def test_an_export_that_fails_keeps_the_transcript_and_offers_another_place(
    shown: MicrophonePane, tmp_path: Path, qtbot: QtBot, context: AppContext
) -> None:
    (tmp_path / "taken").write_text("a file where a folder is wanted")
    shown.page.export_requested.emit("srt")
    dialog = shown.findChild(QFileDialog)
    assert dialog is not None
    with qtbot.waitSignal(shown.exporter.finished):
        dialog.fileSelected.emit(str(tmp_path / "taken" / "talk.srt"))
    dialog.close()
    assert shown.banner.error is not None
    assert "transcript itself is unharmed" in shown.banner.error.sentence()
    assert shown.banner.action.text() == "Save elsewhere…"
    assert len(context.store.transcripts.list()) == 1


def test_delete_can_be_taken_back(
    shown: MicrophonePane, context: AppContext, shell: RecordingShell, qtbot: QtBot
) -> None:
    qtbot.keyClick(shown.history, Qt.Key.Key_Delete)
    assert context.store.transcripts.list() == []
    assert shown.history.count() == 0
    assert shown.page._stack.currentWidget() is shown.page.empty
    text, undo = shell.toasts[-1]
    assert "talk.wav" in text
    assert undo is not None
    undo()
    assert [row.title for row in context.store.transcripts.list()] == ["talk.wav"]
    assert shown.history.count() == 1


def test_suggested_names() -> None:
    assert suggested_name("인터뷰 02.wav", "srt") == "인터뷰 02.srt"
    assert suggested_name("Recording, 30 November, 14:02", "txt") == "Recording, 30 November, 14-02.txt"
    assert suggested_name("...", "txt") == "transcript.txt"


def test_both_appearances_paint(
    shown: MicrophonePane, context: AppContext, bridge: ScriptedBridge, post: Post
) -> None:
    shown.player.play_from(7.0)
    for mode in ("dark", "light"):
        context.theme.set_mode(mode)
        image = shown.grab().toImage()
        corner = image.pixelColor(image.width() - 4, image.height() // 2).lightness()
        assert (corner < 80) is (mode == "dark")
