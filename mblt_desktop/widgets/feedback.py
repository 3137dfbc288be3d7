"""What tells the user how things go: error banners, progress rows, coloured bars."""

from __future__ import annotations

from PySide6.QtCore import QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import QGuiApplication, QPainter, QPaintEvent
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QLabel,
    QPlainTextEdit,
    QProgressBar,
    QSizePolicy,
    QVBoxLayout,
    QWidget,
)

from mblt_desktop.theme import current_theme, font, pixmap, theme_manager
from mblt_desktop.widgets.basics import Button, ElidedLabel, IconButton, Label
from runtime.errors import ErrorInfo


class ErrorBanner(QFrame):
    """A failure in words: what happened, what is unharmed, what to do; Details holds the rest."""

    dismissed = Signal()
    action_clicked = Signal()

    def __init__(self, error: ErrorInfo | None = None, action: str = "") -> None:
        super().__init__()
        self.setProperty("role", "banner-bad")
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 8, 8, 8)
        column.setSpacing(4)
        row = QHBoxLayout()
        row.setSpacing(8)
        self._icon = QLabel()
        self._summary = Label(bold=True, wrap=True)
        self._summary.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        self._rest = Label(wrap=True)
        self._rest.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        words = QVBoxLayout()
        words.setSpacing(2)
        words.addWidget(self._summary)
        words.addWidget(self._rest)
        self.action = Button(action)
        self.action.clicked.connect(self.action_clicked)
        self._details_button = Button("Details", kind="flat")
        self._details_button.setCheckable(True)
        self._copy = Button("Copy", "copy", "flat")
        self._copy.setAccessibleName("Copy the error text")
        self._close = IconButton("close", "Dismiss this message", size=16)
        row.addWidget(self._icon, 0, Qt.AlignmentFlag.AlignTop)
        row.addLayout(words, 1)
        for button in (self.action, self._details_button, self._copy, self._close):
            row.addWidget(button, 0, Qt.AlignmentFlag.AlignTop)
        self._details = _details_box()
        column.addLayout(row)
        column.addWidget(self._details)
        self._details_button.toggled.connect(self._on_details_toggled)
        self._copy.clicked.connect(self._on_copy_clicked)
        self._close.clicked.connect(self._on_close_clicked)
        theme_manager().changed.connect(self._draw)
        self._draw()
        self._error: ErrorInfo | None = None
        self.hide()
        if error is not None:
            self.show_error(error, action)

    @property
    def error(self) -> ErrorInfo | None:
        """What is shown."""
        return self._error

    def show_error(self, error: ErrorInfo, action: str = "") -> None:
        """Show a failure; `action` names a button that emits `action_clicked`, e.g. Retry."""
        self._error = error
        self._summary.setText(error.summary)
        rest = " ".join(part for part in (error.unharmed, error.remedy) if part)
        self._rest.setText(rest)
        self._rest.setVisible(bool(rest))
        self._details.setPlainText(error.detail)
        self._details_button.setVisible(bool(error.detail))
        self._details_button.setChecked(False)
        self._details.hide()
        self.action.setText(action)
        self.action.setVisible(bool(action))
        self.setAccessibleName(error.sentence())
        self.show()

    @Slot(bool)
    def _on_details_toggled(self, shown: bool) -> None:
        self._details.setVisible(shown)

    @Slot()
    def _on_copy_clicked(self) -> None:
        if self._error is not None:
            text = "\n".join(part for part in (self._error.sentence(), self._error.detail) if part)
            QGuiApplication.clipboard().setText(text)

    @Slot()
    def _on_close_clicked(self) -> None:
        self.hide()
        self._error = None
        self.dismissed.emit()

    @Slot()
    def _draw(self) -> None:
        self._icon.setPixmap(pixmap("warning", current_theme().bad, 18))


def _details_box() -> QPlainTextEdit:
    box = QPlainTextEdit()
    box.setReadOnly(True)
    box.setFont(font("small", mono=True))
    box.setAccessibleName("Details of the error")
    box.setMaximumHeight(160)
    return box


class ProgressRow(QWidget):
    """One long job: its name, how far it is, a line of facts (speed, time left), and Cancel."""

    cancel_clicked = Signal()

    def __init__(self, title: str = "", *, cancellable: bool = True) -> None:
        super().__init__()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 4, 0, 4)
        column.setSpacing(4)
        top = QHBoxLayout()
        top.setSpacing(8)
        self._title = ElidedLabel(title, bold=True)
        self._value = Label("", "muted", "small", tabular=True)
        self.cancel = IconButton("close", f"Cancel {title}", size=14)
        self.cancel.setVisible(cancellable)
        self.cancel.clicked.connect(self.cancel_clicked)
        top.addWidget(self._title, 1)
        top.addWidget(self._value)
        top.addWidget(self.cancel)
        self._bar = QProgressBar()
        self._bar.setTextVisible(False)
        self._bar.setAccessibleName(f"Progress of {title}")
        self._facts = Label("", "muted", "small", tabular=True, wrap=True)
        column.addLayout(top)
        column.addWidget(self._bar)
        column.addWidget(self._facts)
        self.set_progress(0.0)

    def set_title(self, title: str) -> None:
        """Change the job's name."""
        self._title.setText(title)
        self._bar.setAccessibleName(f"Progress of {title}")
        self.cancel.set_name(f"Cancel {title}")

    def set_progress(self, fraction: float | None, facts: str = "", value: str | None = None) -> None:
        """Show 0..1, or a moving bar for None; `value` replaces the percentage, `facts` the line below."""
        if fraction is None:
            self._bar.setRange(0, 0)
        else:
            self._bar.setRange(0, 1000)
            self._bar.setValue(round(1000 * min(1.0, max(0.0, fraction))))
        percent = "" if fraction is None else f"{100 * fraction:.0f} %"
        self._value.setText(percent if value is None else value)
        self._facts.setText(facts)
        self._facts.setVisible(bool(facts))


class Bar(QWidget):
    """Shares of a whole as one thin bar, e.g. where an answer's time went."""

    def __init__(self, name: str, height: int = 6) -> None:
        super().__init__()
        self._parts: list[tuple[float, str]] = []
        self._height = height
        self.setAccessibleName(name)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        theme_manager().changed.connect(self.update)

    def set_parts(self, parts: list[tuple[float, str]]) -> None:
        """Shares (any unit, not negative) with the theme's colour names, or `track0`…`track4`."""
        self._parts = [(max(0.0, share), colour) for share, colour in parts]
        self.update()

    def sizeHint(self) -> QSize:
        """As thin as asked."""
        return QSize(120, self._height)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the shares side by side."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(current_theme().colour("hover"))
        painter.drawRoundedRect(self.rect(), 2, 2)
        total = sum(share for share, _ in self._parts)
        if total <= 0:
            return
        left = 0.0
        for share, name in self._parts:
            width = self.width() * share / total
            painter.fillRect(QRectF(left, 0, width, self.height()), current_theme().colour(name))
            left += width
