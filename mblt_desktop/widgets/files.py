"""Files out of a drop or the clipboard."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QMimeData


def local_files(mime: QMimeData) -> list[Path]:
    """The files on this computer among what was dropped or pasted; links to elsewhere are left out."""
    return [Path(url.toLocalFile()) for url in mime.urls() if url.isLocalFile()]
