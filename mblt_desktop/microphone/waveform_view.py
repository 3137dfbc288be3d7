"""The outline of a recording: heard in colour, still to come pale, a click plays from there."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QRectF, QSize, Qt, Signal
from PySide6.QtGui import QColor, QKeyEvent, QMouseEvent, QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from mblt_desktop.theme import current_theme, theme_manager
from runtime.audio.times import clock

_BAR = 3
"""Pixels from one bar to the next; each is one narrower."""
_STEP_SECONDS = 5.0
_QUIETEST = 0.015


class WaveformView(QWidget):
    """Draws; knows nothing of files or players."""

    seek_requested = Signal(float)
    """Seconds."""

    def __init__(self) -> None:
        super().__init__()
        self._outline: Sequence[float] = ()
        self._bars: list[float] = []
        self._duration = 0.0
        self._position = 0.0
        self._seekable = True
        self.setFixedHeight(96)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Waveform")
        theme_manager().changed.connect(self.update)

    def set_outline(self, outline: Sequence[float], duration: float, *, seekable: bool = True) -> None:
        """Show loudness 0..1 over the length in seconds."""
        self._outline, self._duration = outline, duration
        self._seekable = seekable and duration > 0
        self._bars = []
        cursor = Qt.CursorShape.PointingHandCursor if self._seekable else Qt.CursorShape.ArrowCursor
        self.setCursor(cursor)
        self.update()

    def set_position(self, seconds: float) -> None:
        """Where the playback is."""
        if seconds != self._position:
            self._position = seconds
            self.setAccessibleDescription(f"At {clock(seconds)} of {clock(self._duration)}")
            self.update()

    def sizeHint(self) -> QSize:
        """As wide as there is place."""
        return QSize(400, 96)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Go there."""
        if self._seekable and event.button() == Qt.MouseButton.LeftButton:
            share = min(1.0, max(0.0, event.position().x() / max(1, self.width())))
            self.seek_requested.emit(share * self._duration)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """The arrow keys go back and forth."""
        steps = {Qt.Key.Key_Left: -_STEP_SECONDS, Qt.Key.Key_Right: _STEP_SECONDS}
        step = steps.get(Qt.Key(event.key()))
        if step is None or not self._seekable:
            super().keyPressEvent(event)
            return
        self.seek_requested.emit(min(self._duration, max(0.0, self._position + step)))

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw one bar for every few pixels, and the cursor."""
        theme = current_theme()
        painter = QPainter(self)
        bars = self._fit()
        share = self._position / self._duration if self._duration > 0 else 0.0
        played = self.width() * min(1.0, share)
        middle = self.height() / 2
        heard, pale = theme.colour("accent"), theme.colour("faint")
        for index, loudness in enumerate(bars):
            left = index * _BAR
            half = max(1.0, loudness * (middle - 4))
            colour = heard if left < played or not self._seekable else pale
            painter.fillRect(QRectF(left, middle - half, _BAR - 1, 2 * half), colour)
        if self._seekable and 0 < share < 1:
            self._draw_cursor(painter, played, theme.colour("bad"))
        if self.hasFocus():
            painter.setPen(theme.colour("accent"))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))

    def _draw_cursor(self, painter: QPainter, left: float, colour: QColor) -> None:
        painter.fillRect(QRectF(left - 1, 0, 2, self.height()), colour)

    def _fit(self) -> list[float]:
        """The outline brought to one value per bar, the loudest filling the height."""
        wanted = max(1, self.width() // _BAR)
        if len(self._bars) == wanted or not self._outline:
            return self._bars
        count = len(self._outline)
        loudest = max(max(self._outline), _QUIETEST)
        self._bars = [
            max(
                self._outline[
                    index * count // wanted : max(index * count // wanted + 1, (index + 1) * count // wanted)
                ]
            )
            / loudest
            for index in range(wanted)
        ]
        return self._bars
