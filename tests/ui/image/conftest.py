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
from mblt_desktop.dispatcher import Dispatcher
from mblt_desktop.image.pane import ImagePane
from mblt_desktop.paths import Paths
from mblt_desktop.settings.preferences import Preferences
from mblt_desktop.store.store import Store
from mblt_desktop.theme import theme_manager
from runtime.config import RuntimeConfig
from runtime.lanes.thread import RuntimeBridge
from runtime.messages import ModelInfo


def on_the_real_runtime(paths: Paths, tokens: int) -> Iterator[AppContext]:
    """A context on the real lanes, whose answers are greedy and at most so long."""
    bridge = RuntimeBridge(RuntimeConfig(paths.data, device="simulated"))
    store = Store(paths.database)
    preferences = Preferences(paths.settings_file)
    preferences.set("sampling.temperature", 0.0)
    preferences.set("sampling.max_tokens", tokens)
    yield AppContext(bridge, Dispatcher(bridge), store, preferences, theme_manager(), paths)
    assert bridge.host.stop() == []
    assert store.close()
    preferences.flush()


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
