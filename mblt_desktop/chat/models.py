"""Which model answers: loaded, being loaded, installed, or still to be fetched."""

from __future__ import annotations

from PySide6.QtCore import QObject, Signal, Slot

from mblt_desktop.context import AppContext
from mblt_desktop.model_jobs import RunningJob
from runtime.errors import ErrorInfo
from runtime.layout.from_settings import layout_request
from runtime.messages import (
    CatalogRow,
    Event,
    Failed,
    JobFinished,
    JobProgress,
    ListModels,
    LoadModel,
    ModelFailed,
    ModelInfo,
    ModelKind,
    ModelLoaded,
    ModelLoading,
    ModelsListed,
    ModelUnloaded,
    UnloadModel,
)

LAST_MODEL = "state.chat_model"
_CHATTING: tuple[ModelKind, ...] = ("chat", "image")


class ChatModels(QObject):
    """Mirrors the runtime's events; the one place of the pane that knows about models."""

    changed = Signal()
    failed = Signal(object)
    """ErrorInfo: a model could not be loaded or fetched, or was lost."""

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self.loading: ModelLoading | None = None
        """The model that is to answer next, on its way."""
        self.rows: tuple[CatalogRow, ...] | None = None
        """The catalogue's models; None until it has answered."""
        self._fetched: set[str] = set()
        """What was asked for here: its failure is said here."""
        self._ready: dict[str, ModelInfo] = {}
        """Every loaded chat or image model by id; several can be loaded side by side."""
        self._chosen = ""
        """The id of the model that was last loaded or chosen here."""
        self._used: dict[str, str] = {}
        """The same for each kind of model."""
        dispatcher = context.dispatcher
        dispatcher.models_listed.connect(self._on_listed)
        dispatcher.model_loading.connect(self._on_loading)
        dispatcher.model_loaded.connect(self._on_loaded)
        dispatcher.model_unloaded.connect(self._on_unloaded)
        dispatcher.model_failed.connect(self._on_failed)
        context.jobs.changed.connect(self._on_job_changed)
        context.jobs.ended.connect(self._on_job_ended)

    # -- what is there ----------------------------------------------------------------------------

    @property
    def loaded(self) -> ModelInfo | None:
        """The loaded model that answers: the one chosen here, else a chat model loaded elsewhere."""
        chosen = self._ready.get(self._chosen)
        if chosen is not None or self.loading is not None:
            return chosen
        only_images = not any(row.kind == "chat" for row in self.installed)
        return next((info for info in self._ready.values() if info.kind == "chat" or only_images), None)

    def is_loaded(self, model_id: str) -> bool:
        """Whether it could answer without being loaded first."""
        return model_id in self._ready

    @property
    def installed(self) -> list[CatalogRow]:
        """Models on the disk that can chat."""
        return [
            row
            for row in self.rows or ()
            if row.state == "installed" and row.kind in _CHATTING and not row.only_describes
        ]

    @property
    def current(self) -> CatalogRow | None:
        """The model to answer with: the loaded one, or being loaded, else the last used, else the first."""
        loaded = self.loaded
        busy = self.loading.model_id if self.loading else loaded.model_id if loaded else ""
        last = self._context.preferences.text(LAST_MODEL)
        by_id = {row.model_id: row for row in self.installed}
        chat = [row for row in self.installed if row.kind == "chat"]
        return by_id.get(busy) or by_id.get(last) or next(iter(chat or self.installed), None)

    @property
    def missing(self) -> list[CatalogRow]:
        """What a first start offers to fetch: one model to chat with, one to transcribe with."""
        offered = [row for row in self.rows or () if row.state != "installed"]
        chat = [row for row in offered if row.kind == "chat" and row.device == "simulated"]
        speech = [row for row in offered if row.kind == "speech" and row.device == "cpu"]
        return (chat or [row for row in offered if row.kind == "chat"])[:1] + speech[:1]

    @property
    def fetching(self) -> dict[str, JobProgress | None]:
        """Models on their way to the disk, whichever pane asked for them; None while one waits."""
        jobs = self._context.jobs.running.values()
        return {job.model_id: job.progress for job in jobs if job.kind == "install"}

    def title(self, model_id: str) -> str:
        """A model's name for people."""
        return next((row.title for row in self.rows or () if row.model_id == model_id), model_id)

    # -- what can be done -------------------------------------------------------------------------

    def refresh(self) -> None:
        """Ask what is installed and what can be."""
        self._context.submit(ListModels())

    def load(self, row: CatalogRow) -> None:
        """Load an installed model with the layout of the settings."""
        if self.loading is not None and self.loading.model_id == row.model_id:
            return
        layout = layout_request(self._context.preferences.get, row.model_id)
        self.loading = ModelLoading(row.model_id, "Starting")
        self._use(row.model_id, row.kind)
        self._context.submit(LoadModel(row.model_id, row.folder, layout))
        self.changed.emit()

    def choose(self, row: CatalogRow) -> None:
        """Answer with this model from now on.

        One that is not loaded takes the place of the one of its kind that was used here before; what was
        loaded beside it in the Models pane stays.
        """
        if row.model_id in self._ready:
            self.loading = None
            self._use(row.model_id, row.kind)
            self.changed.emit()
            return
        former = self._used.get(row.kind) or (self.loaded.model_id if self.loaded else "")
        coming = self.loading is not None and self.loading.model_id == former
        if former != row.model_id and (coming or self._kind_of(former) == row.kind):
            self._context.submit(UnloadModel(former))
        self.load(row)

    def _use(self, model_id: str, kind: ModelKind) -> None:
        self._chosen = self._used[kind] = model_id
        if kind == "chat" and model_id in self._ready:
            self._context.preferences.set(LAST_MODEL, model_id)

    def _kind_of(self, model_id: str) -> str:
        info = self._ready.get(model_id)
        return info.kind if info is not None else ""

    def ready(self) -> str | None:
        """The id of the model that will answer next, loading it if need be; None when none is installed."""
        row = self.current
        if row is None:
            return None
        if self.loading is None and (self.loaded is None or self.loaded.model_id != row.model_id):
            self.load(row)
        return row.model_id

    def fetch_missing(self) -> None:
        """Fetch what a first start needs; the chat model is loaded as soon as it is there."""
        for row in self.missing:
            self._fetched.add(row.model_id)
            self._context.jobs.start("install", row.model_id)

    def cancel_fetch(self, model_id: str) -> None:
        """Stop a fetch; what has arrived is kept for the next try."""
        self._context.jobs.cancel(model_id)

    @Slot(str)
    def _on_job_changed(self, _model_id: str) -> None:
        self.changed.emit()

    @Slot(object, object)
    def _on_job_ended(self, job: RunningJob, event: Event) -> None:
        if isinstance(event, Failed) and job.model_id in self._fetched:
            self.failed.emit(event.error)
        elif isinstance(event, JobFinished):
            self.refresh()
        self._fetched.discard(job.model_id)
        self.changed.emit()

    @Slot(object)
    def _on_listed(self, event: ModelsListed) -> None:
        had_one = bool(self.installed)
        first = self.rows is None
        self.rows = event.rows
        row = self.current
        wanted = self._context.preferences.flag("storage.load_last_model") if first else not had_one
        if row is not None and wanted and self.loaded is None and self.loading is None:
            self.load(row)
        self.changed.emit()

    @Slot(object)
    def _on_loading(self, event: ModelLoading) -> None:
        expected = self.loading is not None and self.loading.model_id == event.model_id
        if expected or (self.loaded is None and self.loading is None and self._chats(event.model_id)):
            self.loading = event
            self.changed.emit()

    @Slot(object)
    def _on_loaded(self, event: ModelLoaded) -> None:
        info: ModelInfo = event.info
        if info.kind not in _CHATTING or info.only_describes:
            return
        self._ready[info.model_id] = info
        if self.loading is not None and self.loading.model_id == info.model_id:
            self.loading = None
        if self.loaded is info:
            self._use(info.model_id, info.kind)
        self.changed.emit()

    @Slot(object)
    def _on_unloaded(self, event: ModelUnloaded) -> None:
        cancelled = event.cancelled and self.loading is not None and self.loading.model_id == event.model_id
        if cancelled:
            self.loading = None
        if self._ready.pop(event.model_id, None) is not None or cancelled:
            self.changed.emit()

    @Slot(object)
    def _on_failed(self, event: ModelFailed) -> None:
        expected = self.loading is not None and self.loading.model_id == event.model_id
        if self._ready.pop(event.model_id, None) is None and not expected:
            return
        if expected:
            self.loading = None
        error: ErrorInfo = event.error
        self.failed.emit(error)
        self.changed.emit()

    def _chats(self, model_id: str) -> bool:
        return any(row.model_id == model_id and row.kind == "chat" for row in self.rows or ())
