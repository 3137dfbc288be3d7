"""Files dropped on a chat: pictures are copied beside the library, texts are read. Off the GUI thread."""

from __future__ import annotations

import shutil
from pathlib import Path

from PySide6.QtCore import QObject, QThreadPool, Signal, Slot

from mblt_desktop.store.records import Attachment, new_id
from runtime.errors import ErrorInfo, MediaError, storage_error, to_info
from runtime.plain_files import open_plain

IMAGES = frozenset((".png", ".jpg", ".jpeg", ".webp", ".gif", ".bmp", ".tif", ".tiff"))
_TEXT_NAMES = "txt md rst csv tsv json yaml yml toml ini log xml html py c h cpp hpp rs go js ts java sh sql"
TEXTS = frozenset(f".{name}" for name in _TEXT_NAMES.split())
MAX_TEXT_BYTES = 64 * 1024


class AttachmentLoader(QObject):
    """Answers every file with exactly one signal."""

    image_ready = Signal(object)
    """An Attachment whose file is in the media folder."""
    text_ready = Signal(str, str)
    """A file's name and its text."""
    refused = Signal(object)
    """ErrorInfo: why the file cannot be used."""
    _done = Signal(object)

    def __init__(self, media: Path, parent: QObject) -> None:
        super().__init__(parent)
        self._media = media
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(1)
        self._done.connect(self._on_done)

    def load(self, path: Path) -> None:
        """Start reading a file; returns at once."""
        self._pool.start(lambda: self._work(path))

    def close(self) -> None:
        """Wait for what is being read."""
        self._pool.clear()
        self._pool.waitForDone()

    def _work(self, path: Path) -> None:
        outcome: Attachment | tuple[str, str] | ErrorInfo
        try:
            outcome = self._copy(path) if path.suffix.lower() in IMAGES else _read(path)
        except OSError as error:
            outcome = storage_error(error, str(path), unharmed="The conversation is unharmed.").info
        except Exception as error:  # noqa: BLE001 - the top of a background job
            outcome = to_info(error)
        self._done.emit(outcome)

    def _copy(self, path: Path) -> Attachment:
        self._media.mkdir(parents=True, exist_ok=True)
        target = self._media / f"{new_id()}{path.suffix.lower()}"
        shutil.copyfile(path, target)
        return Attachment(str(target), path.name)

    @Slot(object)
    def _on_done(self, outcome: object) -> None:
        if isinstance(outcome, Attachment):
            self.image_ready.emit(outcome)
        elif isinstance(outcome, ErrorInfo):
            self.refused.emit(outcome)
        elif isinstance(outcome, tuple):
            self.text_ready.emit(*outcome)


def _read(path: Path) -> tuple[str, str]:
    with open_plain(path) as file:
        data = file.read(MAX_TEXT_BYTES + 1)
    if len(data) > MAX_TEXT_BYTES:
        raise MediaError(
            f"{path.name} is longer than {MAX_TEXT_BYTES // 1024} KB, more than a question can hold.",
            remedy="Copy the part that matters into the message.",
            unharmed="The conversation is unharmed.",
        )
    try:
        text = data.decode("utf-8-sig")
    except UnicodeDecodeError:
        text = "\0"
    if "\0" in text:
        raise MediaError(
            f"{path.name} is not a text file.",
            remedy="Only text (UTF-8) and pictures can be attached.",
            unharmed="The conversation is unharmed.",
        )
    return path.name, text


def as_block(name: str, text: str) -> str:
    """A file's text as it is written into the message: fenced, under its name."""
    fence = "```"
    while fence in text:
        fence += "`"
    return f"{name}:\n{fence}{Path(name).suffix[1:]}\n{text.rstrip()}\n{fence}\n"
