"""What the Models pane knows: the catalogue, what is loaded, and what is done with which model."""

from __future__ import annotations

import uuid
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QObject, Signal, Slot

from mblt_desktop.context import AppContext
from mblt_desktop.model_jobs import JobKind, RunningJob
from runtime.errors import ErrorInfo
from runtime.layout.from_settings import layout_request
from runtime.messages import (
    Cancelled,
    CatalogRow,
    Event,
    Failed,
    ImportModel,
    JobFinished,
    JobProgress,
    ListModels,
    LoadModel,
    LoadSpeech,
    ModelFailed,
    ModelInfo,
    ModelLoaded,
    ModelLoading,
    ModelsListed,
    ModelUnloaded,
    UnloadModel,
    UnloadSpeech,
)

_LAST_USED = {"chat": "state.chat_model", "image": "state.image_model", "speech": "state.speech_model"}


@dataclass(frozen=True, slots=True)
class Trouble:
    """A failure of one model and what could be tried again."""

    error: ErrorInfo
    retry: Literal["install", "verify", "remove", "load"]


@dataclass(slots=True)
class Import:
    """A folder on its way to become a model; it has no model id yet."""

    folder: str
    progress: JobProgress | None = None
    cancelling: bool = False
    error: ErrorInfo | None = None


class ModelsState(QObject):
    """Mirrors the runtime's events; the one place of the pane that talks to it."""

    listed = Signal()
    """`rows` and `notice` are new."""
    model_changed = Signal(str)
    """Something about this model id, other than its row, is new."""
    import_changed = Signal(str)
    """Something about the import of this request id is new; it is over when it is not in `imports`."""

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.rows: tuple[CatalogRow, ...] | None = None
        """None until the catalogue has answered."""
        self.notice = ""
        self.loaded: dict[str, ModelInfo] = dict(context.dispatcher.loaded)
        self.loading: dict[str, ModelLoading] = dict(context.dispatcher.loading)
        self.troubles: dict[str, Trouble] = {}
        self.imports: dict[str, Import] = {}
        dispatcher = context.dispatcher
        dispatcher.models_listed.connect(self._on_listed)
        dispatcher.model_loading.connect(self._on_loading)
        dispatcher.model_loaded.connect(self._on_loaded)
        dispatcher.model_unloaded.connect(self._on_unloaded)
        dispatcher.model_failed.connect(self._on_failed)
        context.jobs.changed.connect(self.model_changed)
        context.jobs.ended.connect(self._on_job_ended)

    @property
    def jobs(self) -> dict[str, RunningJob]:
        """What is being done now, by model id, whichever pane began it."""
        return self._context.jobs.running

    # -- commands -----------------------------------------------------------------------------

    def refresh(self) -> None:
        """Ask what is installed, and with a board what the vendor publishes."""
        self._context.submit(ListModels(ask_hub=True))

    def start(self, kind: JobKind, model_id: str) -> None:
        """Install, verify or remove a model; does nothing while another job of it runs."""
        self.troubles.pop(model_id, None)
        self._context.jobs.start(kind, model_id)

    def cancel(self, model_id: str) -> None:
        """Ask the model's job, or its load, to stop."""
        row = next((row for row in self.rows or () if row.model_id == model_id), None)
        if row is not None and model_id in self.loading and model_id not in self.jobs:
            self.unload(row)
        else:
            self._context.jobs.cancel(model_id)

    def load(self, row: CatalogRow) -> None:
        """Load an installed model with the layout of the settings.

        A chat or image model is loaded beside the others; a speech model takes the place of the last one.
        """
        self.troubles.pop(row.model_id, None)
        self._context.preferences.set(_LAST_USED[row.kind], row.model_id)
        layout = layout_request(self._context.preferences.get, row.model_id)
        self.loading[row.model_id] = ModelLoading(row.model_id, "Starting")
        if row.kind == "speech":
            self._context.submit(LoadSpeech(row.model_id, row.folder, layout))
        else:
            self._context.submit(LoadModel(row.model_id, row.folder, layout))
        self.model_changed.emit(row.model_id)

    def unload(self, row: CatalogRow) -> None:
        """Give the model's memory back."""
        self._context.submit(UnloadSpeech() if row.kind == "speech" else UnloadModel(row.model_id))

    def retry(self, row: CatalogRow) -> None:
        """Try again what failed."""
        trouble = self.troubles.pop(row.model_id, None)
        if trouble is None:
            return
        if trouble.retry == "load":
            self.load(row)
        else:
            self.start(trouble.retry, row.model_id)

    def dismiss(self, model_id: str) -> None:
        """Forget the failure."""
        self.troubles.pop(model_id, None)

    def add_folder(self, folder: str) -> None:
        """Make a folder of the user's own an installed model."""
        request_id = uuid.uuid4().hex
        self.imports[request_id] = Import(folder)
        self._context.dispatcher.watch(request_id, self._on_import_event)
        self._context.submit(ImportModel(request_id, folder))
        self.import_changed.emit(request_id)

    def cancel_import(self, request_id: str) -> None:
        """Ask an import to stop."""
        self.imports[request_id].cancelling = True
        self._context.cancel(request_id)
        self.import_changed.emit(request_id)

    def dismiss_import(self, request_id: str) -> None:
        """Forget an import that failed."""
        self.imports.pop(request_id, None)
        self.import_changed.emit(request_id)

    # -- events -------------------------------------------------------------------------------

    @Slot(object)
    def _on_listed(self, event: ModelsListed) -> None:
        self.rows = event.rows
        self.notice = event.notice
        self.listed.emit()

    def _on_import_event(self, event: Event) -> None:
        """Delivered by the dispatcher, in the window's thread."""
        if not isinstance(event, JobProgress | JobFinished | Cancelled | Failed):
            return
        if isinstance(event, JobProgress):
            self.imports[event.request_id].progress = event
        elif isinstance(event, Failed):
            self.imports[event.request_id].error = event.error
        else:
            del self.imports[event.request_id]
            if isinstance(event, JobFinished):
                self._context.toast(event.message)
        self.import_changed.emit(event.request_id)

    @Slot(object, object)
    def _on_job_ended(self, job: RunningJob, event: Event) -> None:
        if isinstance(event, Failed):
            self.troubles[job.model_id] = Trouble(event.error, job.kind)
        elif isinstance(event, JobFinished):
            self._context.toast(event.message)
        self.model_changed.emit(job.model_id)

    @Slot(object)
    def _on_loading(self, event: ModelLoading) -> None:
        self.loading[event.model_id] = event
        self.model_changed.emit(event.model_id)

    @Slot(object)
    def _on_loaded(self, event: ModelLoaded) -> None:
        model_id = event.info.model_id
        self.loading.pop(model_id, None)
        self.troubles.pop(model_id, None)
        self.loaded[model_id] = event.info
        self.model_changed.emit(model_id)

    @Slot(object)
    def _on_unloaded(self, event: ModelUnloaded) -> None:
        self.loaded.pop(event.model_id, None)
        if event.cancelled:
            self.loading.pop(event.model_id, None)
        self.model_changed.emit(event.model_id)

    @Slot(object)
    def _on_failed(self, event: ModelFailed) -> None:
        self.loading.pop(event.model_id, None)
        self.loaded.pop(event.model_id, None)
        self.troubles[event.model_id] = Trouble(event.error, "load")
        self.model_changed.emit(event.model_id)
