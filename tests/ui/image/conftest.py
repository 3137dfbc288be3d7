"""A pane on a scripted runtime, with pictures to drop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PIL import Image
from PySide6.QtCore import QMimeData, QPoint, Qt, QUrl
from PySide6.QtGui import QDragEnterEvent, QDropEvent
from PySide6.QtWidgets import QApplication, QWidget
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.image.pane import ImagePane
from runtime.messages import ModelInfo


@pytest.fixture
def pane(qtbot: QtBot, context: AppContext) -> Iterator[ImagePane]:
    pane = ImagePane(context)
    qtbot.addWidget(pane)
    pane.resize(1378, 860)
    pane.show()
    yield pane
    pane.loader.close()


@pytest.fixture
def photo(tmp_path: Path) -> Callable[..., Path]:
    """Makes a picture of one colour; `turned` stores it on its side with an EXIF mark."""

    def make(
        name: str = "photo.png",
        colour: str = "red",
        size: tuple[int, int] = (60, 40),
        *,
        turned: bool = False,
    ) -> Path:
        path = tmp_path / name
        exif = Image.Exif()
        if turned:
            exif[0x0112] = 6
        Image.new("RGB", size, colour).save(path, exif=exif)
        return path

    return make


@pytest.fixture
def vision_model() -> ModelInfo:
    return ModelInfo(
        model_id="qwen2-vl",
        title="Qwen2-VL-2B",
        kind="image",
        family="qwen2_vl",
        folder="/models/qwen2-vl",
        device="Simulated ARIES (CPU)",
        simulated=True,
        layout=None,
        context_length=4096,
        prefill_chunk=128,
    )


def drop_on(widget: QWidget, *paths: Path) -> None:
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    drop_data(widget, mime)


def drop_data(widget: QWidget, mime: QMimeData) -> None:
    """Enter, and drop when the widget accepts it."""
    args = (Qt.DropAction.CopyAction, mime, Qt.MouseButton.LeftButton, Qt.KeyboardModifier.NoModifier)
    enter = QDragEnterEvent(QPoint(300, 300), *args)
    QApplication.sendEvent(widget, enter)
    if enter.isAccepted():
        QApplication.sendEvent(widget, QDropEvent(QPoint(300, 300), *args))
