"""Which speech model the pane runs on: chosen, loaded at first need, and what stands in the way."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QObject, Signal, Slot

from mblt_desktop.context import AppContext
from runtime.errors import ErrorInfo
from runtime.layout.from_settings import layout_request
from runtime.messages import (
    CatalogRow,
    ListModels,
    LoadSpeech,
    ModelFailed,
    ModelInfo,
    ModelLoaded,
    ModelLoading,
    ModelsListed,
    ModelUnloaded,
)

State = Literal["unknown", "none", "idle", "loading", "ready", "failed"]

_DEVICES = {"cpu": "host CPU", "simulated": "Simulated ARIES (CPU)", "npu": "NPU"}


def row_title(row: CatalogRow) -> str:
    """Model and device in words, as it stands in the picker."""
    return f"{row.title} · {_DEVICES[row.device]}"


class SpeechModels(QObject):
    """Mirrors the runtime's events; the one place of the pane that knows about models."""

    changed = Signal()
    failed = Signal(object)
    """ErrorInfo: the model could not be loaded."""

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.rows: tuple[CatalogRow, ...] = ()
        """Installed speech models."""
        # A model may have been loaded before this pane was made.
        earlier = (info for info in context.dispatcher.loaded.values() if info.kind == "speech")
        self.loaded: ModelInfo | None = next(earlier, None)
        self.stage = ""
        self.state: State = "unknown"
        dispatcher = context.dispatcher
        dispatcher.models_listed.connect(self._on_listed)
        dispatcher.model_loading.connect(self._on_loading)
        dispatcher.model_loaded.connect(self._on_loaded)
        dispatcher.model_unloaded.connect(self._on_unloaded)
        dispatcher.model_failed.connect(self._on_failed)

    def refresh(self) -> None:
        """Ask what is installed."""
        self._context.submit(ListModels())

    @property
    def chosen(self) -> CatalogRow | None:
        """The model to run on: the user's choice while it is installed, else the first."""
        wanted = self._context.preferences.text("state.speech_model")
        named = [row for row in self.rows if row.model_id == wanted]
        return next(iter(named or self.rows), None)

    def choose(self, model_id: str) -> None:
        """Run on another model from the next file on."""
        self._context.preferences.set("state.speech_model", model_id)
        if self.loaded is not None and self.loaded.model_id != model_id:
            self.state = "idle"
        self.changed.emit()

    def ensure_loaded(self) -> bool:
        """Have the chosen model loaded before whatever is submitted next; False without any model."""
        row = self.chosen
        if row is None:
            return False
        current = self.loaded is not None and self.loaded.model_id == row.model_id
        if self.state == "loading" or (self.state == "ready" and current):
            return True
        self.state = "loading"
        self.stage = ""
        layout = layout_request(self._context.preferences.get, row.model_id)
        self._context.submit(LoadSpeech(row.model_id, row.folder, layout))
        self.changed.emit()
        return True

    def _is_ours(self, model_id: str) -> bool:
        return any(row.model_id == model_id for row in self.rows)

    @Slot(object)
    def _on_listed(self, event: ModelsListed) -> None:
        speech = [row for row in event.rows if row.kind == "speech"]
        self.rows = tuple(row for row in speech if row.state == "installed")
        if not self.rows:
            self.state = "none"
        elif self.state in ("unknown", "none"):
            self.state = "ready" if self.loaded is not None else "idle"
        self.changed.emit()

    @Slot(object)
    def _on_loading(self, event: ModelLoading) -> None:
        if self._is_ours(event.model_id):
            self.state = "loading"
            self.stage = event.stage
            self.changed.emit()

    @Slot(object)
    def _on_loaded(self, event: ModelLoaded) -> None:
        if event.info.kind != "speech":
            return
        self.loaded = event.info
        chosen = self.chosen
        self.state = "ready" if chosen is None or chosen.model_id == event.info.model_id else "idle"
        self.changed.emit()

    @Slot(object)
    def _on_unloaded(self, event: ModelUnloaded) -> None:
        gone = self.loaded is not None and self.loaded.model_id == event.model_id
        cancelled = event.cancelled and self._is_ours(event.model_id)
        if gone:
            self.loaded = None
        if (gone and self.state == "ready") or (cancelled and self.state == "loading"):
            self.state = "idle"
        if gone or cancelled:
            self.changed.emit()

    @Slot(object)
    def _on_failed(self, event: ModelFailed) -> None:
        loaded_here = self.loaded is not None and self.loaded.model_id == event.model_id
        if not (self._is_ours(event.model_id) or loaded_here):
            return
        self.state = "failed"
        self.loaded = None
        error: ErrorInfo = event.error
        self.failed.emit(error)
        self.changed.emit()
