"""The speech lane: loads speech models and transcribes files, one after the other.

What somebody has just said does not wait for a file of an hour: between two of its windows the file is
parked, and it goes on where it was once that is written down.
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from contextlib import nullcontext
from itertools import takewhile

from runtime.audio.vad import SileroVad
from runtime.config import RuntimeConfig
from runtime.errors import loses_model, to_info
from runtime.lanes.building import drop_what_it_holds
from runtime.lanes.device_call import DeviceCall
from runtime.lanes.lane import CancelMarks, Post
from runtime.lanes.refusals import no_speech_model
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
    """See `runtime.lanes.lane.Service`. A file's failure ends that file only; the next one begins."""

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
        self._parked: TranscribeJob | None = None
        """A file that has begun and gave way; never there beside another one in the background that runs."""
        self._parked_ns = 0
        self._said: dict[str, Queued] = {}

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
        """Deal with a window of the current file, or take another file; True while there is more."""
        self._drop_cancelled()
        if self._gives_way():
            self._park()
            self._begin(self._waiting.popleft())
        elif self._job is not None:
            self._advance(self._job)
        elif self._parked is not None:
            self._go_on(self._parked)
        elif self._waiting:
            self._begin(self._waiting.popleft())
        return self._job is not None or self._parked is not None or bool(self._waiting)

    def close(self) -> None:
        """Release the files and the model; nothing more is said of what was to be transcribed."""
        for job in (self._job, self._parked):
            if job is not None:
                job.close()
                self._forget(job.command.request_id)
        for command in self._waiting:
            if isinstance(command, Transcribe):
                self._forget(command.request_id)
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
            raise no_speech_model(command.source)
        if self._vad is None:
            self._vad = SileroVad()
        # A file that is parked goes on with its own stream.
        vad = self._vad.for_another_stream()
        return TranscribeJob(command, self._engine, vad, self._post, self._watched(command.request_id))

    def _gives_way(self) -> bool:
        """Whether what comes next was just said, and what runs, if anything, was not."""
        if self._job is not None and self._job.command.priority == "interactive":
            return False
        return bool(self._waiting) and _was_just_said(self._waiting[0])

    def _park(self) -> None:
        if self._job is not None:
            self._parked, self._job = self._job, None
            self._parked_ns = time.perf_counter_ns()

    def _go_on(self, job: TranscribeJob) -> None:
        self._job, self._parked = job, None
        request_id = job.command.request_id
        RECORDER.complete("gave way", self._parked_ns, time.perf_counter_ns(), request=request_id)
        self._post(Queued(request_id, 0, "next"))
        self._say_positions()

    def _watched(self, request_id: str) -> Callable[[], bool]:
        """Whether the file is cancelled.

        Being asked between the device's calls, it knows that the device answers, and ends others that wait.
        """

        def cancelled() -> bool:
            self._call.sign_of_life()
            self._drop_cancelled()
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
        if loses_model(error):
            self._lose_engine(error)

    def _lose_engine(self, error: Exception) -> None:
        """The device failed, so a reload is needed; what can be given back of the model is.

        A file that is parked cannot go on without the model that has begun it.
        """
        parked, self._parked = self._parked, None
        if parked is not None:
            parked.close()
            self._fail(parked.command.request_id, error)
        engine, self._engine = self._engine, None
        if engine is None:
            return
        drop_what_it_holds(error)
        try:
            with self._call.made_for():
                engine.close()
        finally:
            self._post(ModelFailed(engine.info.model_id, to_info(error)))

    def _drop_cancelled(self) -> None:
        """Files that wait or are parked are cancelled at once, not when their turn comes."""
        dropped = [
            command.request_id
            for command in self._waiting
            if isinstance(command, Transcribe) and self._marks.is_cancelled(command.request_id)
        ]
        parked = self._parked
        if parked is not None and self._marks.is_cancelled(parked.command.request_id):
            self._parked = None
            parked.close()
            dropped.append(parked.command.request_id)
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
        """Tell each file that waits, or is parked, how many come before it, when that has changed."""
        places = {place.request_id: place for place in self._places()}
        for request_id, place in places.items():
            if self._said.get(request_id) != place:
                self._post(place)
        self._said = places

    def _places(self) -> list[Queued]:
        """Where each file stands that does not run; a parked one goes before all but what was just said."""
        order = [command.request_id for command in self._waiting if isinstance(command, Transcribe)]
        parked = self._parked.command.request_id if self._parked is not None else ""
        if parked:
            order.insert(sum(1 for _ in takewhile(_was_just_said, self._waiting)), parked)
        running = [self._job.command.request_id] if self._job is not None else []
        first = next(iter((*running, *order)), "")
        return [
            Queued(request_id, position, "gave_way", first)
            if request_id == parked and position
            else Queued(request_id, position, "turn" if position else "next")
            for position, request_id in enumerate(order, start=len(running))
        ]


def _was_just_said(command: LoadSpeech | UnloadSpeech | Transcribe) -> bool:
    return isinstance(command, Transcribe) and command.priority == "interactive"
