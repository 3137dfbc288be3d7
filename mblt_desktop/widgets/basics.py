"""Small parts every pane uses: labels, buttons, chips, lines."""

from __future__ import annotations

import html
from typing import Literal

from PySide6.QtCore import QEvent, QSize, Qt, Slot
from PySide6.QtGui import QFontMetrics, QKeyEvent, QPainter, QPaintEvent, QResizeEvent
from PySide6.QtWidgets import (
    QApplication,
    QFrame,
    QHBoxLayout,
    QLabel,
    QLineEdit,
    QPushButton,
    QSizePolicy,
    QToolButton,
    QWidget,
)

from mblt_desktop.theme import current_theme, font, icon, theme_manager

Tone = Literal["text", "muted", "ok", "warn", "bad", "accent"]
Kind = Literal["plain", "primary", "danger", "flat", "link"]


def plain_tip(text: str) -> str:
    """A tooltip that shows the text as it is: Qt would take one with tags, from a file name, a question or an
    answer, for HTML and load what that names."""
    if "<" not in text:
        return text
    return f"<p style='white-space: pre-wrap'>{html.escape(text)}</p>"


def restyle(widget: QWidget, **properties: object) -> None:
    """Set dynamic properties and let the stylesheet look at the widget again."""
    for name, value in properties.items():
        widget.setProperty(name, value)
    widget.style().unpolish(widget)
    widget.style().polish(widget)


class Label(QLabel):
    """Plain text in one tone and size. Never interprets what it shows as HTML."""

    def __init__(
        self,
        text: str = "",
        tone: Tone = "text",
        size: Literal["small", "body", "title"] = "body",
        *,
        bold: bool = False,
        tabular: bool = False,
        wrap: bool = False,
    ) -> None:
        super().__init__(text)
        self.setTextFormat(Qt.TextFormat.PlainText)
        self.setFont(font(size, bold=bold, tabular=tabular))
        self.setProperty("tone", tone)
        self.setWordWrap(wrap)

    def set_tone(self, tone: Tone) -> None:
        """Change the colour's meaning."""
        if self.property("tone") != tone:
            restyle(self, tone=tone)


class ElidedLabel(Label):
    """A one-line label that ends in … when it does not fit; the whole text is its tooltip."""

    def __init__(
        self,
        text: str = "",
        tone: Tone = "text",
        size: Literal["small", "body", "title"] = "body",
        *,
        bold: bool = False,
        mode: Qt.TextElideMode = Qt.TextElideMode.ElideRight,
    ) -> None:
        super().__init__("", tone, size, bold=bold)
        self._full = text
        self._elide = mode
        self.setMinimumWidth(24)
        self.setText(text)

    def setText(self, text: str) -> None:
        """Show another text."""
        self._full = text
        super().setText(text)
        self.setAccessibleName(text)
        self._update_tip()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """The tooltip is only there while something is hidden."""
        super().resizeEvent(event)
        self._update_tip()

    def minimumSizeHint(self) -> QSize:
        """May shrink to almost nothing."""
        return QSize(24, super().minimumSizeHint().height())

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the text cut to the width there is."""
        painter = QPainter(self)
        painter.setPen(self.palette().windowText().color())
        text = QFontMetrics(self.font()).elidedText(self._full, self._elide, self.width())
        painter.drawText(self.rect(), int(self.alignment() | Qt.AlignmentFlag.AlignVCenter), text)

    def _update_tip(self) -> None:
        hidden = QFontMetrics(self.font()).horizontalAdvance(self._full) > self.width()
        self.setToolTip(plain_tip(self._full) if hidden else "")


class _IconMixin:
    """Redraws a button's icon when the appearance changes."""

    _icon_name: str
    _icon_tone: str

    def _follow_theme(self, name: str, tone: str) -> None:
        self._icon_name = name
        self._icon_tone = tone
        self._draw_icon()
        theme_manager().changed.connect(self._draw_icon)

    def _draw_icon(self) -> None:
        self.setIcon(icon(self._icon_name, self._icon_tone))  # type: ignore[attr-defined]


