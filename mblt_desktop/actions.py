"""Every command of the window, once: the menu, the shortcuts and the help page are made from this table."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import Qt
from PySide6.QtGui import QAction, QKeySequence
from PySide6.QtWidgets import (
    QDialog,
    QDialogButtonBox,
    QGridLayout,
    QHBoxLayout,
    QMenu,
    QVBoxLayout,
    QWidget,
)

from mblt_desktop.theme import font
from mblt_desktop.widgets import Label, Section

Keys = QKeySequence.StandardKey | str


@dataclass(frozen=True, slots=True)
class Command:
    """A command; `slot` names the window's method that does it."""

    name: str
    title: str
    group: str
    keys: Keys
    slot: str


COMMANDS = (
    Command("new-chat", "New chat", "Chat", QKeySequence.StandardKey.New, "new_chat"),
    Command("find", "Search in this pane", "Chat", QKeySequence.StandardKey.Find, "find_in_pane"),
    Command("stop", "Stop the answer", "Chat", "Esc", "stop"),
    Command("copy-answer", "Copy the last answer", "Chat", "Ctrl+Shift+C", "copy_answer"),
    Command("regenerate", "Answer again", "Chat", "Ctrl+Shift+G", "regenerate"),
    Command("open", "Open files…", "Files", QKeySequence.StandardKey.Open, "choose_files"),
    Command("undo", "Undo the last deletion", "Files", QKeySequence.StandardKey.Undo, "undo_deletion"),
    Command("record", "Start or stop a trace recording", "Tracing", "Ctrl+R", "toggle_recording"),
    Command("go-chat", "Chat", "Go to", "Ctrl+1", "go_chat"),
    Command("go-image", "Image", "Go to", "Ctrl+2", "go_image"),
    Command("go-microphone", "Microphone", "Go to", "Ctrl+3", "go_microphone"),
    Command("go-tracing", "Tracing", "Go to", "Ctrl+4", "go_tracing"),
    Command("go-models", "Models", "Go to", "Ctrl+5", "go_models"),
    Command("go-settings", "Settings", "Go to", "Ctrl+,", "go_settings"),
    Command("help", "Keyboard shortcuts", "Help", QKeySequence.StandardKey.HelpContents, "show_shortcuts"),
    Command("open-log", "Open the log folder", "Help", "", "open_log_folder"),
    Command("about", "About MBLT Desktop", "Help", "", "show_about"),
    Command("quit", "Quit", "Files", "Ctrl+Q", "close"),
)
ALSO = (
    ("Chat", "Send the message", "Enter"),
    ("Chat", "New line in the message", "Shift+Enter"),
    ("Chat", "Rename the selected chat", "F2"),
    ("Chat", "Delete the selected chat", "Del"),
    ("Image", "Paste a picture", "Ctrl+V"),
    ("Image", "Larger, smaller", "+, -"),
    ("Image", "Fit, real size", "0, 1"),
    ("Image", "Delete the selected picture", "Del"),
    ("Microphone", "Play or pause", "Ctrl+Space"),
    ("Microphone", "Delete the selected transcript", "Del"),
    ("Tracing", "Zoom in, out", "W, S"),
    ("Tracing", "Move left, right", "A, D"),
    ("Tracing", "Show all", "F"),
    ("Tracing", "Next, previous of the same name", "N, P"),
    ("Tracing", "Rename, delete the selected recording", "F2, Del"),
)
"""Keys that belong to one widget; listed on the help page."""


def make_actions(window: QWidget) -> dict[str, QAction]:
    """Actions of all commands, connected to the window's methods, with their shortcuts alive."""
    actions: dict[str, QAction] = {}
    for command in COMMANDS:
        action = QAction(command.title, window)
        slot: Callable[[], object] = getattr(window, command.slot)
        action.triggered.connect(slot)
        action.setShortcuts(sequences(command))
        window.addAction(action)
        actions[command.name] = action
    return actions


def sequences(command: Command) -> list[QKeySequence]:
    """The keys of a command on this platform."""
    if not isinstance(command.keys, str):
        return QKeySequence.keyBindings(command.keys)[:1]
    found = [QKeySequence(command.keys)] if command.keys else []
    if command.name == "go-settings":
        found.append(QKeySequence("Ctrl+6"))
    return found


def fill_menu(menu: QMenu, actions: dict[str, QAction]) -> None:
    """All commands, a line between the groups."""
    group = ""
    for command in sorted(COMMANDS, key=lambda command: _GROUPS.index(command.group)):
        if group and command.group != group:
            menu.addSeparator()
        group = command.group
        menu.addAction(actions[command.name])


_GROUPS = ("Chat", "Files", "Tracing", "Go to", "Help")
"""The menu's parts."""
_COLUMNS = (("Chat", "Image", "Microphone"), ("Go to", "Tracing", "Files", "Help"))
"""The help page's, in two columns, so that it fits the smallest window."""


class ShortcutsDialog(QDialog):
    """The help page: every key, by group."""

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.setWindowTitle("Keyboard shortcuts")
        column = QVBoxLayout(self)
        column.setContentsMargins(24, 8, 24, 16)
        column.setSpacing(16)
        columns = QHBoxLayout()
        columns.setSpacing(48)
        for groups in _COLUMNS:
            columns.addLayout(_table(groups))
        column.addLayout(columns)
        buttons = QDialogButtonBox(QDialogButtonBox.StandardButton.Close)
        buttons.rejected.connect(self.reject)
        column.addWidget(buttons)


def _table(groups: tuple[str, ...]) -> QVBoxLayout:
    """Titles and keys of some groups under each other."""
    grid = QGridLayout()
    grid.setHorizontalSpacing(24)
    grid.setVerticalSpacing(5)
    row = 0
    for group in groups:
        grid.addWidget(Section(group), row, 0, Qt.AlignmentFlag.AlignBottom)
        grid.setRowMinimumHeight(row, 30)
        row += 1
        for title, keys in shortcuts_of(group):
            grid.addWidget(Label(title), row, 0)
            label = Label(keys, "muted")
            label.setFont(font(tabular=True))
            grid.addWidget(label, row, 1)
            row += 1
    column = QVBoxLayout()
    column.addLayout(grid)
    column.addStretch(1)
    return column


def shortcuts_of(group: str) -> list[tuple[str, str]]:
    """Titles and keys of one group, for people."""
    native = QKeySequence.SequenceFormat.NativeText
    listed = [
        (command.title, " or ".join(keys.toString(native) for keys in sequences(command)))
        for command in COMMANDS
        if command.group == group and sequences(command)
    ]
    return listed + [(title, keys) for name, title, keys in ALSO if name == group]
