"""The library lane: lists models at once, and does one long job after the other beside that."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

from runtime.catalog.adopt import adopt
from runtime.catalog.entries import DEMO_ENTRIES, Entry
from runtime.catalog.hub import vendor_entries
from runtime.catalog.install import install
from runtime.catalog.job import Job, JobCancelled, Progress
from runtime.catalog.library import Library
from runtime.config import RuntimeConfig
from runtime.device.active import active_device, find_boards
from runtime.errors import DownloadError, to_info
from runtime.kv.store import KvStore
from runtime.lanes.lane import CancelMarks, Post
from runtime.messages import (
    Cancelled,
    Command,
    Failed,
    FetchModel,
    ForgetConversation,
    ImportModel,
    JobFinished,
    JobProgress,
    ListModels,
    ModelsListed,
    RemoveModel,
    VerifyModel,
)

JobCommand: TypeAlias = FetchModel | ImportModel | VerifyModel | RemoveModel


def _real_boards() -> list[str]:
    """Boards of this computer; the simulator's own, once it is installed, do not count."""
    device = active_device()
    return [] if device is not None and device.simulated else find_boards()


class LibraryService:
    """Answers `ListModels` from the lane's thread; fetches, checks and removes in a thread of its own.

    The second thread is there so that the list stays fresh, and a waiting job can be cancelled, during a
    download of minutes. The two share only the queue of jobs and the catalogue, each under `_lock`.
    """

    def __init__(
        self,
        config: RuntimeConfig,
        post: Post,
        marks: CancelMarks,
        entries: tuple[Entry, ...] = DEMO_ENTRIES,
        boards: Callable[[], list[str]] = _real_boards,
    ) -> None:
        self._library = Library(config, entries)
        self._kept = KvStore(config.kv_dir)
        self._offline = config.device == "simulated"
        self._boards = boards
        self._post = post
        self._marks = marks
        self._lock = threading.Lock()
        self._waiting: deque[JobCommand] = deque()
        self._worker: threading.Thread | None = None
        self._closing = threading.Event()
        self._asked_hub = False

    def open(self) -> None:
        """Nothing is slow here; the heavy parts are imported by the job that needs them."""

    def handle(self, command: Command) -> None:
        """List, and forget a conversation, at once; queue everything else."""
        if isinstance(command, ListModels):
            self._list()
            if command.ask_hub:
                self._ask_hub_once()
        elif isinstance(command, ForgetConversation):
            self._kept.forget(command.conversation_id)
        elif isinstance(command, FetchModel | ImportModel | VerifyModel | RemoveModel):
            with self._lock:
                self._waiting.append(command)
                self._start_worker()

    def step(self) -> bool:
        """Nothing to do: jobs run in their own thread."""
        return False

    def close(self) -> None:
        """Stop the running job at its next check; what it downloaded is kept."""
        self._closing.set()
        with self._lock:
            worker = self._worker  # it takes itself out as soon as it runs dry
        if worker is not None:
            worker.join()

    def _start_worker(self) -> None:
        """Called under the lock; the worker takes itself out under the same lock when it runs dry."""
        if self._worker is None:
            self._worker = threading.Thread(target=self._work, name="mblt-library-jobs", daemon=True)
            self._worker.start()

    def _work(self) -> None:
        while (command := self._next()) is not None:
            self._run(command)
            self._list()

    def _next(self) -> JobCommand | None:
        with self._lock:
            if self._closing.is_set() or not self._waiting:
                self._worker = None
                return None
            return self._waiting.popleft()

    def _run(self, command: JobCommand) -> None:
        request_id = command.request_id

        def report(progress: Progress) -> None:
            self._post(
                JobProgress(
                    request_id,
                    progress.stage,
                    progress.done,
                    progress.total,
                    progress.bytes_per_second,
                    progress.share,
                )
            )

        def is_cancelled() -> bool:
            self._drop_cancelled()
            return self._closing.is_set() or self._marks.is_cancelled(request_id)

        try:
            job = Job(report, is_cancelled)
            job.check()
            self._post(JobFinished(request_id, self._do(command, job)))
        except JobCancelled:
            self._post(Cancelled(request_id))
        except Exception as error:  # noqa: BLE001 - the top of the job; the failure is shown
            self._post(Failed(request_id, to_info(error)))
        finally:
            self._marks.clear(request_id)

    def _do(self, command: JobCommand, job: Job) -> str:
        """The work; returns what came of it, in words."""
        if isinstance(command, FetchModel):
            return f"{install(self._library, command.model_id, job).about.title} is installed."
        if isinstance(command, ImportModel):
            return f"{adopt(self._library, Path(command.folder), job).about.title} is added."
        if isinstance(command, VerifyModel):
            manifest = self._library.verify(command.model_id, job)
            return f"{manifest.about.title} is unharmed: all {len(manifest.files)} files are as installed."
        freed = self._library.remove(command.model_id)
        return f"{command.model_id} is removed; {freed / 1e6:.0f} MB are free again."

    def _drop_cancelled(self) -> None:
        """Acknowledge waiting jobs that were cancelled, without waiting for their turn."""
        with self._lock:
            dropped = [item for item in self._waiting if self._marks.is_cancelled(item.request_id)]
            for item in dropped:
                self._waiting.remove(item)
        for item in dropped:
            self._post(Cancelled(item.request_id))
            self._marks.clear(item.request_id)

    def _list(self, notice: str = "") -> None:
        self._post(ModelsListed(self._library.rows(), notice))

    def _ask_hub_once(self) -> None:
        """With a board, add the vendor's published models; without one they could not run."""
        if self._asked_hub or self._offline or not self._boards():
            return
        self._asked_hub = True
        try:
            found = vendor_entries()
        except DownloadError as error:
            self._asked_hub = False  # the next refresh tries again
            self._list(error.info.sentence())
            return
        with self._lock:
            known = {entry.model_id for entry in self._library.entries}
            self._library.entries += tuple(entry for entry in found if entry.model_id not in known)
        self._list()
