"""Counts spans and breaks requests down in a thread of their own, newest question first."""

from __future__ import annotations

from dataclasses import dataclass

from PySide6.QtCore import QObject, QThreadPool, QTimer, Signal, Slot

from runtime.tracing.analyse import Hits, NameStatistics, RequestBreakdown, breakdown, find, statistics
from runtime.tracing.view import TraceView

SETTLE_MS = 60
"""While a selection is being dragged, only its resting places are counted."""


@dataclass(frozen=True, slots=True)
class Answer:
    """What one question gave; `low` and `high` in ns."""

    low: float
    high: float
    rows: list[NameStatistics]


class Analyst(QObject):
    """Answers for the view it was given last."""

    counted = Signal(object)
    """An `Answer`."""
    broken_down = Signal(object)
    """A RequestBreakdown, or None when the request has no steps."""
    found = Signal(object)
    """`Hits`."""
    _done = Signal(int, object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(1)
        self._view: TraceView | None = None
        self._asked = 0
        self._range = (0.0, 0.0)
        self._timer = QTimer(self, singleShot=True, interval=SETTLE_MS)
        self._timer.timeout.connect(self._count_now)
        self._done.connect(self._on_done)

    def set_view(self, view: TraceView | None) -> None:
        """From now on the questions are about this recording."""
        self._view = view
        self._asked += 1

    def count(self, low: float, high: float) -> None:
        """Ask for the statistics of a stretch of time; `counted` answers."""
        self._range = (low, high)
        self._timer.start()

    def break_down(self, request: int) -> None:
        """Ask where a request's time went; `broken_down` answers."""
        view, asked = self._view, self._asked
        if view is not None:
            self._pool.start(lambda: self._done.emit(asked, breakdown(view, request)))

    def search(self, text: str) -> None:
        """Ask for the spans of that name; `found` answers."""
        view, asked = self._view, self._asked
        if view is not None:
            self._pool.start(lambda: self._done.emit(asked, find(view, text)))

    def close(self) -> None:
        """Wait for what runs; it takes milliseconds."""
        self._timer.stop()
        self._asked += 1
        self._pool.clear()
        self._pool.waitForDone()

    @Slot()
    def _count_now(self) -> None:
        view, asked = self._view, self._asked
        low, high = self._range
        if view is not None:
            self._pool.start(
                lambda: self._done.emit(asked, Answer(low, high, statistics(view, int(low), int(high))))
            )

    @Slot(int, object)
    def _on_done(self, asked: int, answer: Answer | Hits | RequestBreakdown | None) -> None:
        if asked != self._asked:
            return
        if isinstance(answer, Answer):
            self.counted.emit(answer)
        elif isinstance(answer, Hits):
            self.found.emit(answer)
        else:
            self.broken_down.emit(answer)
