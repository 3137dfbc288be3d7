"""The rows of the file queue, and the place to drop files on."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QObject, QSize, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent, QMouseEvent, QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QProgressBar, QVBoxLayout, QWidget

from mblt_desktop.microphone.queue import OVER, FileQueue, Item
from mblt_desktop.widgets import Button, ElidedLabel, IconButton, Label, Scrolled, restyle
from runtime.audio.times import clock

_HIGHEST = 320
"""Pixels of the list; more rows are scrolled."""
_TONES = {"done": "ok", "failed": "bad", "cancelled": "warn", "kept": "warn"}


def value_words(item: Item) -> str:
    """The short state at the end of the row's first line."""
    if item.state == "running" and item.duration:
        return f"{100 * min(1.0, item.position / item.duration):.0f} %"
    words = {
        "unsent": "waiting",
        "waiting": "waiting",
        "running": clock(item.position),
        "stopping": "stopping…",
        "done": "done",
        "failed": "failed",
        "cancelled": "cancelled",
        "kept": "not transcribed",
    }
    return words[item.state]


def fact_words(item: Item) -> str:
    """The row's second line: speed and time left, or what came of it."""
    if item.state == "failed" and item.error is not None:
        return f"{item.error.summary} {item.error.remedy}".strip()
    if item.state == "done":
        return " ".join(item.warnings) or f"{clock(item.duration or 0)} · saved"
    if item.overdue:
        return item.overdue
    if item.state == "unsent":
        return "Waits for a speech model."
    if item.state == "waiting" and item.cause == "loading":
        return "Starts when the model is loaded."
    if item.state == "waiting" and item.cause == "gave_way":
        return _gave_way_words(item)
    if item.state == "waiting":
        return "Starts next." if item.ahead == 0 else f"{item.ahead} before it"
    if item.state != "running":
        return ""
    parts = [clock(item.duration) if item.duration else ""]
    if item.speed:
        parts.append(f"{item.speed:.0f}× real time")
    if item.seconds_left is not None:
        parts.append(f"{clock(item.seconds_left)} left")
    return " · ".join(part for part in parts if part)


def _gave_way_words(item: Item) -> str:
    first = f"“{item.behind}”" if item.behind else "what was just said"
    more = f" and {item.ahead - 1} more" if item.ahead > 1 else ""
    left = f", {clock(item.seconds_left)} left" if item.seconds_left is not None else ""
    return f"Waits for {first}{more} · goes on at {clock(item.position)}{left}"


class QueueRow(QFrame):
    """One file; a click shows its transcript as far as it has come."""

    opened = Signal(object)

    def __init__(self, item: Item, queue: FileQueue) -> None:
        super().__init__()
        self.item = item
        self._queue = queue
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 4, 0, 4)
        column.setSpacing(4)
        top = QHBoxLayout()
        top.setSpacing(4)
        self._title = ElidedLabel(item.title, bold=True)
        self.value = Label("", "muted", "small", tabular=True)
        self.again = IconButton("regenerate", f"Transcribe {item.title} again", size=14)
        self.close_button = IconButton("close", f"Cancel {item.title}", size=14)
        top.addWidget(self._title, 1)
        for widget in (self.value, self.again, self.close_button):
            top.addWidget(widget)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(f"Progress of {item.title}")
        self.facts = Label("", "muted", "small", tabular=True, wrap=True)
        column.addLayout(top)
        column.addWidget(self._bar)
        column.addWidget(self.facts)
        self.again.clicked.connect(self._on_again_clicked)
        self.close_button.clicked.connect(self._on_close_clicked)
        self.show_item()

    def show_item(self) -> None:
        """Draw the item's present state."""
        item = self.item
        over = item.state in OVER
        warned = item.state == "done" and bool(item.warnings)
        tone = "warn" if warned else _TONES.get(item.state, "")
        self.value.setText(value_words(item))
        self.facts.setText(fact_words(item))
        self.facts.setVisible(bool(self.facts.text()))
        self.facts.set_tone("bad" if item.state == "failed" else "warn" if warned else "muted")
        if over:
            self._bar.setRange(0, 1000)
            self._bar.setValue(1000)
        elif item.state == "running" and not item.duration:
            self._bar.setRange(0, 0)
        else:
            self._bar.setRange(0, 1000)
            self._bar.setValue(round(1000 * item.position / item.duration) if item.duration else 0)
        if self._bar.property("tone") != tone:
            restyle(self._bar, tone=tone)
        self.again.setVisible(item.state in ("failed", "cancelled", "kept"))
        self.again.set_name(f"Transcribe {item.title}" + ("" if item.state == "kept" else " again"))
        self.close_button.set_name(f"Remove {item.title} from the list" if over else f"Cancel {item.title}")
        self.close_button.setEnabled(item.state != "stopping")
        self.setAccessibleName(f"{item.title}: {value_words(item)}. {fact_words(item)}")

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Show the transcript."""
        if event.button() == Qt.MouseButton.LeftButton:
            self.opened.emit(self.item)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Enter does what a click does."""
        if event.key() in (Qt.Key.Key_Return, Qt.Key.Key_Enter, Qt.Key.Key_Space):
            self.opened.emit(self.item)
        else:
            super().keyPressEvent(event)

    @Slot()
    def _on_again_clicked(self) -> None:
        self._queue.retry(self.item)

    @Slot()
    def _on_close_clicked(self) -> None:
        if self.item.state in OVER:
            self._queue.dismiss(self.item)
        else:
            self._queue.cancel(self.item)


