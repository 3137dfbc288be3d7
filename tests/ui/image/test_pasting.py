"""Pictures from the clipboard go to the gallery, wherever they are pasted."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QSize, Qt, QUrl
from PySide6.QtGui import QClipboard, QColor, QGuiApplication, QImage
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.image.pane import ImagePane

Photo = Callable[..., Path]


@pytest.fixture
def clipboard() -> Iterator[QClipboard]:
    """Empty afterwards: data made in Python that is still there at the end of the process crashes it."""
    clipboard = QGuiApplication.clipboard()
    yield clipboard
    clipboard.clear()


def image_data() -> QMimeData:
    image = QImage(20, 10, QImage.Format.Format_RGB32)
    image.fill(QColor("green"))
    mime = QMimeData()
    mime.setImageData(image)
    return mime


def test_a_pasted_picture_becomes_a_file(
    qtbot: QtBot, pane: ImagePane, context: AppContext, clipboard: QClipboard
) -> None:
    clipboard.setMimeData(image_data())
    pane.gallery.setFocus()
    qtbot.keyClick(pane.gallery, Qt.Key.Key_V, Qt.KeyboardModifier.ControlModifier)
    qtbot.waitUntil(lambda: [one.source for one in pane.preview.pictures] == [QSize(20, 10)])
    (record,) = context.store.images.list()
    assert Path(record.path).parent == context.paths.media
    assert Path(record.path).is_file()


def test_pasting_into_the_question_box_takes_the_picture_too(
    qtbot: QtBot, pane: ImagePane, photo: Photo
) -> None:
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(photo()))])
    pane.ask.question.edit.insertFromMimeData(mime)
    qtbot.waitUntil(lambda: pane.model.index(0).data() == "photo.png")
