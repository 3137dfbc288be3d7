"""What stands in the chat pane's header: the model, and what can be done with the conversation."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal, Slot
from PySide6.QtGui import QAction, QActionGroup
from PySide6.QtWidgets import QMenu

from mblt_desktop.chat.models import ChatModels
from mblt_desktop.chat.welcome import model_words
from mblt_desktop.widgets import Button, HeaderBar, IconButton


class ChatHeader(QObject):
    """Fills a header bar and turns its buttons into signals."""

    rename_requested = Signal()
    pin_requested = Signal()
    delete_requested = Signal()
    export_requested = Signal(str)
    """`markdown` or `json`."""
    inspector_toggled = Signal(bool)

    def __init__(self, bar: HeaderBar, models: ChatModels) -> None:
        super().__init__(bar)
        self._bar = bar
        self._models = models
        self.model = Button("No model")
        self.model.setProperty("menu", True)
        self.model.setAccessibleName("Model")
        self._model_menu = QMenu(self.model)
        self._model_menu.aboutToShow.connect(self._fill_models)
        self.model.setMenu(self._model_menu)
        bar.add_left(self.model)
        self.export = Button("Export")
        self.export.setProperty("menu", True)
        export_menu = QMenu(self.export)
        self._add(export_menu, "Markdown: the branch that is shown…", self._on_markdown)
        self._add(export_menu, "JSON: everything, with all branches…", self._on_json)
        self.export.setMenu(export_menu)
        bar.add_right(self.export)
        self.more = IconButton("more", "More about this chat")
        more_menu = QMenu(self.more)
        self._add(more_menu, "Rename…", self.rename_requested)
        self._pin = self._add(more_menu, "Pin", self.pin_requested)
        more_menu.addSeparator()
        self._add(more_menu, "Delete", self.delete_requested)
        self.more.setMenu(more_menu)
        self.more.setPopupMode(self.more.ToolButtonPopupMode.InstantPopup)
        bar.add_right(self.more)
        self.panel = IconButton("panel", "Show or hide the inspector")
        self.panel.setCheckable(True)
        self.panel.setChecked(True)
        self.panel.toggled.connect(self.inspector_toggled)
        bar.add_right(self.panel)
        models.changed.connect(self.refresh)
        self.refresh()

    def set_conversation(self, title: str, *, pinned: bool, saved: bool) -> None:
        """What the header is about; an empty chat can be neither exported nor deleted."""
        self._bar.set_title(title)
        self._pin.setText("Unpin" if pinned else "Pin")
        for button in (self.export, self.more):
            button.setEnabled(saved)
            if not saved:
                button.setToolTip("There is nothing in this chat yet")
        if saved:
            self.export.setToolTip("Save this chat as a file")
            self.more.set_name("More about this chat")

    @Slot()
    def refresh(self) -> None:
        """Show which model answers."""
        models = self._models
        if models.loading is not None:
            text = f"Loading {models.title(models.loading.model_id)}…"
        elif models.loaded is not None:
            text = models.title(models.loaded.model_id)
        elif models.current is not None:
            text = f"{models.current.title} (not loaded)"
        else:
            text = "No model"
        self.model.setText(text)
        self.model.setToolTip(
            "Choose the model that answers" if models.installed else "No model is installed"
        )
        self.model.setEnabled(bool(models.installed))

    @Slot()
    def _fill_models(self) -> None:
        self._model_menu.clear()
        group = QActionGroup(self._model_menu)
        loaded = self._models.loaded
        for row in self._models.installed:
            ready = "  ·  loaded" if self._models.is_loaded(row.model_id) else ""
            action = self._model_menu.addAction(model_words(row) + ready)
            action.setCheckable(True)
            action.setActionGroup(group)
            action.setChecked(loaded is not None and loaded.model_id == row.model_id)
            action.setData(row.model_id)
        group.triggered.connect(self._on_model_chosen)

    @Slot(QAction)
    def _on_model_chosen(self, action: QAction) -> None:
        row = next((row for row in self._models.installed if row.model_id == action.data()), None)
        loaded = self._models.loaded
        if row is not None and (loaded is None or loaded.model_id != row.model_id):
            self._models.choose(row)

    @Slot()
    def _on_markdown(self) -> None:
        self.export_requested.emit("markdown")

    @Slot()
    def _on_json(self) -> None:
        self.export_requested.emit("json")

    @staticmethod
    def _add(menu: QMenu, text: str, slot: object) -> QAction:
        action = menu.addAction(text)
        action.triggered.connect(slot)
        return action
