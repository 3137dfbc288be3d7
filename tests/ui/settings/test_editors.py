"""Editors: what the setting accepts goes out, the rest is refused in words, and the wheel is harmless."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, QPointF, Qt
from PySide6.QtGui import QWheelEvent
from PySide6.QtWidgets import QApplication, QComboBox, QDoubleSpinBox, QSlider
from pytestqt.qtbot import QtBot

from mblt_desktop.settings.editor_base import Editor
from mblt_desktop.settings.editors import (
    ComboEditor,
    LinesEditor,
    RadioEditor,
    SwitchEditor,
    TextEditor,
    make_editor,
)
from mblt_desktop.settings.number_editors import IntegerEditor, NumberEditor
from mblt_desktop.settings.preferences import Preferences
from mblt_desktop.settings.row import SettingRow
from runtime.settings.table import SETTINGS


def editor(key: str, qtbot: QtBot) -> tuple[Editor, list[object], list[str]]:
    made = make_editor(SETTINGS[key])
    qtbot.addWidget(made)
    made.show()
    edits: list[object] = []
    refusals: list[str] = []
    made.edited.connect(edits.append)
    made.refused.connect(lambda error: refusals.append(error.info.sentence()))
    return made, edits, refusals


@pytest.mark.parametrize(
    ("key", "kind"),
    [
        ("sampling.temperature", NumberEditor),
        ("sampling.top_k", IntegerEditor),
        ("sampling.seed", TextEditor),
        ("sampling.stop", LinesEditor),
        ("sampling.apply_penalties", SwitchEditor),
        ("layout.core_mode", RadioEditor),
        ("layout.cores", TextEditor),
        ("appearance.theme", ComboEditor),
        ("audio.device", ComboEditor),
    ],
)
def test_each_kind_has_its_editor(key: str, kind: type, qtbot: QtBot) -> None:
    assert isinstance(editor(key, qtbot)[0], kind)


@pytest.mark.parametrize("key", [key for key, setting in SETTINGS.items() if setting.shown])
def test_showing_a_value_is_not_an_edit(key: str, qtbot: QtBot) -> None:
    made, edits, refusals = editor(key, qtbot)
    made.show_value(SETTINGS[key].default)
    assert edits == []
    assert refusals == []


def test_a_number_left_open_starts_from_the_value_that_counts(qtbot: QtBot) -> None:
    made, edits, _ = editor("sampling.temperature", qtbot)
    assert isinstance(made, NumberEditor)
    made.set_base(0.7)
    made.show_value(None)
    assert made.spin.text() == "the model's own"
    assert made.slider.value() == round(0.7 / 2 * made.slider.maximum())
    qtbot.keyClick(made.spin, Qt.Key.Key_Up)
    assert edits == [0.75]
    made.show_value(0.0)
    qtbot.keyClick(made.spin, Qt.Key.Key_Down)
    assert edits[-1] is None, "below the lowest value is the model's own again"


def test_the_slider_gives_values_of_the_setting(qtbot: QtBot) -> None:
    made, edits, refusals = editor("sampling.top_p", qtbot)
    assert isinstance(made, NumberEditor)
    for place in range(made.slider.maximum() + 1):
        made.slider.setValue(place)
    assert refusals == []
    assert max(edits) == 1.0
    assert all(0 < value <= 1 for value in edits)


def test_a_seed_is_typed_and_nonsense_is_refused(qtbot: QtBot) -> None:
    made, edits, refusals = editor("sampling.seed", qtbot)
    for text in ("42", "-1", "many", ""):
        made.buddy.setText(text)
        qtbot.keyClick(made.buddy, Qt.Key.Key_Return)
    assert edits == [42, None]
    assert ["“-1”" in refusals[0], "“many”" in refusals[1]] == [True, True]


def test_stop_texts_are_one_per_line(qtbot: QtBot) -> None:
    made, edits, _ = editor("sampling.stop", qtbot)
    assert isinstance(made, LinesEditor)
    made.box.setPlainText("###\n\nUser:\\n")
    assert edits[-1] == ("###", "User:\n")
    made.show_value(("###", "User:\n"))
    assert made.box.toPlainText() == "###\n\nUser:\\n", "what was typed is not rewritten under the cursor"


def test_items_are_typed_with_commas_and_emptied(qtbot: QtBot) -> None:
    made, edits, refusals = editor("layout.cores", qtbot)
    for text in ("0:0:0 , 0:0:1", "0:0:0,", ""):
        made.buddy.setText(text)
        qtbot.keyClick(made.buddy, Qt.Key.Key_Return)
    made.show_value(("0:0:0",))
    made.buddy.clear()
    qtbot.keyClick(made.buddy, Qt.Key.Key_Return)
    assert edits == [("0:0:0", "0:0:1"), (), ()]
    assert len(refusals) == 1


def test_a_radio_button_is_a_choice(qtbot: QtBot) -> None:
    made, edits, _ = editor("layout.core_mode", qtbot)
    assert isinstance(made, RadioEditor)
    made.show_value("single")
    assert made.buttons["single"].isChecked()
    made.buttons["global4"].click()
    assert edits == ["global4"]


@pytest.mark.parametrize("key", ["sampling.temperature", "sampling.top_k", "appearance.theme"])
def test_the_wheel_changes_nothing_without_the_focus(key: str, qtbot: QtBot) -> None:
    made, edits, _ = editor(key, qtbot)
    targets = [*made.findChildren(QDoubleSpinBox), *made.findChildren(QSlider), *made.findChildren(QComboBox)]
    for target in targets or [made.buddy]:
        target.clearFocus()
        middle = QPointF(target.rect().center())
        event = QWheelEvent(
            middle, target.mapToGlobal(middle), QPoint(0, 120), QPoint(0, 120), Qt.MouseButton.NoButton,
            Qt.KeyboardModifier.NoModifier, Qt.ScrollPhase.NoScrollPhase, False,
        )  # fmt: skip
        QApplication.sendEvent(target, event)
    assert edits == []


def test_a_row_shows_a_refusal_and_forgets_it_with_the_next_good_value(
    preferences: Preferences, qtbot: QtBot
) -> None:
    row = SettingRow(SETTINGS["sampling.seed"], preferences)
    qtbot.addWidget(row)
    line = row.editor.buddy
    for text in ("x", "7"):
        line.setText(text)
        qtbot.keyClick(line, Qt.Key.Key_Return)
        if text == "x":
            assert row.error.isVisibleTo(row)
            assert "It takes a whole number from 0" in row.error.text()
            assert line.property("invalid")
            assert preferences.get("sampling.seed") is None
    assert not row.error.isVisibleTo(row)
    assert not line.property("invalid")
    assert preferences.get("sampling.seed") == 7
