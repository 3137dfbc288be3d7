"""The transcript: one read-only text document per shown conversation.

Only the newest messages are written into it; earlier ones follow when the reader comes to the top. Streamed
text is drawn at most every GATE_MS, and the view follows it only while the reader is at the bottom.
"""

from __future__ import annotations

import math
import time
from bisect import bisect_right
from collections.abc import Callable

from PySide6.QtCore import QEvent, QRectF, Qt, QTimer, QUrl, Signal, Slot
from PySide6.QtGui import (
    QDesktopServices,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QResizeEvent,
    QTextBlockFormat,
    QTextCharFormat,
    QTextCursor,
    QTextOption,
)
from PySide6.QtWidgets import QTextBrowser

from mblt_desktop.chat.backgrounds import paint_backgrounds
from mblt_desktop.chat.formats import Formats
from mblt_desktop.chat.highlight import CodeHighlighter
from mblt_desktop.chat.view import SCHEME, Branch, Canvas, MessageView
from mblt_desktop.store.records import Message
from mblt_desktop.theme import theme_manager
from mblt_desktop.widgets import Button, restyle
from runtime.tracing.recorder import RECORDER

GATE_MS = 30
COLUMN = 760
WINDOW = 24
"""Messages written at once."""
_AT_BOTTOM = 24
_ALLOWED_LINKS = ("http", "https", "mailto")


