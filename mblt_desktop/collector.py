"""Collects garbage in the window's thread, the only one that may destroy objects of Qt."""

from __future__ import annotations

from PySide6.QtCore import QObject, QTimer, Slot

from runtime.garbage import GARBAGE

INTERVAL_MS = 1000


class Collector(QObject):
    """Looks once a second, for as long as it is started."""

    def __init__(self, parent: QObject) -> None:
        super().__init__(parent)
        self._timer = QTimer(self, interval=INTERVAL_MS)
        self._timer.timeout.connect(self._look)

    def start(self) -> None:
        """No other thread collects from now on."""
        GARBAGE.collect_here()
        self._timer.start()

    def stop(self) -> None:
        """Leave it to Python again."""
        self._timer.stop()
        GARBAGE.collect_anywhere()

    @Slot()
    def _look(self) -> None:
        GARBAGE.look()
