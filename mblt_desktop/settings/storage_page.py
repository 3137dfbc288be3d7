"""Storage and privacy: where everything is, how much it takes, and what leaves the computer (nothing)."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QThreadPool, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QHBoxLayout, QVBoxLayout, QWidget

from mblt_desktop.context import AppContext
from mblt_desktop.settings.page import SettingsPage
from mblt_desktop.settings.row import Card
from mblt_desktop.widgets import Button, ElidedLabel, Label
from runtime.config import RuntimeConfig
from runtime.errors import ErrorInfo, to_info
from runtime.storage import bytes_below, clear_downloads, clear_kept_caches

_PRIVACY = (
    "Everything runs on this computer. There is no account and no telemetry, and nothing you write, say or "
    "show is sent anywhere. The network is used only to fetch a model that you ask for in Models."
)


class StoragePage(SettingsPage):
    """Sizes are counted in the background each time the page comes to the front."""

    _counted = Signal(object)
    _cleared = Signal(str, object)

    def __init__(self, context: AppContext) -> None:
        super().__init__(
            "storage",
            "Where your work and the models are kept.",
            context.preferences,
        )
        self._context = context
        self._config = RuntimeConfig(context.paths.data)
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(1)
        paths = context.paths
        self.folders = {
            "Models": FolderRow("Models", self._config.models_dir),
            "Recordings": FolderRow("Recordings", paths.recordings),
            "Pictures and sound": FolderRow("Pictures and sound", paths.media),
            "Conversations and transcripts": FolderRow("Conversations and transcripts", paths.database),
            "Downloads": FolderRow("Downloads", self._config.downloads_dir),
            "Caches of conversations": FolderRow("Caches of conversations", self._config.kv_dir),
            "Settings": FolderRow("Settings", paths.settings_file),
            "Log": FolderRow("Log", paths.logs),
        }
        self.clear = self._add_clear("Downloads", "Unfinished downloads start over; installed models stay.")
        self.clear_caches = self._add_clear(
            "Caches of conversations", "Conversations stay; a long one is read again once."
        )
        card = Card("On the disk")
        for row in self.folders.values():
            card.add(row)
        self.add_extra(card)
        self.add_card(["storage.load_last_model"], "At start")
        self.add_card(["storage.keep_kv", "storage.kv_mib"], "Caches of conversations")
        self._add_privacy()
        self._counted.connect(self._on_counted)
        self._cleared.connect(self._on_cleared)
        self.clear.clicked.connect(self._on_clear_clicked)
        self.clear_caches.clicked.connect(self._on_clear_caches_clicked)
        app = QCoreApplication.instance()
        if app is not None:
            app.aboutToQuit.connect(self.close_jobs)

    def _add_privacy(self) -> None:
        privacy = Card("Privacy")
        words = Label(_PRIVACY, wrap=True)
        words.setContentsMargins(16, 8, 16, 12)
        privacy.add(words)
        self.add_extra(privacy)

    def _add_clear(self, name: str, what_happens: str) -> Button:
        button = Button("Clear", "trash")
        button.setAccessibleName(f"Clear {name[0].lower()}{name[1:]}")
        button.setToolTip(what_happens)
        button.setEnabled(False)
        self.folders[name].buttons.insertWidget(0, button)
        return button

    def activated(self) -> None:
        """Count again."""
        places = {name: row.path for name, row in self.folders.items()}
        self._start(lambda: {name: bytes_below(path) for name, path in places.items()}, self._counted.emit)

    @Slot()
    def close_jobs(self) -> None:
        """Wait for what still runs."""
        self._pool.clear()
        self._pool.waitForDone()

    def _start(self, work: Callable[[], object], done: Callable[[object], None]) -> None:
        self._pool.start(lambda: done(_outcome(work)))

    @Slot(object)
    def _on_counted(self, sizes: dict[str, int] | ErrorInfo) -> None:
        if isinstance(sizes, ErrorInfo):
            self._context.show_error(sizes)
            return
        for name, size in sizes.items():
            self.folders[name].show_size(size)
        self.clear.setEnabled(sizes["Downloads"] > 0)
        self.clear_caches.setEnabled(sizes["Caches of conversations"] > 0)

    @Slot()
    def _on_clear_clicked(self) -> None:
        self.clear.setEnabled(False)
        self._clear("Downloads", clear_downloads)

    @Slot()
    def _on_clear_caches_clicked(self) -> None:
        self.clear_caches.setEnabled(False)
        self._clear("Caches of conversations", clear_kept_caches)

    def _clear(self, name: str, clear: Callable[[RuntimeConfig], int]) -> None:
        config, done = self._config, self._cleared
        self._start(lambda: clear(config), lambda outcome: done.emit(name, outcome))

    @Slot(str, object)
    def _on_cleared(self, name: str, outcome: int | ErrorInfo) -> None:
        if isinstance(outcome, ErrorInfo):
            self._context.show_error(outcome)
        else:
            self._context.toast(f"{name} cleared: {say_bytes(outcome)} freed.")
        self.activated()


class FolderRow(QWidget):
    """A place on the disk: its name and path, its size, and a way into it."""

    def __init__(self, name: str, path: Path) -> None:
        super().__init__()
        self.path = path
        self.size_words = Label("…", tabular=True)
        self.open = Button("Open folder", "external")
        self.open.setAccessibleName(f"Open the folder of {name}")
        self.open.clicked.connect(self._on_open_clicked)
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(Label(name))
        words.addWidget(ElidedLabel(str(path), "muted", "small"))
        self.buttons = QHBoxLayout()
        self.buttons.setSpacing(8)
        self.buttons.addWidget(self.open)
        row = QHBoxLayout(self)
        row.setContentsMargins(16, 8, 16, 8)
        row.setSpacing(16)
        row.addLayout(words, 1)
        row.addWidget(self.size_words)
        row.addLayout(self.buttons)

    def show_size(self, size: int) -> None:
        """Say how much is there; what does not exist yet cannot be opened."""
        self.size_words.setText(say_bytes(size) if size else "empty")
        self.open.setEnabled(self._folder().is_dir())

    def _folder(self) -> Path:
        return self.path.parent if self.path.suffix else self.path

    @Slot()
    def _on_open_clicked(self) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._folder())))


def say_bytes(size: int) -> str:
    """A size as people read it, in powers of ten like the file managers."""
    value = float(size)
    for unit in ("B", "kB", "MB"):
        if value < 1000:
            return f"{value:.0f} {unit}"
        value /= 1000
    return f"{value:.1f} GB"


def _outcome(work: Callable[[], object]) -> object:
    try:
        return work()
    except Exception as error:  # noqa: BLE001 - the top of a background job; shown by the page
        return to_info(error)