class Transcript(QTextBrowser):
    """Shows the messages of one conversation. It changes nothing itself: it asks by `action_requested`."""

    action_requested = Signal(str, str, int)
    """An action (copy, edit, regenerate, previous, next, retry, details, copy-code), a message, a number."""
    message_selected = Signal(str)
    typed = Signal(str)
    """Somebody writes while the text has the focus; nothing can be written into it."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "transcript")
        self.setOpenLinks(False)
        self.setUndoRedoEnabled(False)
        self.setAccessibleName("Conversation")
        # Always there, so that its coming does not make the column narrower.
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOn)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.document().setDocumentMargin(0)
        self.document().setIndentWidth(22)
        self._highlighter = CodeHighlighter(self.document(), self)
        self._messages: list[Message] = []
        self._branch_of: Callable[[Message], Branch] = lambda _: Branch()
        self._views: list[MessageView] = []
        self._pending: dict[str, list[str]] = {}
        self._statuses: dict[str, str] = {}
        """What answers wait for, those of other conversations too: they may be shown, or be drawn anew."""
        self._last_flush = 0.0
        self._gate = GATE_MS / 1000
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self.flush)
        self._latest = Button("Latest", "chevron-down")
        self._latest.setParent(self)
        self._latest.setAccessibleName("Jump to the latest message")
        # It hides when it has done its work; the focus would then pass to the first link of the text.
        self._latest.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self._latest.hide()
        self._latest.clicked.connect(self.scroll_to_end)
        self.anchorClicked.connect(self._on_anchor_clicked)
        self.verticalScrollBar().valueChanged.connect(self._on_scrolled)
        self.verticalScrollBar().rangeChanged.connect(self._on_range_changed)
        restyle(self.verticalScrollBar(), empty=True)
        theme_manager().changed.connect(self._rewrite)
        self._canvas = Canvas(self.document(), Formats(COLUMN), self._highlighter)
        self._fit_column()

    # -- what is shown ---------------------------------------------------------------------------

    def show_messages(self, messages: list[Message], branch_of: Callable[[Message], Branch]) -> None:
        """Show a branch of a conversation, at its end."""
        self._pending.clear()
        self._messages = list(messages)
        self._branch_of = branch_of
        self._write(len(messages) - WINDOW)
        self.scroll_to_end()

    def add(self, message: Message) -> None:
        """Show one more message at the end."""
        follow = self.at_bottom
        self._messages.append(message)
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        cursor.movePosition(QTextCursor.MoveOperation.End)
        self._add_view(message, cursor)
        cursor.endEditBlock()
        self._follow(follow)

    def append_text(self, message_id: str, text: str) -> None:
        """More text of an answer that is shown; others are ignored."""
        if self._view(message_id) is None:
            return
        self._pending.setdefault(message_id, []).append(text)
        if self._timer.isActive():
            return
        wait = self._last_flush + self._gate - time.monotonic()
        if wait <= 0:
            self.flush()
        else:
            self._timer.start(int(1000 * wait) + 1)

    @Slot()
    def flush(self) -> None:
        """Draw the text that waits."""
        self._timer.stop()
        if not self._pending:
            return
        pending, self._pending = self._pending, {}
        begin = time.monotonic()
        for message_id, parts in pending.items():
            view = self._view(message_id)
            if view is not None:
                with RECORDER.span("paint", request=message_id):
                    self._edit(view, lambda view=view, parts=parts: view.append("".join(parts)))  # type: ignore[misc]
        self._last_flush = time.monotonic()
        # A tail that is slow to draw (a big table) is drawn less often, so that the window stays free.
        self._gate = max(GATE_MS / 1000, 3 * (self._last_flush - begin))

    def set_status(self, message_id: str, text: str) -> None:
        """Say under an answer what it waits for, now or when it is shown; empty when it is written on."""
        if text:
            self._statuses[message_id] = text
        else:
            self._statuses.pop(message_id, None)
        view = self._view(message_id)
        if view is not None:
            self._edit(view, lambda: view.set_status(text))

    def finish(self, message_id: str) -> None:
        """An answer is over; draw the rest of it, its facts and its actions."""
        self.flush()
        self._statuses.pop(message_id, None)
        view = self._view(message_id)
        if view is not None:
            self._edit(view, view.finish)

    @property
    def at_bottom(self) -> bool:
        """Whether the end of the conversation is in sight."""
        bar = self.verticalScrollBar()
        return bar.value() >= bar.maximum() - _AT_BOTTOM

    @Slot()
    def scroll_to_end(self) -> None:
        """Go to the latest message and follow it."""
        self._lay_out()
        bar = self.verticalScrollBar()
        bar.setValue(bar.maximum())

    def code_of(self, message_id: str, number: int) -> str:
        """The text of a code block of a shown message."""
        view = self._view(message_id)
        return view.codes[number] if view is not None and number < len(view.codes) else ""

    # -- writing ---------------------------------------------------------------------------------

    def _write(self, first: int) -> None:
        """Write the messages from `first` on."""
        self._timer.stop()
        self._highlighter.clear()
        self._views.clear()
        self.document().clear()
        self._fit_column(force=True)
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        # Block 0 stays: earlier messages are written behind it.
        cursor.setBlockFormat(self._canvas.formats.hairline())
        for message in self._messages[max(0, first) :]:
            cursor.movePosition(QTextCursor.MoveOperation.End)
            self._add_view(message, cursor)
        cursor.endEditBlock()

    def _add_view(self, message: Message, cursor: QTextCursor) -> None:
        """Write a message behind all others; `cursor` is at the end of the document."""
        cursor.insertBlock(QTextBlockFormat(), QTextCharFormat())
        view = MessageView(self._canvas, message, self._branch_of(message), cursor)
        view.set_status(self._statuses.get(message.id, ""))
        if self._views:
            self._views[-1].next_start = view.start
        self._views.append(view)

    def _write_earlier(self) -> None:
        hidden = len(self._messages) - len(self._views)
        if hidden <= 0:
            return
        self._lay_out()
        bar = self.verticalScrollBar()
        from_end = bar.maximum() - bar.value()
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        for message in reversed(self._messages[max(0, hidden - WINDOW) : hidden]):
            # Behind block 0, which stays, and before the message that was the first so far.
            cursor.setPosition(0)
            cursor.insertBlock(QTextBlockFormat(), QTextCharFormat())
            after = self._views[0].start
            view = MessageView(self._canvas, message, self._branch_of(message), cursor, after)
            self._views.insert(0, view)
        cursor.endEditBlock()
        self._lay_out()
        bar.setValue(bar.maximum() - from_end)

    def _edit(self, view: MessageView, change: Callable[[], None]) -> None:
        follow = self.at_bottom
        cursor = QTextCursor(self.document())
        cursor.beginEditBlock()
        change()
        cursor.endEditBlock()
        self._follow(follow)

    def _lay_out(self) -> None:
        """Qt lays out long documents bit by bit, and tells the scroll bar late; the place is needed now."""
        height = math.ceil(self.document().size().height())
        self.verticalScrollBar().setRange(0, max(0, height - self.viewport().height()))

    def _follow(self, follow: bool) -> None:
        if follow:
            self.scroll_to_end()

    @Slot()
    def _rewrite(self) -> None:
        """Colours or widths changed: write the same messages again, at the same place."""
        bar = self.verticalScrollBar()
        from_end, follow = bar.maximum() - bar.value(), self.at_bottom
        self.flush()
        self._write(len(self._messages) - max(WINDOW, len(self._views)))
        self._lay_out()
        bar.setValue(bar.maximum() if follow else bar.maximum() - from_end)

    def _view(self, message_id: str) -> MessageView | None:
        # Nearly always the last one.
        return next((view for view in reversed(self._views) if view.message.id == message_id), None)

    # -- geometry --------------------------------------------------------------------------------

    def _fit_column(self, *, force: bool = False) -> bool:
        """Centre the column; True when its width changed and everything must be written again."""
        room = self.viewport().width()
        column = max(240, min(COLUMN, room - 64))
        side = max(16.0, (room - column) / 2)
        frame = self.document().rootFrame().frameFormat()
        frame.setLeftMargin(side)
        frame.setRightMargin(side)
        frame.setTopMargin(8)
        frame.setBottomMargin(24)
        self.document().rootFrame().setFrameFormat(frame)
        changed = column != self._canvas.formats.column
        if changed or force:
            self._canvas.formats = Formats(column)
        return changed

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Keep the column centred and the reader's place."""
        follow = self.at_bottom
        super().resizeEvent(event)
        if self._fit_column():
            self._rewrite()
        self._follow(follow)
        self._place_latest()

    def paintEvent(self, event: QPaintEvent) -> None:
        """Bubbles and boxes first, then the text over them."""
        bar = self.verticalScrollBar()
        visible = QRectF(0, bar.value(), self.viewport().width(), self.viewport().height())
        first = self.cursorForPosition(self.viewport().rect().topLeft()).block()
        for _ in range(3):
            # The last lines of a box above may still reach into the window.
            first = first.previous() if first.previous().isValid() else first
        painter = QPainter(self.viewport())
        painter.translate(0, -bar.value())
        paint_backgrounds(painter, self.document(), first, visible)
        painter.end()
        super().paintEvent(event)

    def _place_latest(self) -> None:
        self._latest.adjustSize()
        left = (self.viewport().width() - self._latest.width()) // 2
        self._latest.move(left, self.height() - self._latest.height() - 12)

    # -- the reader ------------------------------------------------------------------------------

    @Slot(int)
    def _on_scrolled(self, value: int) -> None:
        self._latest.setVisible(not self.at_bottom)
        self._place_latest()
        if value == 0 and self.verticalScrollBar().maximum() > 0:
            self._write_earlier()

    @Slot(int, int)
    def _on_range_changed(self, _minimum: int, maximum: int) -> None:
        bar = self.verticalScrollBar()
        if bar.property("empty") != (maximum == 0):
            restyle(bar, empty=maximum == 0)
        self._latest.setVisible(not self.at_bottom)
        self._place_latest()

    @Slot(QUrl)
    def _on_anchor_clicked(self, url: QUrl) -> None:
        if url.scheme() == SCHEME:
            action, message_id, number = url.path().split("/")
            if action == "thought":
                self._toggle_thought(message_id)
            else:
                self.action_requested.emit(action, message_id, int(number))
        elif url.scheme() in _ALLOWED_LINKS:
            QDesktopServices.openUrl(url)

    def _toggle_thought(self, message_id: str) -> None:
        self.flush()
        view = self._view(message_id)
        if view is not None:
            view.unfolded = not view.unfolded
            self._edit(view, view.write)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """A click anywhere in a message selects it for the inspector."""
        super().mousePressEvent(event)
        position = self.cursorForPosition(event.position().toPoint()).position()
        index = bisect_right([view.position for view in self._views], position) - 1
        if index >= 0:
            self.message_selected.emit(self._views[index].message.id)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Letters go into the message; Space and the other keys scroll, select and copy."""
        plain = not event.modifiers() & ~(
            Qt.KeyboardModifier.ShiftModifier | Qt.KeyboardModifier.KeypadModifier
        )
        if plain and event.text().strip() and event.text().isprintable():
            self.typed.emit(event.text())
        else:
            super().keyPressEvent(event)

    def loadResource(self, _kind: int, _name: QUrl | str) -> None:
        """Nothing that a text names is ever read or fetched."""
        return

    def changeEvent(self, event: QEvent) -> None:
        """Fonts of the system changed: write everything in the new ones."""
        super().changeEvent(event)
        if event.type() == QEvent.Type.ApplicationFontChange and self._views:
            self._rewrite()
