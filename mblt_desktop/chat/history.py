"""The list of conversations: by date, with search, new, rename, pin and delete."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import date

from PySide6.QtCore import QEvent, QPoint, QSize, Qt, QTimer, Signal, Slot
from PySide6.QtGui import QKeyEvent, QShowEvent
from PySide6.QtWidgets import QAbstractItemView, QHBoxLayout, QListWidget, QListWidgetItem, QMenu

from mblt_desktop.chat.session import ChatSession
from mblt_desktop.chat.titles import group_name
from mblt_desktop.context import AppContext
from mblt_desktop.store.conversations import find_conversations
from mblt_desktop.store.records import Conversation
from mblt_desktop.theme import font, icon, theme_manager
from mblt_desktop.widgets import Label, PrimaryButton, SearchField, SidePanel, plain_tip

SEARCH_DELAY_MS = 150
_ICON = 12
"""Pixels: small enough that a line hardly grows when an icon comes."""
_ID = Qt.ItemDataRole.UserRole
_PINNED = Qt.ItemDataRole.UserRole + 1


@dataclass(frozen=True, slots=True)
class Line:
    """One line of the list: a conversation, or a heading without an id."""

    text: str
    conversation_id: str | None = None
    pinned: bool = False
    answered: bool = False
    """Whether an answer is on its way there."""


class HistoryList(QListWidget):
    """One line per conversation; headings are not selectable."""

    rename_requested = Signal(str)
    pin_requested = Signal(str)
    delete_requested = Signal(str)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Conversations")
        self.setIconSize(QSize(_ICON, _ICON))
        self.setTextElideMode(Qt.TextElideMode.ElideRight)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setEditTriggers(QAbstractItemView.EditTrigger.NoEditTriggers)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._on_menu_requested)

    @property
    def current_id(self) -> str | None:
        """The selected conversation."""
        item = self.currentItem()
        return None if item is None else str(item.data(_ID))

    def add(self, line: Line) -> None:
        """Append a heading or a conversation."""
        item = QListWidgetItem(line.text)
        if line.conversation_id is None:
            item.setFlags(Qt.ItemFlag.NoItemFlags)
            item.setFont(font("small", bold=True))
        else:
            item.setData(_ID, line.conversation_id)
            item.setToolTip(plain_tip(line.text))
        item.setData(_PINNED, line.pinned)
        if line.pinned:
            item.setIcon(icon("pin", "muted"))
        if line.answered:
            item.setIcon(icon("record", "accent"))
            words = f"{line.text}, being answered"
            item.setToolTip(plain_tip(words))
            item.setData(Qt.ItemDataRole.AccessibleTextRole, words)
        self.addItem(item)

    def select(self, conversation_id: str | None) -> None:
        """Show which conversation is open."""
        for row in range(self.count()):
            item = self.item(row)
            if item.data(_ID) == conversation_id and conversation_id is not None:
                self.setCurrentItem(item)
                return
        self.setCurrentRow(-1)

    def changeEvent(self, event: QEvent) -> None:
        """Lines measured before a style was applied have the wrong height."""
        super().changeEvent(event)
        if event.type() in (QEvent.Type.StyleChange, QEvent.Type.FontChange):
            self.scheduleDelayedItemsLayout()

    def showEvent(self, event: QShowEvent) -> None:
        """The stylesheet is applied at the first show."""
        super().showEvent(event)
        self.scheduleDelayedItemsLayout()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """F2 renames, Delete deletes."""
        current = self.current_id
        if current is not None and event.key() == Qt.Key.Key_Delete:
            self.delete_requested.emit(current)
        elif current is not None and event.key() == Qt.Key.Key_F2:
            self.rename_requested.emit(current)
        else:
            super().keyPressEvent(event)

    @Slot(QPoint)
    def _on_menu_requested(self, position: QPoint) -> None:
        item = self.itemAt(position)
        conversation_id = item.data(_ID) if item is not None else None
        if item is None or conversation_id is None:
            return
        menu = QMenu(self)
        rename = menu.addAction("Rename…")
        pin = menu.addAction("Unpin" if item.data(_PINNED) else "Pin")
        menu.addSeparator()
        delete = menu.addAction("Delete")
        chosen = menu.exec(self.viewport().mapToGlobal(position))
        signals = {rename: self.rename_requested, pin: self.pin_requested, delete: self.delete_requested}
        if chosen in signals:
            signals[chosen].emit(conversation_id)
        menu.deleteLater()


class HistoryPanel(SidePanel):
    """The left panel of the chat pane."""

    opened = Signal(str)
    new_requested = Signal()

    def __init__(self, context: AppContext, session: ChatSession) -> None:
        super().__init__(width=248)
        self._context = context
        self._session = session
        self._store = context.store.conversations
        self._current: str | None = None
        self._found: dict[str, str] | None = None
        self._written: list[Line] = []
        self.search = SearchField("Search chats")
        self.new = PrimaryButton("New")
        self.new.setAccessibleName("New chat")
        self.new.setToolTip("New chat (Ctrl+N)")
        self.new.clicked.connect(self.new_requested)
        self.list = HistoryList()
        self._nothing = Label("", "muted", "small", wrap=True)
        self._nothing.setContentsMargins(8, 4, 8, 4)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self.search, 1)
        row.addWidget(self.new)
        self.column.setContentsMargins(8, 10, 8, 8)
        row.setContentsMargins(4, 0, 4, 4)
        self.column.addLayout(row)
        self.column.addWidget(self._nothing)
        self.column.addWidget(self.list, 1)
        self._delay = QTimer(self, singleShot=True, interval=SEARCH_DELAY_MS)
        self._delay.timeout.connect(self._search)
        self.search.textChanged.connect(self._on_search_changed)
        self.list.currentItemChanged.connect(self._on_current_changed)
        self._store.changed.connect(self.refresh)
        session.running_changed.connect(self.refresh)
        theme_manager().changed.connect(self._redraw)
        self.refresh()

    def set_current(self, conversation_id: str | None) -> None:
        """Show which conversation is open."""
        self._current = conversation_id
        self.list.blockSignals(True)
        self.list.select(conversation_id)
        self.list.blockSignals(False)

    @Slot()
    def refresh(self) -> None:
        """Write the list anew, if it would look different."""
        lines = self._lines()
        if lines != self._written:
            self._write(lines)
        self.list.blockSignals(True)
        self.list.select(self._current)
        self.list.blockSignals(False)
        self._say_nothing(bool(lines))

    def _lines(self) -> list[Line]:
        rows = self._store.list()
        if self._found is not None:
            return [Line(_text(row, self._found[row.id]), row.id) for row in rows if row.id in self._found]
        lines: list[Line] = []
        answered = {run.message.conversation_id for run in self._session.runs}
        today, heading = date.today(), ""
        for row in rows:
            group = "Pinned" if row.pinned else group_name(date.fromtimestamp(row.updated_at), today)
            if group != heading:
                heading = group
                lines.append(Line(group))
            lines.append(Line(row.title, row.id, row.pinned, row.id in answered))
        return lines

    def _write(self, lines: list[Line]) -> None:
        self._written = lines
        top = self.list.verticalScrollBar().value()
        self.list.blockSignals(True)
        self.list.clear()
        for line in lines:
            self.list.add(line)
        self.list.blockSignals(False)
        self.list.verticalScrollBar().setValue(top)

    @Slot()
    def _redraw(self) -> None:
        """The colours changed: the icons are drawn in the new ones."""
        self._write(self._written)
        self.set_current(self._current)

    def _say_nothing(self, shown: bool) -> None:
        text = (
            ""
            if shown
            else "Nothing found."
            if self._found is not None
            else "Your chats will be listed here."
        )
        self._nothing.setText(text)
        self._nothing.setVisible(bool(text))

    @Slot(str)
    def _on_search_changed(self, text: str) -> None:
        if text.strip():
            self._delay.start()
        else:
            self._delay.stop()
            self._found = None
            self.refresh()

    @Slot()
    def _search(self) -> None:
        words = self.search.text()

        def show(found: list[tuple[str, str]]) -> None:
            # Only the answer to what stands in the field now counts.
            if words == self.search.text():
                self._found = dict(found)
                self.refresh()

        self._context.store.ask(lambda db: find_conversations(db, words), show)

    @Slot()
    def _on_current_changed(self) -> None:
        current = self.list.current_id
        if current is not None and current != self._current:
            self._current = current
            self.opened.emit(current)


def _text(row: Conversation, snippet: str) -> str:
    return f"{row.title}\n{snippet}" if snippet else row.title
