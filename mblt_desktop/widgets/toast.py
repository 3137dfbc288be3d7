"""A short message over a pane, below its header, with a way back when there is one."""

from __future__ import annotations

from collections.abc import Callable

from PySide6.QtCore import QEvent, QObject, Qt, QTimer, Slot
from PySide6.QtWidgets import QFrame, QHBoxLayout, QWidget

from mblt_desktop.widgets.basics import Button, IconButton, Label
from mblt_desktop.widgets.layout import HEADER_HEIGHT

SHOWN_MS = 3000
SHOWN_WITH_UNDO_MS = 9000


class Toast(QFrame):
    """Stands over `host` and keeps its place when the host is resized."""

    def __init__(self, host: QWidget) -> None:
        super().__init__(host)
        self.setProperty("role", "toast")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._host = host
        self._undo: Callable[[], None] | None = None
        row = QHBoxLayout(self)
        row.setContentsMargins(14, 8, 8, 8)
        row.setSpacing(8)
        self._text = Label()
        self.undo = Button("Undo", "undo", "flat")
        self.undo.clicked.connect(self.take_back)
        close = IconButton("close", "Dismiss this message", size=14)
        close.clicked.connect(self.hide)
        row.addWidget(self._text)
        row.addWidget(self.undo)
        row.addWidget(close)
        self._timer = QTimer(self, singleShot=True)
        self._timer.timeout.connect(self.hide)
        host.installEventFilter(self)
        self.hide()

    @property
    def text(self) -> str:
        """What it says."""
        return self._text.text()

    def say(self, text: str, undo: Callable[[], None] | None = None) -> None:
        """Show a message; a new one takes the place of the former. The way back stays open until the next."""
        self._undo = undo or self._undo
        self._text.setText(text)
        self.undo.setVisible(undo is not None)
        self.setAccessibleName(text)
        self.show()
        self.raise_()
        self._place()
        self._timer.start(SHOWN_MS if undo is None else SHOWN_WITH_UNDO_MS)

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Stay in the middle."""
        if event.type() == QEvent.Type.Resize and self.isVisible():
            self._place()
        return super().eventFilter(watched, event)

    def _place(self) -> None:
        self.adjustSize()
        left = (self._host.width() - self.width()) // 2
        # Not at the lower edge: that is where people write and press.
        self.move(max(0, left), HEADER_HEIGHT + 12)

    @Slot()
    def take_back(self) -> None:
        """Undo what was said last with a way back, also when the message is gone; else do nothing."""
        undo, self._undo = self._undo, None
        self.hide()
        if undo is not None:
            undo()
