"""Which image model can answer: loaded, being loaded, installed, or to be installed."""

from __future__ import annotations

from PySide6.QtCore import QObject, Qt, Signal, Slot
from PySide6.QtWidgets import QFrame, QProgressBar, QVBoxLayout

from mblt_desktop.context import AppContext
from mblt_desktop.widgets import Button, Label, PrimaryButton
from runtime.layout.from_settings import layout_request
from runtime.messages import (
    CatalogRow,
    ListModels,
    LoadModel,
    ModelFailed,
    ModelInfo,
    ModelLoaded,
    ModelLoading,
    ModelsListed,
    ModelUnloaded,
)

MOST_NAMED = 4
_WAYS = (
    "Qwen2-VL-2B-Instruct, compiled for a Mobilint board, is offered in Models when a board is present and "
    "this computer is online.\n"
    "Without a board, the folder of a Qwen2-VL checkpoint becomes a simulated model: drop it on Models, or "
    "choose Add folder there."
)


class ImageModels(QObject):
    """Mirrors the runtime's events; the one place of the pane that knows about models."""

    changed = Signal()

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.loaded: ModelInfo | None = context.dispatcher.loaded_model("image")
        self.loading: ModelLoading | None = None
        self.rows: tuple[CatalogRow, ...] | None = None
        """The catalogue's image models; None until the catalogue has answered."""
        dispatcher = context.dispatcher
        dispatcher.model_loaded.connect(self._on_loaded)
        dispatcher.model_loading.connect(self._on_loading)
        dispatcher.model_unloaded.connect(self._on_unloaded)
        dispatcher.model_failed.connect(self._on_failed)
        dispatcher.models_listed.connect(self._on_listed)

    def refresh(self) -> None:
        """Ask what is installed and what can be."""
        self._context.submit(ListModels())

    def load(self, row: CatalogRow) -> None:
        """Load an installed model with the layout of the settings."""
        layout = layout_request(self._context.preferences.get, row.model_id)
        self._context.submit(LoadModel(row.model_id, row.folder, layout))
        self.loading = ModelLoading(row.model_id, "Starting")
        self.changed.emit()

    def installed(self) -> list[CatalogRow]:
        """Image models on the disk."""
        return [row for row in self.rows or () if row.state == "installed"]

    def title(self, model_id: str) -> str:
        """A model's name for people."""
        return next((row.title for row in self.rows or () if row.model_id == model_id), model_id)

    def _is_ours(self, model_id: str) -> bool:
        return any(row.model_id == model_id for row in self.rows or ())

    @Slot(object)
    def _on_loaded(self, event: ModelLoaded) -> None:
        info: ModelInfo = event.info
        if info.kind == "image":
            self.loading, self.loaded = None, info
            self.changed.emit()

    @Slot(object)
    def _on_loading(self, event: ModelLoading) -> None:
        if self._is_ours(event.model_id):
            self.loading = event
            self.changed.emit()

    @Slot(object)
    def _on_unloaded(self, event: ModelUnloaded) -> None:
        self._gone(event.model_id)

    @Slot(object)
    def _on_failed(self, event: ModelFailed) -> None:
        self._gone(event.model_id)

    def _gone(self, model_id: str) -> None:
        if self.loaded is not None and self.loaded.model_id == model_id:
            self.loaded = self._context.dispatcher.loaded_model("image")
        if self.loading is not None and self.loading.model_id == model_id:
            self.loading = None
        self.changed.emit()

    @Slot(object)
    def _on_listed(self, event: ModelsListed) -> None:
        self.rows = tuple(row for row in event.rows if row.kind == "image")
        self.changed.emit()


class ModelNotice(QFrame):
    """Says why nothing can be asked, and offers the way on; hidden while a model is loaded."""

    models_requested = Signal()
    """The user wants to see the Models pane."""

    def __init__(self, models: ImageModels) -> None:
        super().__init__()
        self.setProperty("role", "banner-info")
        self._models = models
        column = QVBoxLayout(self)
        column.setContentsMargins(12, 10, 12, 12)
        column.setSpacing(6)
        self.title = Label("", bold=True, wrap=True)
        self.text = Label("", wrap=True)
        self.progress = QProgressBar()
        self.progress.setTextVisible(False)
        self.progress.setAccessibleName("Progress of loading the image model")
        self.load_button = PrimaryButton("")
        self.load_button.clicked.connect(self._on_load_clicked)
        self.models_button = Button("Open Models", "models")
        self.models_button.clicked.connect(self.models_requested)
        self.text.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        for widget in (self.title, self.text, self.progress, self.load_button, self.models_button):
            column.addWidget(widget)
        models.changed.connect(self.refresh)
        self.refresh()

    @property
    def reason(self) -> str:
        """Why asking is disabled, in one line; empty when it is not."""
        if self._models.loaded is not None:
            return ""
        return self.title.text()

    @Slot()
    def refresh(self) -> None:
        """Say what holds now."""
        models = self._models
        self.setVisible(models.loaded is None)
        loading, installed = models.loading, models.installed()
        self.progress.setVisible(loading is not None)
        self.load_button.setVisible(loading is None and bool(installed))
        self.models_button.setVisible(loading is None and not installed)
        if loading is not None:
            self._show_loading(loading)
        elif installed:
            self.title.setText("No image model is loaded.")
            self.text.setText("Asking needs one. It is loaded beside the chat model.")
            self.load_button.setText(f"Load {installed[0].title}")
        elif models.rows is None:
            self.title.setText("No image model is loaded.")
            self.text.setText("Looking at what is installed…")
        else:
            self.title.setText("No image model is installed, so nothing can be asked yet.")
            self.text.setText(_offer(models.rows))

    def _show_loading(self, loading: ModelLoading) -> None:
        self.title.setText(f"Loading {self._models.title(loading.model_id)}…")
        self.text.setText(loading.stage)
        if loading.fraction is None:
            self.progress.setRange(0, 0)
        else:
            self.progress.setRange(0, 1000)
            self.progress.setValue(round(loading.fraction * 1000))

    @Slot()
    def _on_load_clicked(self) -> None:
        installed = self._models.installed()
        if installed:
            self._models.load(installed[0])


def _offer(rows: tuple[CatalogRow, ...]) -> str:
    """What can be installed, a line each."""
    if not rows:
        return _WAYS
    lines = ["These can be installed in Models:"]
    for row in rows[:MOST_NAMED]:
        size = f"{row.download_bytes / 1e9:.1f} GB" if row.download_bytes else ""
        facts = ", ".join(part for part in (size, row.note) if part)
        lines.append(f"•  {row.title}" + (f" ({facts})" if facts else ""))
    if len(rows) > MOST_NAMED:
        lines.append(f"•  and {len(rows) - MOST_NAMED} more")
    return "\n".join(lines)
