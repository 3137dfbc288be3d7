"""Opens a recording in Perfetto's own window, in the browser."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, QTimer, QUrl, Signal, Slot
from PySide6.QtGui import QDesktopServices

from runtime.errors import MbltError
from runtime.tracing.serve import TraceServer, bundled_ui

WAIT_MS = 10_000
"""A page that has not fetched the recording by then will not."""

BLOCKED = (
    "The browser has not taken the recording. There may be no network, or the browser does not let "
    "ui.perfetto.dev read from this computer."
)
STEPS = (
    "1. Show the recording in its folder.\n"
    "2. Open https://ui.perfetto.dev in a browser, on any computer.\n"
    "3. Drag the file onto that page. It is read by the page only and goes nowhere else.\n\n"
    "To have Perfetto's window here without a network: pip install mblt-desktop[perfetto-ui]"
)


class PerfettoOpener(QObject):
    """Serves one recording at a time; the server lives until the next one or the end."""

    handed_over = Signal()
    """The page has taken the recording."""
    not_fetched = Signal(str)
    """The recording's path: nothing came for it in time."""
    failed = Signal(object)
    """An ErrorInfo."""

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._server: TraceServer | None = None
        self._path = ""
        self._waited = 0
        self._timer = QTimer(self)
        self._timer.setInterval(200)
        self._timer.timeout.connect(self._on_tick)

    @property
    def offline(self) -> bool:
        """Whether Perfetto's window is installed here and needs no network."""
        return bundled_ui() is not None

    def open(self, path: Path) -> str | None:
        """Serve the recording and open the browser; returns the address, or None when that failed."""
        self.close()
        try:
            self._server = TraceServer(path, bundled_ui())
        except MbltError as error:
            self.failed.emit(error.info)
            return None
        self._path = str(path)
        self._waited = 0
        self._timer.start()
        QDesktopServices.openUrl(QUrl(self._server.url))
        return self._server.url

    def close(self) -> None:
        """Stop serving."""
        self._timer.stop()
        if self._server is not None:
            self._server.close()
            self._server = None

    @Slot()
    def _on_tick(self) -> None:
        self._waited += self._timer.interval()
        if self._server is not None and self._server.fetched:
            self._timer.stop()
            self.handed_over.emit()
        elif self._waited >= WAIT_MS:
            self._timer.stop()
            self.not_fetched.emit(self._path)
