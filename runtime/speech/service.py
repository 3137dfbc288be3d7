"""The speech lane: loads speech models and transcribes files, one after the other."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

from runtime.audio.vad import SileroVad
from runtime.config import RuntimeConfig
from runtime.device_call import DeviceCall
from runtime.errors import DeviceLostError, MbltError, ModelNotLoadedError, to_info
from runtime.lane import CancelMarks, Post
from runtime.messages import (
    Cancelled,
    Command,
    Failed,
    LoadSpeech,
    ModelFailed,
    ModelLoaded,
    ModelUnloaded,
    Queued,
    Transcribe,
    UnloadSpeech,
)
from runtime.speech.engine import SpeechEngine, load_engine
from runtime.speech.job import TranscribeJob
from runtime.tracing.recorder import RECORDER


class SpeechService:
    """See `runtime.lane.Service`. A file's failure ends that file only; the next one begins."""

    name = "speech"

    def __init__(
        self, config: RuntimeConfig, post: Post, marks: CancelMarks, call: DeviceCall | None = None
    ) -> None:
        self._config = config
        self._post = post
        self._marks = marks
        self._call = call or DeviceCall()
        self._waiting: deque[LoadSpeech | UnloadSpeech | Transcribe] = deque()
        self._engine: SpeechEngine | None = None
        self._vad: SileroVad | None = None
        self._job: TranscribeJob | None = None
        self._said_positions: dict[str, int] = {}

    def open(self) -> None:
        """Name the thread; models are loaded on command."""
        RECORDER.name_thread("Speech engine")

    def handle(self, command: Command) -> None:
        """Queue a load or a file; they are dealt with in their order, but for what is interactive."""
        if isinstance(command, LoadSpeech | UnloadSpeech):
            self._waiting.append(command)
        elif isinstance(command, Transcribe):
            RECORDER.begin_request(command.request_id, "Transcribe", "transcribe")
            self._waiting.insert(self._place_for(command), command)
            self._say_positions()

    def _place_for(self, command: Transcribe) -> int:
        """Before background files that wait, but behind a load or unload, meant for what follows it."""
        place = len(self._waiting)
        while command.priority == "interactive" and place > 0:
            before = self._waiting[place - 1]
            if not isinstance(before, Transcribe) or before.priority == "interactive":
                break
            place -= 1
        return place

    def step(self) -> bool:
        """Deal with one block of the current file, or begin the next; True while there is more."""
        self._drop_cancelled()
        if self._job is not None:
            self._advance(self._job)
        elif self._waiting:
            self._begin(self._waiting.popleft())
        return self._job is not None or bool(self._waiting)

    def close(self) -> None:
        """Release the file and the model."""
        if self._job is not None:
            self._job.close()
        if self._engine is not None:
            with self._call.made_for():
                self._engine.close()

    # -- models ----------------------------------------------------------------------------------

    def _begin(self, command: LoadSpeech | UnloadSpeech | Transcribe) -> None:
        if isinstance(command, LoadSpeech):
            self._load(command)
        elif isinstance(command, UnloadSpeech):
            self._unload()
        else:
            self._start(command)
            self._say_positions()

    def _load(self, command: LoadSpeech) -> None:
        self._unload()
        loading = self._call.loading(command.model_id, self._post)
        try:
            with loading as progress, RECORDER.span("load model", model=command.model_id):
                self._engine = load_engine(command, self._config, progress)
        except Exception as error:  # noqa: BLE001 - the top of a job; the fault is shown
            self._post(ModelFailed(command.model_id, to_info(error)))
            return
        self._post(ModelLoaded(self._engine.info))

    def _unload(self) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            with self._call.made_for():
                engine.close()
            self._post(ModelUnloaded(engine.info.model_id))

    # -- files -----------------------------------------------------------------------------------

    def _start(self, command: Transcribe) -> None:
        RECORDER.complete("queue", command.submitted_ns, time.perf_counter_ns(), request=command.request_id)
        try:
            self._job = self._make_job(command)
        except Exception as error:  # noqa: BLE001 - the top of a job
            self._fail(command.request_id, error)

    def _make_job(self, command: Transcribe) -> TranscribeJob:
        if self._engine is None:
            raise ModelNotLoadedError(
                f"{Path(command.source).name} cannot be transcribed: no speech model is loaded.",
                remedy="Choose one under “Run on”, or fetch one in the Models pane.",
                unharmed="The file was not changed.",
            )
        if self._vad is None:
            self._vad = SileroVad()
        return TranscribeJob(command, self._engine, self._vad, self._post, self._watched(command.request_id))

    def _watched(self, request_id: str) -> Callable[[], bool]:
        """Whether the file is cancelled; being asked after every token, it knows that the device answers."""

        def cancelled() -> bool:
            self._call.sign_of_life()
            return self._marks.is_cancelled(request_id)

        return cancelled

    def _advance(self, job: TranscribeJob) -> None:
        request_id = job.command.request_id
        on_device = self._engine is not None and self._engine.info.layout is not None
        try:
            with self._call.made_for(request_id) if on_device else nullcontext():
                more = job.advance()
        except Exception as error:  # noqa: BLE001 - the top of a job
            self._finish(job)
            self._fail(request_id, error)
            return
        if self._marks.is_cancelled(request_id):
            self._finish(job)
            self._acknowledge_cancel(request_id)
        elif not more:
            self._finish(job)
            self._post(job.result())
            self._forget(request_id)

    def _finish(self, job: TranscribeJob) -> None:
        job.close()
        self._job = None

    def _fail(self, request_id: str, error: Exception) -> None:
        self._post(Failed(request_id, to_info(error)))
        self._forget(request_id)
        if isinstance(error, DeviceLostError):
            self._lose_engine(error)

    def _lose_engine(self, error: MbltError) -> None:
        engine, self._engine = self._engine, None
        if engine is not None:
            self._post(ModelFailed(engine.info.model_id, error.info))

    def _drop_cancelled(self) -> None:
        """Files that wait are cancelled at once, not when their turn comes."""
        dropped = [
            command.request_id
            for command in self._waiting
            if isinstance(command, Transcribe) and self._marks.is_cancelled(command.request_id)
        ]
        if not dropped:
            return
        self._waiting = deque(
            command
            for command in self._waiting
            if not isinstance(command, Transcribe) or command.request_id not in dropped
        )
        for request_id in dropped:
            self._acknowledge_cancel(request_id)
        self._say_positions()

    def _acknowledge_cancel(self, request_id: str) -> None:
        self._post(Cancelled(request_id))
        self._forget(request_id)

    def _forget(self, request_id: str) -> None:
        RECORDER.end_request(request_id)
        self._marks.clear(request_id)

    def _say_positions(self) -> None:
        """Tell each waiting file how many come before it, when that has changed."""
        files = [command.request_id for command in self._waiting if isinstance(command, Transcribe)]
        ahead = 1 if self._job is not None else 0
        positions = {request_id: position for position, request_id in enumerate(files, start=ahead)}
        for request_id, position in positions.items():
            if self._said_positions.get(request_id) != position:
                self._post(Queued(request_id, position, "turn" if position else "next"))
        self._said_positions = positions
