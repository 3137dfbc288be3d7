"""Where a message is written: Enter sends, Shift+Enter breaks the line, input methods are never cut short."""

from __future__ import annotations

import math

from PySide6.QtCore import QMimeData, QSize, Qt, Signal, Slot
from PySide6.QtGui import (
    QDragEnterEvent,
    QFocusEvent,
    QGuiApplication,
    QInputMethodEvent,
    QKeyEvent,
    QResizeEvent,
    QTextOption,
)
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPlainTextEdit, QVBoxLayout, QWidget

from mblt_desktop.store.records import Attachment
from mblt_desktop.widgets import Button, Chip, IconButton, Label, PrimaryButton, local_files, restyle

MAX_LINES = 10


class MessageEdit(QPlainTextEdit):
    """A text field that grows with its text up to MAX_LINES."""

    send_requested = Signal()
    files_pasted = Signal(list)
    focus_changed = Signal(bool)

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "composer")
        self.setAccessibleName("Message")
        self.setTabChangesFocus(True)
        self.setWordWrapMode(QTextOption.WrapMode.WrapAtWordBoundaryOrAnywhere)
        self.document().setDocumentMargin(0)
        self.setVerticalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAsNeeded)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.document().documentLayout().documentSizeChanged.connect(self._fit)
        self.textChanged.connect(self._fit)
        self._composing = False
        self._fit()

    def inputMethodEvent(self, event: QInputMethodEvent) -> None:
        """Know when an input method is in the middle of a word."""
        self._composing = bool(event.preeditString())
        super().inputMethodEvent(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter sends, unless it belongs to the input method or to a line break."""
        plain = event.modifiers() & ~Qt.KeyboardModifier.KeypadModifier == Qt.KeyboardModifier.NoModifier
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter) and plain:
            if not self._composing:
                self.send_requested.emit()
            event.accept()
            return
        super().keyPressEvent(event)

    def canInsertFromMimeData(self, source: QMimeData) -> bool:
        """Text and files."""
        return source.hasUrls() or super().canInsertFromMimeData(source)

    def insertFromMimeData(self, source: QMimeData) -> None:
        """Files become attachments; everything else is pasted as plain text."""
        files = local_files(source)
        if files:
            self.files_pasted.emit(files)
        elif source.hasText():
            self.insertPlainText(source.text())

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Dropped files are for the window, which knows what each pane takes; dropped text is for here."""
        if event.mimeData().hasUrls():
            event.ignore()
        else:
            super().dragEnterEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """The frame around shows the focus."""
        super().focusInEvent(event)
        self.focus_changed.emit(True)

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """The frame around shows the focus."""
        super().focusOutEvent(event)
        self.focus_changed.emit(False)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Other width, other number of lines."""
        super().resizeEvent(event)
        self._fit()

    def sizeHint(self) -> QSize:
        """As high as the text."""
        return QSize(200, self.minimumHeight())

    @Slot()
    def _fit(self) -> None:
        """As high as its lines are: those in Hangul are higher than the font's own."""
        line = self.fontMetrics().lineSpacing()
        layout, block, height = self.document().documentLayout(), self.document().begin(), 0.0
        while block.isValid() and height < MAX_LINES * line:
            height += layout.blockBoundingRect(block).height()
            block = block.next()
        self.setFixedHeight(math.ceil(max(line, min(height, MAX_LINES * line))) + 4)


class Composer(QFrame):
    """The message field, its attachments, and Send or Stop."""

    submitted = Signal(str, tuple)
    """The text and its attachments."""
    stop_requested = Signal()
    attach_requested = Signal()
    files_added = Signal(list)
    changed = Signal()
    edit_cancelled = Signal()
    leave_out_requested = Signal()
    """Earlier turns of this conversation may be left out."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "composer")
        self.edit = MessageEdit()
        self.edit.send_requested.connect(self._on_send)
        self.edit.files_pasted.connect(self.files_added)
        self.edit.focus_changed.connect(self._on_focus_changed)
        self.edit.textChanged.connect(self._on_text_changed)
        self._attachments: list[Attachment] = []
        self._chips = QWidget()
        self._chip_row = QHBoxLayout(self._chips)
        self._chip_row.setContentsMargins(0, 0, 0, 0)
        self._chip_row.setSpacing(8)
        self._chips.hide()
        self.attach = Button("Attach", "attach")
        self.attach.clicked.connect(self.attach_requested)
        self.set_reads_images(reads=False)
        self.tokens = Label("", "muted", "small", tabular=True)
        self.send = PrimaryButton("Send", "send")
        self.send.clicked.connect(self._on_send)
        self.stop = Button("Stop", "stop")
        self.stop.clicked.connect(self.stop_requested)
        self.stop.hide()
        self._editing = QWidget()
        self._notice = QWidget()
        self.notice = Label("", "warn", "small", wrap=True)
        self.leave_out = Button("Leave out earlier turns", kind="link")
        self.leave_out.clicked.connect(self.leave_out_requested)
        self._blocked = ""
        self._build()
        self._on_text_changed()

    def _build(self) -> None:
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 12, 12, 12)
        column.setSpacing(12)
        notice = QHBoxLayout(self._editing)
        notice.setContentsMargins(0, 0, 0, 0)
        notice.addWidget(
            Label("Sending asks again from here; the old turns stay on a branch of their own.", "muted")
        )
        notice.addStretch(1)
        cancel = Button("Cancel editing", kind="link")
        cancel.clicked.connect(self.edit_cancelled)
        notice.addWidget(cancel)
        self._editing.hide()
        column.addWidget(self._editing)
        column.addWidget(self._chips)
        column.addWidget(self.edit)
        told = QHBoxLayout(self._notice)
        told.setContentsMargins(0, 0, 0, 0)
        told.addWidget(self.notice, 1)
        told.addWidget(self.leave_out)
        self._notice.hide()
        column.addWidget(self._notice)
        row = QHBoxLayout()
        row.setSpacing(8)
        row.addWidget(self.attach)
        row.addStretch(1)
        row.addWidget(self.tokens)
        row.addWidget(self.send)
        row.addWidget(self.stop)
        column.addLayout(row)

    @property
    def text(self) -> str:
        """What is written so far."""
        return self.edit.toPlainText()

    def set_text(self, text: str) -> None:
        """Replace what is written and put the cursor behind it."""
        self.edit.setPlainText(text)
        self.edit.moveCursor(self.edit.textCursor().MoveOperation.End)

    def set_editing(self, editing: bool) -> None:
        """Say that an earlier turn is being written anew."""
        self._editing.setVisible(editing)

    def insert(self, text: str) -> None:
        """Write at the cursor."""
        self.edit.insertPlainText(text)

    @property
    def attachments(self) -> tuple[Attachment, ...]:
        """Pictures that go with the message."""
        return tuple(self._attachments)

    def set_attachments(self, attachments: tuple[Attachment, ...]) -> None:
        """Show these pictures' chips and no others."""
        self._attachments = list(attachments)
        self._show_chips()

    def add_attachment(self, attachment: Attachment) -> None:
        """Show a picture's chip."""
        self.set_attachments((*self._attachments, attachment))

    def set_reads_images(self, *, reads: bool) -> None:
        """Say what can go with the message."""
        kinds = "pictures or text files" if reads else "text files"
        self.edit.setPlaceholderText(f"Ask anything. Drop {kinds} here.")
        hint = "" if reads else ". Pictures need an image model."
        self.attach.setToolTip(f"Attach {kinds}{hint}")

    def clear(self) -> None:
        """Empty the field after sending."""
        self.edit.clear()
        self.set_attachments(())

    def set_running(self, running: bool, *, stopping: bool = False) -> None:
        """Offer Stop while an answer is written."""
        self.send.setVisible(not running)
        self.stop.setVisible(running)
        self.stop.setText("Stopping…" if stopping else "Stop")
        self.stop.setEnabled(not stopping)

    def set_blocked(self, reason: str) -> None:
        """Why nothing can be sent, as the button's tooltip; empty when it can."""
        self._blocked = reason
        self._on_text_changed()

    def set_tokens(self, used: int | None, total: int | None) -> None:
        """How full the model's context is, when that is known."""
        if total is None or used is None:
            self.tokens.setText("")
            return
        self.tokens.setText(f"{used} of {total} tokens used")
        self.tokens.set_tone("warn" if used > 0.9 * total else "muted")

    def set_notice(self, text: str, *, refused: bool = False, can_leave_out: bool = False) -> None:
        """What will happen when this is sent, if that is worth a word; nothing hides the line."""
        self.notice.setText(text)
        self.notice.set_tone("bad" if refused else "warn")
        self.leave_out.setVisible(can_leave_out)
        self._notice.setVisible(bool(text))

    @Slot()
    def _on_send(self) -> None:
        QGuiApplication.inputMethod().commit()
        text = self.text.strip("\n").rstrip()
        if self.send.isHidden() or self._blocked or not text:
            return
        self.submitted.emit(text, self.attachments)

    @Slot()
    def _on_text_changed(self) -> None:
        empty = not self.text.strip()
        self.send.setEnabled(not empty and not self._blocked)
        self.send.setToolTip(self._blocked or ("Write a message first" if empty else "Send (Enter)"))
        self.changed.emit()

    @Slot(bool)
    def _on_focus_changed(self, focused: bool) -> None:
        restyle(self, current=focused)

    def _show_chips(self) -> None:
        while self._chip_row.count():
            item = self._chip_row.takeAt(0)
            widget = item.widget() if item is not None else None
            if widget is not None:
                widget.deleteLater()
        for attachment in self._attachments:
            self._chip_row.addWidget(_AttachmentChip(self, attachment))
        self._chip_row.addStretch(1)
        self._chips.setVisible(bool(self._attachments))

    def remove_attachment(self, attachment: Attachment) -> None:
        """Take a picture out again."""
        self._attachments.remove(attachment)
        self._show_chips()


class _AttachmentChip(QWidget):
    def __init__(self, composer: Composer, attachment: Attachment) -> None:
        super().__init__()
        self._composer = composer
        self._attachment = attachment
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(Chip(attachment.name))
        remove = IconButton("close", f"Remove {attachment.name}", size=14)
        remove.clicked.connect(self._on_remove)
        row.addWidget(remove)

    @Slot()
    def _on_remove(self) -> None:
        self._composer.remove_attachment(self._attachment)
