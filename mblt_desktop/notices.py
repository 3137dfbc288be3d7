"""Failures above the panes: the newest few, each until it is dismissed."""

from __future__ import annotations

from PySide6.QtCore import Slot
from PySide6.QtWidgets import QVBoxLayout, QWidget

from mblt_desktop.widgets import ErrorBanner
from runtime.errors import ErrorInfo

MOST_SHOWN = 3


class Notices(QWidget):
    """A column of banners; takes no room while there is none."""

    def __init__(self) -> None:
        super().__init__()
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(16, 12, 16, 4)
        self._column.setSpacing(8)
        self._banners: list[ErrorBanner] = []
        self.hide()

    @property
    def errors(self) -> list[ErrorInfo]:
        """What is shown, oldest first."""
        return [banner.error for banner in self._banners if banner.error is not None]

    def show_error(self, error: ErrorInfo) -> None:
        """Show a failure; the same one twice is shown once."""
        if any(known.sentence() == error.sentence() for known in self.errors):
            return
        banner = ErrorBanner(error)
        banner.dismissed.connect(self._on_dismissed)
        self._banners.append(banner)
        self._column.addWidget(banner)
        for old in self._banners[:-MOST_SHOWN]:
            self._remove(old)
        self.show()

    def dismiss(self, code: str) -> None:
        """Take away failures that are over."""
        for banner in list(self._banners):
            if banner.error is not None and banner.error.code == code:
                self._remove(banner)

    def take_back(self, error: ErrorInfo) -> None:
        """Take away a failure that is over; the user may have done so already."""
        for banner in [known for known in self._banners if known.error == error]:
            self._remove(banner)

    @Slot()
    def _on_dismissed(self) -> None:
        for banner in [known for known in self._banners if known.error is None]:
            self._remove(banner)

    def _remove(self, banner: ErrorBanner) -> None:
        self._banners.remove(banner)
        self._column.removeWidget(banner)
        banner.hide()
        banner.deleteLater()
        self.setVisible(bool(self._banners))
