"""Buttons under the keyboard."""

from __future__ import annotations

import pytest
from PySide6.QtGui import QTextDocument
from PySide6.QtWidgets import QLineEdit, QVBoxLayout, QWidget
from pytestqt.qtbot import QtBot

from mblt_desktop.widgets import Button, ElidedLabel, IconButton, plain_tip


class Form(QWidget):
    """A button between two fields."""

    def __init__(self) -> None:
        super().__init__()
        self.button, self.next, self.last = Button("Record"), QLineEdit(), QLineEdit()
        column = QVBoxLayout(self)
        for widget in (self.button, self.next, self.last):
            column.addWidget(widget)


@pytest.fixture
def form(qtbot: QtBot) -> Form:
    form = Form()
    qtbot.addWidget(form)
    form.show()
    form.activateWindow()
    form.button.setFocus()
    return form


def test_a_button_that_was_disabled_for_a_moment_has_the_focus_again(form: Form) -> None:
    form.button.setEnabled(False)
    assert form.focusWidget() is form.next
    form.button.setEnabled(True)
    assert form.focusWidget() is form.button


def test_a_button_does_not_take_the_focus_from_where_somebody_put_it(form: Form) -> None:
    form.button.setEnabled(False)
    form.last.setFocus()
    form.button.setEnabled(True)
    assert form.focusWidget() is form.last


def test_a_button_without_the_focus_does_not_get_it(form: Form) -> None:
    form.next.setFocus()
    form.button.setEnabled(False)
    form.button.setEnabled(True)
    assert form.focusWidget() is form.next


@pytest.mark.parametrize("name", ["<img src='/etc/passwd'>.png", "<b>bold</b> & more", "a < b\nand <i>c</i>"])
def test_a_tooltip_shows_tags_and_does_not_follow_them(qtbot: QtBot, name: str) -> None:
    label = ElidedLabel(name)
    qtbot.addWidget(label)
    label.resize(30, 20)
    label.show()
    button = IconButton("close", name)
    qtbot.addWidget(button)
    for tip in (plain_tip(name), label.toolTip(), button.toolTip()):
        document = QTextDocument()
        document.setHtml(tip)
        assert document.toPlainText().replace("\u2028", "\n") == name
        assert "<img" not in document.toHtml()
    assert button.accessibleName() == name
    assert plain_tip("3 & 4.png") == "3 & 4.png"
