"""Jobs on models (install, verify, remove): begun in one pane, shown in every pane that cares."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

from PySide6.QtCore import QObject, Signal

from mblt_desktop.dispatcher import Dispatcher
from mblt_desktop.store.records import new_id
from runtime.messages import (
    Cancelled,
    Command,
    Event,
    Failed,
    FetchModel,
    JobFinished,
    JobProgress,
    RemoveModel,
    VerifyModel,
)

JobKind = Literal["install", "verify", "remove"]
_COMMANDS: dict[JobKind, type[FetchModel | VerifyModel | RemoveModel]] = {
    "install": FetchModel,
    "verify": VerifyModel,
    "remove": RemoveModel,
}


@dataclass(slots=True)
class RunningJob:
    """A job of the runtime's on one model."""

    request_id: str
    model_id: str
    kind: JobKind
    progress: JobProgress | None = None
    """None while it waits for its turn."""
    cancelling: bool = False


class ModelJobs(QObject):
    """Lives as long as the window. A model has one job at a time."""

    changed = Signal(str)
    """A model's id: its job began, went on, or is being cancelled."""
    ended = Signal(object, object)
    """A RunningJob and its last event: JobFinished, Failed or Cancelled."""

    def __init__(
        self,
        dispatcher: Dispatcher,
        submit: Callable[[Command], None],
        cancel: Callable[[str], None],
    ) -> None:
        super().__init__()
        self.running: dict[str, RunningJob] = {}
        """The jobs by model id, in the order they were asked for."""
        self._dispatcher = dispatcher
        self._submit = submit
        self._cancel = cancel

    def start(self, kind: JobKind, model_id: str) -> bool:
        """Ask for a job; False while another job of the model runs."""
        if model_id in self.running:
            return False
        job = self.running[model_id] = RunningJob(new_id(), model_id, kind)

        def follow(event: Event) -> None:
            self._follow(job, event)

        self._dispatcher.watch(job.request_id, follow)
        self._submit(_COMMANDS[kind](job.request_id, model_id))
        self.changed.emit(model_id)
        return True

    def cancel(self, model_id: str) -> None:
        """Ask the model's job to stop; what has arrived is kept for the next try."""
        job = self.running.get(model_id)
        if job is not None and not job.cancelling:
            job.cancelling = True
            self._cancel(job.request_id)
            self.changed.emit(model_id)

    def _follow(self, job: RunningJob, event: Event) -> None:
        """Delivered by the dispatcher, in the window's thread."""
        if isinstance(event, JobProgress):
            job.progress = event
            self.changed.emit(job.model_id)
        elif isinstance(event, JobFinished | Cancelled | Failed):
            del self.running[job.model_id]
            self.ended.emit(job, event)
