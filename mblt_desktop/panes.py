"""The panes by name, each made when it is first shown, so that the window is up before they are imported."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Protocol, cast

from PySide6.QtWidgets import QWidget

from mblt_desktop.context import AppContext

_CLASSES = {
    "chat": ("mblt_desktop.chat.pane", "ChatPane"),
    "image": ("mblt_desktop.image.pane", "ImagePane"),
    "microphone": ("mblt_desktop.microphone.pane", "MicrophonePane"),
    "tracing": ("mblt_desktop.tracing.pane", "TracingPane"),
    "models": ("mblt_desktop.models.pane", "ModelsPane"),
    "settings": ("mblt_desktop.settings.pane", "SettingsPane"),
}
TAKE_FILES = ("microphone", "image", "tracing", "models", "chat")
"""Who is asked first about a dropped file."""


class Pane(Protocol):
    """What the window asks of a pane."""

    def accepts_drop(self, paths: list[Path]) -> bool:
        """Whether the pane can do something with any of the files."""

    def open_files(self, paths: list[Path]) -> None:
        """Do it."""

    def activated(self) -> None:
        """The pane came to the front."""


def make_pane(name: str, context: AppContext) -> QWidget:
    """Import and build a pane."""
    module, class_name = _CLASSES[name]
    return cast("QWidget", getattr(importlib.import_module(module), class_name)(context))
