"""How loud the microphone is, on the scale of an ear."""

from __future__ import annotations

import math

from PySide6.QtCore import QRectF, QSize, Qt
from PySide6.QtGui import QPainter, QPaintEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from mblt_desktop.theme import current_theme, theme_manager

_FLOOR_DB = -60.0
_LOUD = 0.8
"""Share of the scale (-12 dB) above which the sound may clip."""
_FALL = 0.04


class LevelMeter(QWidget):
    """A bar that rises at once and falls slowly; amber where it gets too loud."""

    def __init__(self) -> None:
        super().__init__()
        self._shown = 0.0
        self.setAccessibleName("Microphone level")
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFixedHeight(8)
        theme_manager().changed.connect(self.update)

    @property
    def level(self) -> float:
        """Share of the scale that is shown, 0..1."""
        return self._shown

    def set_peak(self, peak: float) -> None:
        """The loudest sample since the last call, 0..1."""
        decibels = 20 * math.log10(peak) if peak > 0 else _FLOOR_DB
        level = min(1.0, max(0.0, 1 - decibels / _FLOOR_DB))
        self._shown = max(level, self._shown - _FALL)
        self.update()

    def clear(self) -> None:
        """Nothing is being recorded."""
        self._shown = 0.0
        self.update()

    def sizeHint(self) -> QSize:
        """As wide as there is place."""
        return QSize(120, 8)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the scale and the level."""
        theme = current_theme()
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(theme.colour("hover"))
        painter.drawRoundedRect(QRectF(self.rect()), 4, 4)
        width = self.width() * self._shown
        if width < 1:
            return
        painter.setClipRect(QRectF(0, 0, width, self.height()))
        painter.setBrush(theme.colour("ok"))
        painter.drawRoundedRect(QRectF(self.rect()), 4, 4)
        painter.setClipRect(QRectF(self.width() * _LOUD, 0, width - self.width() * _LOUD, self.height()))
        if width > self.width() * _LOUD:
            painter.setBrush(theme.colour("warn"))
            painter.drawRoundedRect(QRectF(self.rect()), 4, 4)