class DropZone(QFrame):
    """Says where files go; the pane itself takes the drop."""

    clicked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "drop")
        column = QVBoxLayout(self)
        column.setContentsMargins(8, 12, 8, 8)
        column.setSpacing(0)
        words = Label("Drop audio or video here", "muted")
        words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self.button = Button("or choose files…", kind="link")
        self.button.setAccessibleName("Choose audio or video files")
        self.button.clicked.connect(self.clicked)
        column.addWidget(words)
        column.addWidget(self.button, 0, Qt.AlignmentFlag.AlignCenter)

    def show_welcome(self, *, welcome: bool) -> None:
        """Look ready while files hover over the pane."""
        restyle(self, current="true" if welcome else "false")


class QueueView(QWidget):
    """The rows, newest first."""

    opened = Signal(object)

    def __init__(self, queue: FileQueue) -> None:
        super().__init__()
        self._queue = queue
        self.rows: dict[str, QueueRow] = {}
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(4)
        queue.added.connect(self._on_added)
        queue.changed.connect(self._on_changed)
        queue.removed.connect(self._on_removed)

    @Slot(object)
    def _on_added(self, item: Item) -> None:
        row = QueueRow(item, self._queue)
        row.opened.connect(self.opened)
        self.rows[item.id] = row
        self._column.addWidget(row)

    @Slot(object)
    def _on_changed(self, item: Item) -> None:
        row = self.rows.get(item.id)
        if row is not None:
            row.show_item()

    @Slot(object)
    def _on_removed(self, item: Item) -> None:
        row = self.rows.pop(item.id, None)
        if row is not None:
            self._column.removeWidget(row)
            row.hide()
            row.deleteLater()


class QueueArea(Scrolled):
    """The rows in a place that is as high as they are, up to a limit; they are scrolled where there is less.

    Qt's own area keeps the first height that its content asked for, which was that of one row.
    """

    def sizeHint(self) -> QSize:
        """What the rows need now, at the width there is."""
        rows = self.widget()
        if rows is None:
            return super().sizeHint()
        high = rows.heightForWidth(self.width()) if rows.hasHeightForWidth() else rows.sizeHint().height()
        return QSize(rows.sizeHint().width(), min(_HIGHEST, high))

    def eventFilter(self, watched: QObject, event: QEvent) -> bool:
        """Rows came, went, or have more to say."""
        handled = super().eventFilter(watched, event)
        if watched is self.widget() and event.type() == QEvent.Type.LayoutRequest:
            self._fit()
        return handled

    def resizeEvent(self, event: QResizeEvent) -> None:
        """Words wrap elsewhere at another width."""
        super().resizeEvent(event)
        if event.size().width() != event.oldSize().width():
            self._fit()

    def _fit(self) -> None:
        self.setMaximumHeight(self.sizeHint().height())
        self.updateGeometry()