class Button(QPushButton, _IconMixin):
    """A push button of one kind, with or without an icon; `tone` gives the icon a colour of its own."""

    def __init__(self, text: str, icon_name: str = "", kind: Kind = "plain", tone: str = "") -> None:
        super().__init__(text)
        self._focus_went_to: QWidget | None = None
        self.setProperty("kind", kind)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        if icon_name:
            usual = {"primary": "on_accent", "danger": "bad", "link": "accent"}.get(kind, "text")
            self.setIconSize(QSize(16, 16))
            self._follow_theme(icon_name, tone or usual)

    def setEnabled(self, enabled: bool) -> None:
        """Qt passes the focus on when a button is disabled; enabled again, it gets it back.

        Not when somebody has moved the focus meanwhile.
        """
        had_focus = self.hasFocus()
        super().setEnabled(enabled)
        if had_focus and not enabled:
            self._focus_went_to = QApplication.focusWidget()
        elif enabled and self._focus_went_to is not None:
            if self._focus_went_to is QApplication.focusWidget():
                self.setFocus()
            self._focus_went_to = None

    def set_icon(self, name: str) -> None:
        """Show another icon in the same tone."""
        self._icon_name = name
        self._draw_icon()

    @Slot()
    def _draw_icon(self) -> None:
        super()._draw_icon()


class PrimaryButton(Button):
    """The one thing a view wants to be done."""

    def __init__(self, text: str, icon_name: str = "") -> None:
        super().__init__(text, icon_name, "primary")


class IconButton(QToolButton, _IconMixin):
    """A button that is only an icon; `name` is its accessible name and its tooltip."""

    def __init__(self, icon_name: str, name: str, tone: str = "muted", size: int = 18) -> None:
        super().__init__()
        self.setIconSize(QSize(size, size))
        self.setAutoRaise(True)
        self.setCursor(Qt.CursorShape.PointingHandCursor)
        self.setFocusPolicy(Qt.FocusPolicy.TabFocus)
        self.set_name(name)
        self._follow_theme(icon_name, tone)

    def set_name(self, name: str) -> None:
        """Say what the button does now."""
        self.setAccessibleName(name)
        self.setToolTip(plain_tip(name))

    def set_icon(self, icon_name: str, tone: str | None = None) -> None:
        """Show another icon."""
        self._icon_name = icon_name
        self._icon_tone = tone or self._icon_tone
        self._draw_icon()

    @Slot()
    def _draw_icon(self) -> None:
        super()._draw_icon()


class Chip(QFrame):
    """A short fact in a rounded box, with a coloured dot when `dot` names a tone."""

    def __init__(self, text: str = "", dot: Tone | None = None) -> None:
        super().__init__()
        self.setProperty("role", "chip")
        self.setSizePolicy(QSizePolicy.Policy.Maximum, QSizePolicy.Policy.Maximum)
        row = QHBoxLayout(self)
        row.setContentsMargins(8, 2, 8, 2)
        row.setSpacing(6)
        self._dot = Dot(dot or "muted")
        self._dot.setVisible(dot is not None)
        self._label = Label(text, size="small", tabular=True)
        row.addWidget(self._dot)
        row.addWidget(self._label)
        self.setAccessibleName(text)

    @property
    def text(self) -> str:
        """What the chip says."""
        return self._label.text()

    def set_text(self, text: str, dot: Tone | None = None) -> None:
        """Say something else."""
        self._label.setText(text)
        self._dot.setVisible(dot is not None)
        self._dot.set_tone(dot or "muted")
        self.setAccessibleName(text)


class Dot(QWidget):
    """A small filled circle in a tone of the theme."""

    def __init__(self, tone: str = "muted", size: int = 8) -> None:
        super().__init__()
        self._tone = tone
        self.setFixedSize(size, size)
        theme_manager().changed.connect(self.update)

    def set_tone(self, tone: str) -> None:
        """Change the colour's meaning."""
        self._tone = tone
        self.update()

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the circle."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(current_theme().colour(self._tone))
        painter.drawEllipse(self.rect())


class SearchField(QLineEdit):
    """A line to search with; Esc empties it."""

    def __init__(self, placeholder: str) -> None:
        super().__init__()
        self.setPlaceholderText(placeholder)
        self.setAccessibleName(placeholder)
        self.setClearButtonEnabled(True)

    def event(self, event: QEvent) -> bool:
        """Esc empties the field before it means anything to the window."""
        if (
            event.type() == QEvent.Type.ShortcutOverride
            and isinstance(event, QKeyEvent)
            and event.key() == Qt.Key.Key_Escape
            and self.text()
        ):
            event.accept()
            return True
        return super().event(event)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Esc empties the field."""
        if event.key() == Qt.Key.Key_Escape and self.text():
            self.clear()
            return
        super().keyPressEvent(event)


class Line(QFrame):
    """A one-pixel separator."""

    def __init__(self, *, vertical: bool = False) -> None:
        super().__init__()
        self.setProperty("role", "line")
        if vertical:
            self.setFixedWidth(1)
        else:
            self.setFixedHeight(1)
