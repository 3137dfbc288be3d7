"""Writing a message: Enter, Shift+Enter, input methods, growth, and Send or Stop."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QCoreApplication, QMimeData, Qt
from PySide6.QtGui import QInputMethodEvent

from mblt_desktop.chat.composer import MAX_LINES, Composer


@pytest.fixture
def composer(qtbot) -> Composer:
    widget = Composer()
    qtbot.addWidget(widget)
    widget.resize(600, 160)
    widget.show()
    widget.sent = []
    widget.submitted.connect(lambda text, _attachments: widget.sent.append(text))
    return widget


def test_enter_sends_and_shift_enter_breaks_the_line(qtbot, composer):
    qtbot.keyClicks(composer.edit, "one")
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(composer.edit, "two")
    assert composer.sent == []
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    qtbot.keyClick(composer.edit, Qt.Key.Key_Enter, Qt.KeyboardModifier.KeypadModifier)
    assert composer.sent == ["one\ntwo"] * 2


def test_enter_that_confirms_a_composition_does_not_send(qtbot, composer):
    def compose(preedit: str, commit: str = "") -> None:
        event = QInputMethodEvent(preedit, [])
        event.setCommitString(commit)
        QCoreApplication.sendEvent(composer.edit, event)

    compose("안")
    compose("안녕")
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert composer.sent == []
    compose("", "안녕")
    assert composer.text == "안녕"
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert composer.sent == ["안녕"]


def test_nothing_is_sent_that_is_empty_or_blocked(qtbot, composer):
    composer.set_text("  \n ")
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    composer.set_text("text")
    composer.set_blocked("No model is installed yet")
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert composer.sent == []
    assert not composer.send.isEnabled()
    assert composer.send.toolTip() == "No model is installed yet"


def test_while_an_answer_is_written_enter_keeps_the_text(qtbot, composer):
    composer.set_text("next question")
    composer.set_running(True)
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert composer.sent == []
    assert composer.text == "next question"
    composer.set_running(False)
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert composer.sent == ["next question"]


def test_the_field_grows_with_its_text_up_to_a_limit(composer):
    one = composer.edit.height()
    composer.set_text("\n".join("x" * 3))
    three = composer.edit.height()
    composer.set_text("x\n" * 200)
    most = composer.edit.height()
    line = composer.edit.fontMetrics().lineSpacing()
    assert three - one == pytest.approx(2 * line, abs=2)
    assert most - one == pytest.approx((MAX_LINES - 1) * line, abs=4)


def test_a_pasted_page_stays_plain_and_files_become_attachments(composer):
    mime = QMimeData()
    mime.setHtml("<b>bold</b>")
    mime.setText("bold")
    composer.edit.insertFromMimeData(mime)
    assert composer.text == "bold"
    files = []
    composer.files_added.connect(files.extend)
    mime = QMimeData()
    mime.setUrls(["file:///tmp/a%20b.txt"])
    composer.edit.insertFromMimeData(mime)
    assert [str(path) for path in files] == ["/tmp/a b.txt"]
    assert composer.text == "bold"


def test_a_very_large_paste_is_taken_whole(composer):
    text = "line of text\n" * 20_000
    mime = QMimeData()
    mime.setText(text)
    composer.edit.insertFromMimeData(mime)
    assert composer.text == text


@pytest.mark.parametrize("text", ["한국의 수도는 어디입니까?", "one\n두 번째 줄\nthree", "漢字 " * 60])
def test_lines_in_higher_scripts_need_no_scroll_bar(composer, text):
    composer.set_text(text)
    bar = composer.edit.verticalScrollBar()
    assert (bar.minimum(), bar.maximum()) == (0, 0)


def test_empty_lines_around_a_message_are_not_sent(qtbot, composer):
    composer.set_text("\n\n    indented\nlast \n\n")
    qtbot.keyClick(composer.edit, Qt.Key.Key_Return)
    assert composer.sent == ["    indented\nlast"]


def test_what_can_be_dropped_is_said_as_it_is(composer):
    assert "pictures" not in composer.edit.placeholderText()
    composer.set_reads_images(reads=True)
    assert "pictures" in composer.edit.placeholderText()
