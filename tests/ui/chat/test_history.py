"""The list of chats while several are answered at once."""

from __future__ import annotations

from PySide6.QtCore import Qt

ACCESSIBLE = Qt.ItemDataRole.AccessibleTextRole


def marked(pane) -> list[str]:
    """The chats that are shown as being answered, and only those have the mark."""
    items = [pane.history.list.item(row) for row in range(pane.history.list.count())]
    busy = [item for item in items if "being answered" in (item.data(ACCESSIBLE) or "")]
    assert [item for item in items if not item.icon().isNull()] == busy
    return [item.text() for item in busy]


def test_chats_that_are_being_answered_are_marked_until_they_are_not(pane, script):
    first = script.ask("Sea and tides")
    pane.new_chat()
    second = script.ask("Regex for logs")
    assert marked(pane) == ["Regex for logs", "Sea and tides"]
    script.answer(first, "The Moon pulls.")
    assert marked(pane) == ["Regex for logs"]
    heights = [pane.history.list.visualItemRect(pane.history.list.item(row)).height() for row in (1, 2)]
    assert max(heights) - min(heights) <= 2, "a line hardly grows when it is marked"
    script.answer(second, "Use groups.")
    assert marked(pane) == []
