"""Saves a conversation as a file somebody chose."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject

from mblt_desktop.exporting import TextWriter
from mblt_desktop.store.export import to_json, to_markdown
from mblt_desktop.store.records import Conversation
from mblt_desktop.store.tree import MessageTree


class Exporter(TextWriter):
    """Writes one conversation at a time."""

    def __init__(self, parent: QObject) -> None:
        super().__init__("The conversation is unharmed.", parent)

    def export(self, conversation: Conversation, tree: MessageTree, target: Path) -> None:
        """Write the conversation as its name says: .json with every branch, else Markdown."""
        make = to_json if target.suffix.lower() == ".json" else to_markdown
        self.write(target, make(conversation, tree))
