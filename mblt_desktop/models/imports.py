"""Folders on their way to become models: one card each, gone when the model is listed."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Signal, Slot
from PySide6.QtWidgets import QFrame, QVBoxLayout, QWidget

from mblt_desktop.models import words
from mblt_desktop.models.state import Import, ModelsState
from mblt_desktop.widgets import ErrorBanner, ProgressRow, Section


class ImportList(QWidget):
    """Hidden while nothing is being added."""

    def __init__(self, state: ModelsState) -> None:
        super().__init__()
        self._state = state
        self.cards: dict[str, ImportCard] = {}
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(8)
        self._column.addWidget(Section("Being added"))
        state.import_changed.connect(self._on_import_changed)
        self.hide()

    @Slot(str)
    def _on_import_changed(self, request_id: str) -> None:
        item = self._state.imports.get(request_id)
        if item is None:
            card = self.cards.pop(request_id)
            card.hide()
            card.deleteLater()
        else:
            if request_id not in self.cards:
                self._add(request_id, item)
            self.cards[request_id].refresh(item)
        self.setVisible(bool(self.cards))

    def _add(self, request_id: str, item: Import) -> None:
        card = ImportCard(request_id, item)
        card.cancel_clicked.connect(self._state.cancel_import)
        card.dismissed.connect(self._state.dismiss_import)
        self.cards[request_id] = card
        self._column.addWidget(card)


class ImportCard(QFrame):
    """One folder: its progress, then nothing, or why it is no model."""

    cancel_clicked = Signal(str)
    dismissed = Signal(str)

    def __init__(self, request_id: str, item: Import) -> None:
        super().__init__()
        self.setProperty("role", "card")
        self._request_id = request_id
        self._name = Path(item.folder).name
        self.progress = ProgressRow(self._name)
        self.banner = ErrorBanner()
        column = QVBoxLayout(self)
        column.setContentsMargins(16, 12, 12, 12)
        column.addWidget(self.progress)
        column.addWidget(self.banner)
        self.progress.cancel_clicked.connect(self._on_cancel_clicked)
        self.banner.dismissed.connect(self._on_dismissed)

    def refresh(self, item: Import) -> None:
        """Show how it stands."""
        stage = words.job_title(item.progress) if item.progress else "Waiting for its turn"
        self.progress.set_title(f"{self._name}: {'Stopping…' if item.cancelling else stage}")
        facts = words.job_facts(item.progress) if item.progress else ""
        self.progress.set_progress(words.job_fraction(item.progress), facts)
        self.progress.cancel.setVisible(not item.cancelling)
        self.progress.setVisible(item.error is None)
        if item.error is not None:
            self.banner.show_error(item.error)

    @Slot()
    def _on_cancel_clicked(self) -> None:
        self.cancel_clicked.emit(self._request_id)

    @Slot()
    def _on_dismissed(self) -> None:
        self.dismissed.emit(self._request_id)
