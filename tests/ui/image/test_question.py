"""The question box: keys, presets, and reasons."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QMimeData, Qt, QUrl
from PySide6.QtGui import QImage, QInputMethodEvent
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from mblt_desktop.image.question import COMPARE, PRESETS, QuestionBox


@pytest.fixture
def box(qtbot: QtBot) -> QuestionBox:
    box = QuestionBox()
    qtbot.addWidget(box)
    box.resize(400, 200)
    box.show()
    box.set_state("", 1, running=False, stopping=False)
    return box


@pytest.fixture
def asked(box: QuestionBox) -> list[str]:
    questions: list[str] = []
    box.asked.connect(questions.append)
    return questions


def test_enter_asks_and_empties_the_box(qtbot: QtBot, box: QuestionBox, asked: list[str]) -> None:
    qtbot.keyClicks(box.edit, "What is it?")
    qtbot.keyClick(box.edit, Qt.Key.Key_Return)
    assert asked == ["What is it?"]
    assert box.edit.toPlainText() == ""


def test_shift_enter_starts_a_line(qtbot: QtBot, box: QuestionBox, asked: list[str]) -> None:
    qtbot.keyClicks(box.edit, "a")
    qtbot.keyClick(box.edit, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    qtbot.keyClicks(box.edit, "b")
    assert asked == []
    qtbot.mouseClick(box.ask, Qt.MouseButton.LeftButton)
    assert asked == ["a\nb"]


def test_enter_that_confirms_composed_text_does_not_ask(
    qtbot: QtBot, box: QuestionBox, asked: list[str]
) -> None:
    QApplication.sendEvent(box.edit, QInputMethodEvent("안녕", []))
    qtbot.keyClick(box.edit, Qt.Key.Key_Return)
    assert asked == []
    commit = QInputMethodEvent("", [])
    commit.setCommitString("안녕")
    QApplication.sendEvent(box.edit, commit)
    qtbot.keyClick(box.edit, Qt.Key.Key_Return)
    assert asked == ["안녕"]


def test_a_reason_disables_asking_and_is_said(qtbot: QtBot, box: QuestionBox, asked: list[str]) -> None:
    box.set_state("No image model is loaded.", 1, running=False, stopping=False)
    qtbot.keyClicks(box.edit, "What is it?")
    qtbot.keyClick(box.edit, Qt.Key.Key_Return)
    assert asked == []
    assert box.edit.toPlainText() == "What is it?", "nothing typed is lost"
    assert not box.ask.isEnabled()
    assert box.ask.toolTip() == box.hint == "No image model is loaded."


def test_an_empty_question_is_not_asked(qtbot: QtBot, box: QuestionBox, asked: list[str]) -> None:
    qtbot.keyClicks(box.edit, "   ")
    qtbot.keyClick(box.edit, Qt.Key.Key_Return)
    assert asked == []
    assert box.ask.toolTip()


@pytest.mark.parametrize("number", range(len(PRESETS)))
def test_presets_fill_the_box(qtbot: QtBot, box: QuestionBox, asked: list[str], number: int) -> None:
    box.set_state("", 2, running=False, stopping=False)
    qtbot.mouseClick(box.presets[number], Qt.MouseButton.LeftButton)
    assert box.edit.toPlainText() == PRESETS[number][1]
    assert asked == [], "one more key sends it, or it is changed first"


def test_comparing_needs_two_pictures(box: QuestionBox) -> None:
    assert not box.presets[COMPARE].isEnabled()
    assert "Ctrl" in box.presets[COMPARE].toolTip()
    box.set_state("", 2, running=False, stopping=False)
    assert box.presets[COMPARE].isEnabled()


def test_stop_takes_the_place_of_ask(qtbot: QtBot, box: QuestionBox) -> None:
    box.set_state("", 1, running=True, stopping=False)
    assert box.stop.isVisible()
    assert not box.ask.isVisible()
    with qtbot.waitSignal(box.stop_requested):
        qtbot.mouseClick(box.stop, Qt.MouseButton.LeftButton)
    box.set_state("", 1, running=True, stopping=True)
    assert not box.stop.isEnabled()
    assert box.stop.text() == "Stopping…"


def test_a_model_that_only_describes_is_asked_nothing(
    qtbot: QtBot, box: QuestionBox, asked: list[str]
) -> None:
    box.set_describer("BLIP")
    assert (box.ask.text(), box.hint) == ("Describe", "BLIP describes a picture; it takes no question.")
    assert not any(preset.isVisible() for preset in box.presets)
    assert "begins" in box.edit.placeholderText()
    assert "begins" in box.edit.accessibleName()
    qtbot.mouseClick(box.ask, Qt.MouseButton.LeftButton)
    qtbot.keyClicks(box.edit, "a photograph of")
    qtbot.keyClick(box.edit, Qt.Key.Key_Return)
    assert asked == ["", "a photograph of"]
    box.set_state("Add a picture first.", 0, running=False, stopping=False)
    assert not box.ask.isEnabled()
    box.set_state("", 1, running=False, stopping=False)
    box.set_describer("")
    assert (box.ask.text(), box.ask.isEnabled()) == ("Ask", False)
    assert all(preset.isVisible() for preset in box.presets)
    assert box.edit.placeholderText() == "Ask about this picture"


def test_pasted_pictures_and_files_go_to_the_gallery(qtbot: QtBot, box: QuestionBox) -> None:
    taken: list[QMimeData] = []
    box.edit.media_pasted.connect(taken.append)
    image, files, text = QMimeData(), QMimeData(), QMimeData()
    picture = QImage(2, 2, QImage.Format.Format_RGB32)
    picture.fill(0)
    image.setImageData(picture)
    files.setUrls([QUrl.fromLocalFile("/tmp/a.png")])
    text.setText("words")
    for mime in (image, files, text):
        assert box.edit.canInsertFromMimeData(mime)
        box.edit.insertFromMimeData(mime)
    assert taken == [image, files]
    assert box.edit.toPlainText() == "words"
