"""A pane on a scripted runtime, with pictures to drop."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
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
from runtime.errors import ErrorInfo
from runtime.messages import ModelInfo
from tests.ui.conftest import ScriptedBridge


@dataclass
class RecordingShell:
    """The window's services, remembered."""

    errors: list[ErrorInfo] = field(default_factory=list)
    panes: list[str] = field(default_factory=list)
    toasts: list[tuple[str, Callable[[], None] | None]] = field(default_factory=list)

    def show_error(self, error: ErrorInfo) -> None:
        self.errors.append(error)

    def navigate(self, pane: str) -> None:
        self.panes.append(pane)

    def toast(self, text: str, undo: Callable[[], None] | None = None) -> None:
        self.toasts.append((text, undo))


@pytest.fixture
def shell() -> RecordingShell:
    return RecordingShell()


@pytest.fixture
def context(
    qapp: QApplication,
    bridge: ScriptedBridge,
    dispatcher: Dispatcher,
    paths: Paths,
    shell: RecordingShell,
) -> Iterator[AppContext]:
    store = Store(paths.database)
    preferences = Preferences(paths.settings_file)
    yield AppContext(bridge, dispatcher, store, preferences, theme_manager(), paths, shell)
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
