"""The pane as it is used: drop, paste, look, ask, remove, come back."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from PySide6.QtCore import QItemSelectionModel, QMimeData, QSize, Qt, QUrl
from PySide6.QtWidgets import QApplication, QLineEdit, QToolButton, QWidget
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.image.pane import ImagePane
from mblt_desktop.image.question import COMPARE
from mblt_desktop.store.records import ImageAnswer, Result
from runtime.errors import ImageError
from runtime.messages import (
    Failed,
    Finished,
    Generate,
    ImagePart,
    ListModels,
    ModelInfo,
    ModelLoaded,
    Reuse,
    TextDelta,
    TextPart,
    Timings,
    Usage,
)
from tests.ui.conftest import RecordingShell, ScriptedBridge
from tests.ui.image.conftest import drop_data, drop_on

Photo = Callable[..., Path]
REUSE = Reuse(90, "image", 80)
USAGE, TIMINGS = Usage(100, 80, 21), Timings(0.1, 0.0, 0.0, 0.5, 2.0, 0.6, 2.6)


def names(pane: ImagePane) -> list[str]:
    return [pane.model.index(row).data() for row in range(pane.model.rowCount())]


def shown(pane: ImagePane) -> list[QSize]:
    return [picture.source for picture in pane.preview.pictures]


def add(qtbot: QtBot, pane: ImagePane, *paths: Path) -> None:
    count = pane.model.rowCount() + len(paths)
    pane.open_files(list(paths))
    qtbot.waitUntil(lambda: pane.model.rowCount() == count)
    qtbot.waitUntil(lambda: bool(pane.preview.pictures))


# -- adding --------------------------------------------------------------------------------------


def test_a_dropped_picture_is_shown_upright(qtbot: QtBot, pane: ImagePane, photo: Photo) -> None:
    drop_on(pane, photo("holiday.png", "blue", (60, 40), turned=True))
    qtbot.waitUntil(lambda: shown(pane) == [QSize(40, 60)])
    assert names(pane) == ["holiday.png"]
    assert pane.page.header.title == "holiday.png"
    middle = pane.preview.rect().center()
    assert pane.preview.grab().toImage().pixelColor(middle).name() == "#0000ff"


def test_pictures_dropped_together_keep_their_order(qtbot: QtBot, pane: ImagePane, photo: Photo) -> None:
    """Whichever is copied first: the first takes longest here."""
    sizes = [(3000, 3000), (60, 40), (61, 40), (62, 40), (63, 40)]
    add(qtbot, pane, *(photo(f"{number}.png", size=size) for number, size in enumerate(sizes)))
    assert names(pane) == [f"{number}.png" for number in range(len(sizes))]
    assert pane.page.header.title == "0.png"


def test_dropped_text_is_not_taken(pane: ImagePane) -> None:
    mime = QMimeData()
    mime.setText("words")
    drop_data(pane, mime)
    assert pane.model.rowCount() == 0
    assert not pane.paste(mime)


def test_what_is_no_picture_is_refused_in_words_and_the_rest_is_taken(
    qtbot: QtBot, pane: ImagePane, photo: Photo, tmp_path: Path
) -> None:
    notes = tmp_path / "notes.png"
    notes.write_text("just words")
    heic = tmp_path / "photo.heic"
    heic.write_bytes(b"\0\0\0\x18ftypheic" + b"\0" * 40)
    pane.open_files([notes, photo(), heic])
    qtbot.waitUntil(lambda: names(pane) == ["photo.png"])
    qtbot.waitUntil(lambda: pane.banner.error is not None and "2 files" in pane.banner.error.summary)
    assert pane.banner.isVisible()
    assert "notes.png is a text file." in pane.banner.error.detail
    assert "photo.heic is an HEIC picture." in pane.banner.error.detail


def test_the_same_picture_is_not_added_twice(
    qtbot: QtBot, pane: ImagePane, photo: Photo, shell: RecordingShell
) -> None:
    add(qtbot, pane, photo("one.png"))
    pane.open_files([photo("copy of one.png")])
    qtbot.waitUntil(lambda: bool(shell.toasts))
    assert names(pane) == ["one.png"]
    assert shell.toasts[0][0] == "one.png is already in the gallery."


@pytest.mark.parametrize(
    ("name", "taken"),
    [
        ("a.PNG", True),
        ("a.jpeg", True),
        ("a.heic", True),
        ("a.wav", False),
        ("a", False),
        ("a.pftrace", False),
    ],
)
def test_the_window_can_ask_who_takes_a_file(pane: ImagePane, name: str, taken: bool) -> None:
    assert pane.accepts_drop([Path("/x") / name]) is taken


def test_the_sample_is_one_click_away(qtbot: QtBot, pane: ImagePane) -> None:
    qtbot.mouseClick(pane._sample, Qt.MouseButton.LeftButton)
    qtbot.waitUntil(lambda: names(pane) == ["delivery-note.png"])


# -- keeping -------------------------------------------------------------------------------------


def test_the_gallery_is_there_after_a_restart(
    qtbot: QtBot, pane: ImagePane, photo: Photo, context: AppContext
) -> None:
    source = photo("kept.png", "red")
    add(qtbot, pane, source)
    (record,) = context.store.images.list()
    answer = ImageAnswer(
        record.id, "What?", "A **red** field.", result=Result("end", USAGE, TIMINGS, reuse=REUSE)
    )
    context.store.images.save_answer(answer)
    source.unlink()
    again = ImagePane(context)
    qtbot.addWidget(again)
    again.show()
    qtbot.waitUntil(lambda: shown(again) == [QSize(60, 40)])
    (card,) = again.ask.answers.cards
    assert card.text.toPlainText() == "A red field."
    assert card.status == (
        "10.0 tok/s · first token 0.60 s · 21 tokens · prompt 100: 80 reused, 20 new · stopped: by itself\n"
        "80 of 100 prompt tokens were reused, 20 were computed because a picture changed: token 81 is the "
        "first that differs."
    )
    again.loader.close()


def test_remove_can_be_undone(qtbot: QtBot, pane: ImagePane, photo: Photo, shell: RecordingShell) -> None:
    add(qtbot, pane, photo("a.png", "red"))
    add(qtbot, pane, photo("b.png", "blue"))
    pane.gallery.setCurrentIndex(pane.model.index(1))
    qtbot.keyClick(pane.gallery, Qt.Key.Key_Delete)
    assert names(pane) == ["b.png"]
    assert pane.page.header.title == "b.png"
    words, undo = shell.toasts[-1]
    assert words == "a.png removed from the gallery."
    assert undo is not None
    undo()
    assert names(pane) == ["b.png", "a.png"]
    assert pane.page.header.title == "a.png"


def test_removing_the_last_picture_shows_how_to_begin(
    qtbot: QtBot, pane: ImagePane, photo: Photo, shell: RecordingShell
) -> None:
    assert pane.empty.isVisible()
    add(qtbot, pane, photo())
    assert not pane.empty.isVisible()
    qtbot.keyClick(pane.gallery, Qt.Key.Key_Delete)
    assert pane.empty.isVisible()
    assert pane.preview.pictures == ()


def test_a_lost_copy_is_said_and_its_answers_stay(
    qtbot: QtBot, pane: ImagePane, photo: Photo, context: AppContext
) -> None:
    add(qtbot, pane, photo("lost.png"))
    Path(context.store.images.list()[0].path).unlink()
    again = ImagePane(context)
    qtbot.addWidget(again)
    again.show()
    qtbot.waitUntil(lambda: again.banner.error is not None)
    assert again.banner.error.summary.startswith("lost.png cannot be shown")
    assert "unharmed" in again.banner.error.unharmed
    again.loader.close()


# -- asking --------------------------------------------------------------------------------------


def load(qtbot: QtBot, bridge: ScriptedBridge, pane: ImagePane, model: ModelInfo) -> None:
    with qtbot.waitSignal(pane.ask.models.changed):
        bridge.host.post(ModelLoaded(model))


def ask(qtbot: QtBot, pane: ImagePane, bridge: ScriptedBridge, words: str = "What is it?") -> Generate:
    pane.ask.question.edit.setPlainText(words)
    qtbot.mouseClick(pane.ask.question.ask, Qt.MouseButton.LeftButton)
    return bridge.host.sent(Generate)[-1]


def test_without_a_model_the_reason_is_said(
    qtbot: QtBot, pane: ImagePane, photo: Photo, shell: RecordingShell, bridge: ScriptedBridge
) -> None:
    pane.activated()
    assert bridge.host.sent(ListModels)
    add(qtbot, pane, photo())
    assert pane.ask.notice.isVisible()
    assert pane.ask.question.hint == "No image model is loaded."
    pane.ask.question.edit.setPlainText("What is it?")
    assert not pane.ask.question.ask.isEnabled()
    pane.ask.notice.models_requested.emit()
    assert shell.panes == ["models"]


def test_an_answer_is_written_under_its_picture(
    qtbot: QtBot, pane: ImagePane, photo: Photo, bridge: ScriptedBridge, vision_model: ModelInfo
) -> None:
    load(qtbot, bridge, pane, vision_model)
    add(qtbot, pane, photo())
    command = ask(qtbot, pane, bridge)
    assert pane.ask.question.stop.isVisible()
    bridge.host.post(TextDelta(command.request_id, "A *red* field."))
    qtbot.waitUntil(lambda: pane.ask.answers.cards[0].text.toPlainText() == "A *red* field.")
    bridge.host.post(Finished(command.request_id, "end", USAGE, TIMINGS, "Simulated ARIES (CPU)"))
    qtbot.waitUntil(lambda: pane.ask.answers.cards[0].text.toPlainText() == "A red field.")
    assert "Simulated ARIES (CPU)" in pane.ask.answers.cards[0].status
    assert pane.ask.question.ask.isVisible()


def test_an_answer_goes_on_while_another_picture_is_shown(
    qtbot: QtBot, pane: ImagePane, photo: Photo, bridge: ScriptedBridge, vision_model: ModelInfo
) -> None:
    load(qtbot, bridge, pane, vision_model)
    add(qtbot, pane, photo("a.png", "red"))
    add(qtbot, pane, photo("b.png", "blue"))
    pane.gallery.setCurrentIndex(pane.model.index(1))
    command = ask(qtbot, pane, bridge)
    bridge.host.post(TextDelta(command.request_id, "One, "))
    qtbot.waitUntil(lambda: bool(pane.ask.answers.cards[0].text.toPlainText()))
    pane.gallery.setCurrentIndex(pane.model.index(0))
    assert pane.ask.answers.cards == []
    bridge.host.post(TextDelta(command.request_id, "two, "))
    qtbot.waitUntil(lambda: pane.ask.asking.running.text == "One, two, ")
    pane.gallery.setCurrentIndex(pane.model.index(1))
    assert pane.ask.answers.cards[0].text.toPlainText().startswith("One, two,")
    bridge.host.post(
        TextDelta(command.request_id, "three."),
        Finished(command.request_id, "end", USAGE, TIMINGS, "device"),
    )
    qtbot.waitUntil(lambda: pane.ask.answers.cards[0].text.toPlainText() == "One, two, three.")


def test_two_selected_pictures_are_compared(
    qtbot: QtBot, pane: ImagePane, photo: Photo, bridge: ScriptedBridge, vision_model: ModelInfo
) -> None:
    load(qtbot, bridge, pane, vision_model)
    add(qtbot, pane, photo("a.png", "red"))
    add(qtbot, pane, photo("b.png", "blue"))
    pane.gallery.selectionModel().select(pane.model.index(1), QItemSelectionModel.SelectionFlag.Select)
    qtbot.waitUntil(lambda: len(pane.preview.pictures) == 2)
    qtbot.mouseClick(pane.ask.question.presets[COMPARE], Qt.MouseButton.LeftButton)
    command = ask(qtbot, pane, bridge, pane.ask.question.edit.toPlainText())
    assert sum(isinstance(part, ImagePart) for part in command.turns[0].parts) == 2
    bridge.host.post(Finished(command.request_id, "end", USAGE, TIMINGS, "device"))
    qtbot.waitUntil(lambda: pane.ask.asking.running is None)


def test_a_model_that_only_describes_needs_no_question(
    qtbot: QtBot, pane: ImagePane, photo: Photo, bridge: ScriptedBridge, vision_model: ModelInfo
) -> None:
    blip = replace(vision_model, model_id="blip", title="BLIP", family="blip")
    load(qtbot, bridge, pane, blip)
    add(qtbot, pane, photo("a.png", "red"))
    command = ask(qtbot, pane, bridge, "")
    assert command.turns[0].parts[1] == TextPart("")
    bridge.host.post(
        TextDelta(command.request_id, "a red field"),
        Finished(command.request_id, "end", USAGE, TIMINGS, "device"),
    )
    qtbot.waitUntil(lambda: pane.ask.asking.running is None)
    assert pane.ask.answers.cards[0].answer.question == "Describe"
    assert pane.ask.answers.cards[0].answer.text == "a red field"
    # What is written is how the description begins, and the answer has it, as BLIP's own has.
    command = ask(qtbot, pane, bridge, "a photograph of")
    assert command.turns[0].parts[1] == TextPart("a photograph of")
    bridge.host.post(TextDelta(command.request_id, "a red field"))
    qtbot.waitUntil(lambda: pane.ask.answers.cards[1].text.toPlainText() == "a photograph of a red field")
    bridge.host.post(Finished(command.request_id, "end", USAGE, TIMINGS, "device"))
    qtbot.waitUntil(lambda: pane.ask.asking.running is None)
    assert pane.ask.answers.cards[1].answer.text == "a photograph of a red field"
    # Two pictures are described one by one.
    add(qtbot, pane, photo("b.png", "blue"))
    pane.gallery.selectionModel().select(pane.model.index(1), QItemSelectionModel.SelectionFlag.Select)
    qtbot.waitUntil(lambda: pane.ask.question.each.text() == "Describe 2 pictures")
    assert not pane.ask.question.ask.isVisible()
    qtbot.mouseClick(pane.ask.question.each, Qt.MouseButton.LeftButton)
    qtbot.mouseClick(pane.ask.rounds.choice.again, Qt.MouseButton.LeftButton)
    first, second = bridge.host.sent(Generate)[-2:]
    assert [len(command.turns[0].parts) for command in (first, second)] == [2, 2]
    for command in (first, second):
        bridge.host.post(Finished(command.request_id, "end", USAGE, TIMINGS, "device"))
    qtbot.waitUntil(lambda: not pane.ask.rounds.rounds.running)
    load(qtbot, bridge, pane, vision_model)
    assert pane.ask.question.ask.text() == "Ask"


def test_an_error_is_shown_in_its_card(
    qtbot: QtBot, pane: ImagePane, photo: Photo, bridge: ScriptedBridge, vision_model: ModelInfo
) -> None:
    load(qtbot, bridge, pane, vision_model)
    add(qtbot, pane, photo())
    command = ask(qtbot, pane, bridge)
    error = ImageError("photo.png is damaged.", remedy="Choose another.")
    bridge.host.post(Failed(command.request_id, error.info))
    qtbot.waitUntil(lambda: pane.ask.asking.running is None)
    status = pane.ask.answers.cards[0].status
    assert status == "photo.png is damaged. The file was not changed. Choose another."


def test_markup_in_an_answer_loads_and_runs_nothing(qtbot: QtBot, pane: ImagePane, photo: Photo) -> None:
    add(qtbot, pane, photo())
    hostile = '<script>alert(1)</script> ![x](file:///etc/passwd) <img src="http://127.0.0.1:9/x.png">'
    record = pane.gallery.records()[0]
    pane.ask.answers.add(ImageAnswer(record.id, "<b>What?</b>", hostile, result=Result("end")))
    text = pane.ask.answers.cards[-1].text
    assert "<script>" in text.toPlainText()
    assert text.loadResource(2, QUrl("file:///etc/passwd")) is None


# -- small windows, keyboard and names -----------------------------------------------------------


def test_every_control_has_a_name_and_is_reached_by_tab(
    qtbot: QtBot, pane: ImagePane, photo: Photo, bridge: ScriptedBridge, vision_model: ModelInfo
) -> None:
    load(qtbot, bridge, pane, vision_model)
    add(qtbot, pane, photo())
    for button in pane.findChildren(QToolButton):
        assert button.accessibleName() or isinstance(button.parent(), QLineEdit), button
    reached: list[QWidget] = []
    pane.gallery.setFocus()
    for _ in range(60):
        reached.append(QApplication.focusWidget())
        qtbot.keyClick(QApplication.focusWidget(), Qt.Key.Key_Tab)
    for wanted in (
        pane.gallery,
        pane.preview,
        pane.ask.question.edit,
        pane.ask.question.presets[0],
        pane._remove,
    ):
        assert wanted in reached


@pytest.mark.parametrize("width", [1378, 1218, 1160, 1030, 838])
def test_nothing_in_the_header_overlaps_in_a_small_window(
    qtbot: QtBot, pane: ImagePane, photo: Photo, width: int
) -> None:
    add(qtbot, pane, photo("a picture with a very long name of its own, taken at noon.png"))
    pane.resize(width, 520)
    assert pane.width() == width
    header = pane.page.header

    def apart() -> bool:
        parts = [part for part in header.children() if isinstance(part, QWidget) and part.isVisible()]
        places = sorted((part.geometry() for part in parts), key=lambda place: place.left())
        overlap = any(left.right() >= right.left() for left, right in itertools.pairwise(places))
        return len(places) >= 5 and not overlap and header.rect().contains(places[-1])

    qtbot.waitUntil(apart)
