"""Files out of a drop, the clipboard or a dialog."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path

from PySide6.QtCore import QMimeData, Qt
from PySide6.QtWidgets import QFileDialog, QWidget


def local_files(mime: QMimeData) -> list[Path]:
    """The files on this computer among what was dropped or pasted; links to elsewhere are left out."""
    return [Path(url.toLocalFile()) for url in mime.urls() if url.isLocalFile()]


def ask_for_files(
    parent: QWidget, title: str, chosen: Callable[[list[str]], None], filters: Sequence[str] = ()
) -> None:
    """Let the user choose files that exist; returns at once, `chosen` (a slot) gets their names."""
    dialog = QFileDialog(parent, title)
    dialog.setFileMode(QFileDialog.FileMode.ExistingFiles)
    if filters:
        dialog.setNameFilters(list(filters))
    dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
    dialog.filesSelected.connect(chosen)
    dialog.open()
