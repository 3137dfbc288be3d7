"""The Models pane: what is installed, what can be installed, and what is loaded."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, QUrl, Slot
from PySide6.QtGui import QDesktopServices, QResizeEvent, QShowEvent
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QSizePolicy, QStackedWidget, QVBoxLayout, QWidget

from mblt_desktop.context import AppContext
from mblt_desktop.models import words
from mblt_desktop.models.card import ModelCard
from mblt_desktop.models.disk_panel import DiskPanel
from mblt_desktop.models.imports import ImportList
from mblt_desktop.models.state import ModelsState
from mblt_desktop.widgets import Button, EmptyState, Label, Page, Scrolled, Section
from runtime.config import RuntimeConfig
from runtime.messages import CatalogRow

_WIDEST = 880
_NARROW = 1000
"""Pixels below which the panel beside the list gives way."""
_GROUPS = (
    ("installed", "Installed"),
    ("offered", "Can be installed"),
    ("broken", "Incomplete"),
)


class ModelsPane(QWidget):
    """Lists models as cards in groups; every action goes through `ModelsState`."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self.state = ModelsState(context, self)
        self.cards: dict[str, ModelCard] = {}
        self._build()
        self.state.listed.connect(self._on_listed)
        self.state.model_changed.connect(self._on_model_changed)

    # -- what the window calls ----------------------------------------------------------------

    def accepts_drop(self, paths: list[Path]) -> bool:
        """Whether any of them is a folder with a model's config.json."""
        return any((path / "config.json").is_file() for path in paths)

    def open_files(self, paths: list[Path]) -> None:
        """Make model folders installed models; what is none is refused in words on its own card."""
        for path in paths:
            self.state.add_folder(str(path))

    def activated(self) -> None:
        """The pane came to the front: look at the disk again."""
        self.state.refresh()

    # -- building -----------------------------------------------------------------------------

    def _build(self) -> None:
        self.page = Page("Models")
        self._count = self.page.header.add_chip("")
        self._count.hide()
        self.refresh_button = Button("Refresh", "regenerate")
        self.refresh_button.clicked.connect(self.state.refresh)
        self.add_button = Button("Add folder…", "plus")
        self.add_button.setToolTip(
            "A compiled model, or a Hugging Face checkpoint to compile for the simulated NPU"
        )
        self.add_button.clicked.connect(self._on_add_clicked)
        self.page.header.add_right(self.refresh_button)
        self.page.header.add_right(self.add_button)
        self.notice = Label("", wrap=True)
        self._groups = {key: _Group(title) for key, title in _GROUPS}
        self.waiting = EmptyState("models", "Looking at what is installed…", "")
        self._stack = QStackedWidget()
        self._stack.addWidget(self.waiting)
        self._stack.addWidget(Scrolled(self._build_list()))
        self.page.set_body(self._stack)
        config = RuntimeConfig(self._context.paths.data)
        self.disk = DiskPanel(config.models_dir)
        self.disk.open_clicked.connect(self._on_open_clicked)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.page, 1)
        row.addWidget(self.disk)

    def _build_list(self) -> QWidget:
        self._banner = QWidget()
        banner_row = QHBoxLayout(self._banner)
        banner_row.setContentsMargins(0, 0, 0, 0)
        banner_row.addWidget(self.notice)
        self._banner.hide()
        middle = QWidget()
        middle.setMaximumWidth(_WIDEST)
        middle.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Preferred)
        column = QVBoxLayout(middle)
        column.setContentsMargins(0, 20, 0, 24)
        column.setSpacing(20)
        column.addWidget(self._banner)
        self.imports = ImportList(self.state)
        column.addWidget(self.imports)
        for group in self._groups.values():
            column.addWidget(group)
        column.addStretch(1)
        holder = QWidget()
        row = QHBoxLayout(holder)
        row.setContentsMargins(20, 0, 20, 0)
        row.addStretch(1)
        row.addWidget(middle, 100)
        row.addStretch(1)
        return holder

    # -- showing ------------------------------------------------------------------------------

    @Slot()
    def _on_listed(self) -> None:
        rows = self.state.rows or ()
        for gone in self.cards.keys() - {row.model_id for row in rows}:
            self.cards.pop(gone).deleteLater()
        for row in rows:
            card = self.cards.get(row.model_id)
            if card is None:
                self.cards[row.model_id] = self._new_card(row)
            else:
                card.refresh(row)
        for key, group in self._groups.items():
            group.arrange([self.cards[row.model_id] for row in rows if _group_of(row) == key])
        self.notice.setText(self.state.notice)
        self._banner.setVisible(bool(self.state.notice))
        installed = [row for row in rows if row.state == "installed"]
        taken = sum(row.disk_bytes for row in installed)
        self._count.set_text(f"{len(installed)} installed, {words.size(taken)}")
        self._count.setVisible(bool(installed))
        self.disk.show_models(taken)
        self._stack.setCurrentIndex(1)

    @Slot(str)
    def _on_model_changed(self, model_id: str) -> None:
        card = self.cards.get(model_id)
        if card is not None:
            card.refresh(card.row)

    def resizeEvent(self, event: QResizeEvent) -> None:
        """In a narrow window the cards and their buttons need the panel's room."""
        super().resizeEvent(event)
        self.disk.setVisible(self.width() >= _NARROW)

    def showEvent(self, event: QShowEvent) -> None:
        """The disk may have filled up meanwhile."""
        super().showEvent(event)
        self.disk.look()

    def _new_card(self, row: CatalogRow) -> ModelCard:
        card = ModelCard(row, self.state)
        card.install_clicked.connect(self._on_install_clicked)
        card.verify_clicked.connect(self._on_verify_clicked)
        card.remove_confirmed.connect(self._on_remove_confirmed)
        card.load_clicked.connect(self._on_load_clicked)
        card.unload_clicked.connect(self._on_unload_clicked)
        card.cancel_clicked.connect(self.state.cancel)
        card.retry_clicked.connect(self._on_retry_clicked)
        card.error_dismissed.connect(self.state.dismiss)
        return card

    # -- clicks -------------------------------------------------------------------------------

    @Slot()
    def _on_add_clicked(self) -> None:
        dialog = QFileDialog(self, "Add a model folder")
        dialog.setFileMode(QFileDialog.FileMode.Directory)
        dialog.setOption(QFileDialog.Option.ShowDirsOnly)
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self.state.add_folder)
        dialog.open()

    @Slot(str)
    def _on_install_clicked(self, model_id: str) -> None:
        self.state.start("install", model_id)

    @Slot(str)
    def _on_verify_clicked(self, model_id: str) -> None:
        self.state.start("verify", model_id)

    @Slot(str)
    def _on_remove_confirmed(self, model_id: str) -> None:
        self.state.start("remove", model_id)

    @Slot(str)
    def _on_load_clicked(self, model_id: str) -> None:
        self.state.load(self.cards[model_id].row)

    @Slot(str)
    def _on_unload_clicked(self, model_id: str) -> None:
        self.state.unload(self.cards[model_id].row)

    @Slot(str)
    def _on_retry_clicked(self, model_id: str) -> None:
        self.state.retry(self.cards[model_id].row)

    @Slot(str)
    def _on_open_clicked(self, folder: str) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(folder))


class _Group(QWidget):
    """A heading and its cards; hidden while it has none."""

    def __init__(self, title: str) -> None:
        super().__init__()
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(8)
        self._column.addWidget(Section(title))

    def arrange(self, cards: list[ModelCard]) -> None:
        """Show these cards in this order."""
        for place, card in enumerate(cards, start=1):
            if self._column.indexOf(card) != place:
                self._column.insertWidget(place, card)
        self.setVisible(bool(cards))


def _group_of(row: CatalogRow) -> str:
    if row.state == "installed":
        return "installed"
    return "broken" if words.is_unreadable(row) else "offered"
