"""Asks for a chat's title."""

from __future__ import annotations

from PySide6.QtWidgets import QInputDialog, QWidget

WIDTH = 440


def ask_title(parent: QWidget, title: str) -> str:
    """The title somebody wants instead of `title`; empty when they changed their mind."""
    dialog = QInputDialog(parent)
    dialog.setWindowTitle("Rename chat")
    dialog.setLabelText("Title")
    dialog.setTextValue(title)
    dialog.resize(WIDTH, dialog.sizeHint().height())
    accepted = dialog.exec()
    wanted = dialog.textValue().strip()
    dialog.deleteLater()
    return wanted if accepted else ""
