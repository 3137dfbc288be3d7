"""The chat or image model that was loaded last, for the pages that show what it brings along."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal, Slot

from mblt_desktop.dispatcher import Dispatcher
from runtime.errors import ErrorInfo
from runtime.messages import ModelFailed, ModelInfo, ModelLoaded, ModelLoading, ModelUnloaded


class LoadedModel(QObject):
    """Mirrors the runtime's events, from what is loaded when it is made."""

    changed = Signal()
    """Another model is loaded, or none."""
    progressed = Signal()
    """A reload goes on, or has failed."""

    def __init__(self, dispatcher: Dispatcher, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._dispatcher = dispatcher
        self.info: ModelInfo | None = dispatcher.loaded_model("chat", "image")
        self.stage = ""
        """What a reload is doing now; empty when there is none."""
        self.failure: ErrorInfo | None = None
        """Why the last load did not work."""
        dispatcher.model_loaded.connect(self._on_loaded)
        dispatcher.model_loading.connect(self._on_loading)
        dispatcher.model_unloaded.connect(self._on_unloaded)
        dispatcher.model_failed.connect(self._on_failed)

    def begin_reload(self) -> None:
        """A reload was asked for; the model counts as this one until it has ended."""
        self.failure = None
        self.stage = "starting"
        self.progressed.emit()

    def forget_failure(self) -> None:
        """Something else is tried."""
        self.failure = None

    @Slot(object)
    def _on_loaded(self, event: ModelLoaded) -> None:
        if event.info.kind != "speech":
            self._set(event.info, None)

    @Slot(object)
    def _on_loading(self, event: ModelLoading) -> None:
        if self._is_ours(event.model_id):
            self.stage = event.stage
            self.progressed.emit()

    @Slot(object)
    def _on_unloaded(self, event: ModelUnloaded) -> None:
        """A reload unloads first."""
        if self._is_ours(event.model_id) and (event.cancelled or not self.stage):
            self._set(self._dispatcher.loaded_model("chat", "image"), None)

    @Slot(object)
    def _on_failed(self, event: ModelFailed) -> None:
        if self._is_ours(event.model_id):
            self._set(None, event.error)

    def _is_ours(self, model_id: str) -> bool:
        return self.info is not None and self.info.model_id == model_id

    def _set(self, info: ModelInfo | None, failure: ErrorInfo | None) -> None:
        self.info, self.failure, self.stage = info, failure, ""
        self.changed.emit()
