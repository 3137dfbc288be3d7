"""The runtime as one object: starts the lanes, routes commands to them, collects their events.

There is a lane per kind of service, and one per loaded chat or image model: it starts with `LoadModel` and
ends with `UnloadModel`. A new lane waits until the lanes that are ending have given their memory back.

The window runs the lanes in QThreads (`runtime.lanes.thread`), the command line in plain threads. Nothing
here imports a heavy package; each service does that in its own thread, in `open`.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Protocol

from runtime.config import RuntimeConfig
from runtime.device.active import limit_calls
from runtime.errors import DeviceMemoryError
from runtime.lanes.device_call import DeviceCall
from runtime.lanes.event_log import note
from runtime.lanes.lane import CancelMarks, Lane, Post, Service
from runtime.lanes.outbox import Outbox
from runtime.lanes.refusals import load_cancelled, memory_still_held, nothing_loaded, refusal
from runtime.lanes.watchdog import Limits, Watchdog
from runtime.messages import (
    AnalyseRecording,
    Command,
    Event,
    ExportRecording,
    FetchModel,
    ForgetConversation,
    Generate,
    ImportModel,
    ImportRecording,
    ListMicrophones,
    ListModels,
    ListRecordings,
    LoadModel,
    LoadSpeech,
    MeasurePrompt,
    ModelFailed,
    OutlineAudio,
    PlayAudio,
    RemoveModel,
    RemoveRecording,
    RenameRecording,
    RestoreRecording,
    SetEngineOptions,
    StartRecording,
    StartTake,
    StopAudio,
    StopRecording,
    StopTake,
    Transcribe,
    UnloadModel,
    UnloadSpeech,
    VerifyModel,
    model_lane,
)
from runtime.tracing.recorder import RECORDER

LANE_OF: dict[type[Command], str] = {
    LoadSpeech: "speech",
    UnloadSpeech: "speech",
    Transcribe: "speech",
    StartRecording: "recorder",
    StopRecording: "recorder",
    ExportRecording: "recorder",
    AnalyseRecording: "recorder",
    RestoreRecording: "recorder",
    RenameRecording: "recorder",
    RemoveRecording: "recorder",
    ListRecordings: "recorder",
    ImportRecording: "recorder",
    ListModels: "library",
    FetchModel: "library",
    ImportModel: "library",
    VerifyModel: "library",
    RemoveModel: "library",
    ListMicrophones: "microphone",
    StartTake: "microphone",
    StopTake: "microphone",
    OutlineAudio: "playback",
    PlayAudio: "playback",
    StopAudio: "playback",
}


_A_MOMENT = 0.5
"""Seconds that the end of the program waits for a load, and for a call that is overdue."""


class Runner(Protocol):
    """A thread that runs one lane."""

    def start(self) -> None:
        """Begin."""

    def join(self, seconds: float) -> bool:
        """Wait for the end; False when it did not come in time."""


class PlainRunner:
    """Runs a lane in a `threading.Thread`."""

    def __init__(self, lane: Lane) -> None:
        self._thread = threading.Thread(target=lane.run, name=f"mblt-{lane.name}", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def join(self, seconds: float) -> bool:
        """Wait for the end; False when it did not come in time."""
        self._thread.join(seconds)
        return not self._thread.is_alive()


def _engine(config: RuntimeConfig, post: Post, marks: CancelMarks, call: DeviceCall) -> Service:
    from runtime.answering.engine import Engine

    return Engine(config, post, marks, call=call)


def _speech(config: RuntimeConfig, post: Post, marks: CancelMarks, call: DeviceCall) -> Service:
    from runtime.speech.service import SpeechService

    return SpeechService(config, post, marks, call)


def _recorder(config: RuntimeConfig, post: Post, marks: CancelMarks, _call: DeviceCall) -> Service:
    from runtime.tracing.service import RecorderService

    return RecorderService(config, post, marks)


def _library(config: RuntimeConfig, post: Post, marks: CancelMarks, _call: DeviceCall) -> Service:
    from runtime.catalog.service import LibraryService

    return LibraryService(config, post, marks)


def _microphone(config: RuntimeConfig, post: Post, marks: CancelMarks, _call: DeviceCall) -> Service:
    from runtime.audio.microphone_service import MicrophoneService

    return MicrophoneService(config, post, marks)


def _playback(config: RuntimeConfig, post: Post, marks: CancelMarks, _call: DeviceCall) -> Service:
    from runtime.audio.playback_service import PlaybackService

    return PlaybackService(config, post, marks)


_Make = Callable[[RuntimeConfig, Post, CancelMarks, DeviceCall], Service]

_SERVICES: dict[str, _Make] = {
    "speech": _speech,
    "recorder": _recorder,
    "library": _library,
    "microphone": _microphone,
    "playback": _playback,
}


class Host:
    """The door to the runtime for the window and the command line; used from one thread."""

    def __init__(
        self,
        config: RuntimeConfig,
        wake: Callable[[], None],
        make_runner: Callable[[Lane], Runner] = PlainRunner,
    ) -> None:
        self.config = config
        limit_calls(config.stall_seconds)
        self._outbox = Outbox(wake)
        self._marks = CancelMarks()
        self._make_runner = make_runner
        self._lanes: dict[str, Lane] = {}
        """Those that take commands, by name."""
        self._runners: dict[Lane, Runner] = {}
        """Every thread that may still run, those of lanes that are ending included."""
        self._watchdog = Watchdog(
            Limits(config.stall_seconds, config.load_stall_seconds),
            self._post,
            self._marks,
            self.lanes,
        )
        self._stopped = False

    def submit(self, command: Command) -> None:
        """Route the command to its lane, starting the lane at its first command; never waits."""
        if self._stopped:
            # What the last events lead to comes too late; a lane started now would never be joined.
            return
        if isinstance(command, ForgetConversation | SetEngineOptions):
            self._tell_models(command)
        elif isinstance(command, Generate | MeasurePrompt | UnloadModel):
            self._give(self._lanes.get(model_lane(command.model_id)), command)
        elif isinstance(command, LoadModel):
            self._give(self._lane(model_lane(command.model_id), _engine, self._ending()), command)
        else:
            name = LANE_OF[type(command)]
            after = self._ending() if name == "speech" else ()
            self._give(self._lane(name, _SERVICES[name], after), command)

    def cancel(self, request_id: str) -> None:
        """Mark a request; its final event acknowledges, at once if it only waits for a model to be loaded."""
        self._marks.cancel(request_id)
        if any(lane.gate.withdraw(request_id) for lane in self._lanes.values()):
            RECORDER.end_request(request_id)

    def take_events(self) -> list[Event]:
        """Everything posted since the last call, in order."""
        return self._outbox.take()

    def lanes(self) -> list[Lane]:
        """Every lane whose thread may still run; from any thread."""
        return list(self._runners)

    def stop(self, seconds: float = 10.0) -> list[str]:
        """End every lane; returns the names of those still busy after `seconds` in all.

        A load ends at its next stage. As nothing can be lost of one, it is waited for a moment only; so is a
        call that is overdue.
        """
        self._stopped = True
        for lane in self._runners:
            if lane.gate.loading:
                lane.let_go(load_cancelled().info)
            lane.stop()
        began = time.monotonic()
        busy = []
        for lane, runner in self._runners.items():
            left = began + self._patience(lane, seconds) - time.monotonic()
            if not runner.join(max(0.0, left)):
                busy.append(lane.name)
        self._watchdog.stop()
        return busy

    def _patience(self, lane: Lane, seconds: float) -> float:
        if lane.abandoned:
            return _A_MOMENT if lane.ended.is_set() else 0.0  # its thread returns at once, or perhaps never
        hopeless = lane.gate.is_shut or self._watchdog.is_overdue(lane)
        return min(seconds, _A_MOMENT) if hopeless else seconds

    def _post(self, event: Event) -> None:
        """From any thread."""
        if isinstance(event, ModelFailed) and event.error.code == DeviceMemoryError.code:
            given_up = [lane.name for lane in self.lanes() if lane.abandoned and not lane.ended.is_set()]
            if given_up:
                event = replace(event, error=memory_still_held(event.error, given_up))
        note(event)
        self._outbox.post(event)

    def _tell_models(self, command: ForgetConversation | SetEngineOptions) -> None:
        if isinstance(command, SetEngineOptions):
            self.config = replace(self.config, engine=command.options)
        elif self.config.kv_dir.is_dir():  # what the disk keeps is deleted with no model loaded, too
            self._give(self._lane("library", _library), command)
        for name, lane in self._lanes.items():
            if name not in _SERVICES:
                lane.put(command)

    def _give(self, lane: Lane | None, command: Command) -> None:
        """Queue the command; without a lane that could answer it, answer it here.

        An unload that comes while its model loads is answered at once, too; the thread follows.
        """
        if isinstance(command, UnloadModel | UnloadSpeech) and lane is not None and lane.gate.loading:
            lane.let_go(load_cancelled().info)
            del self._lanes[lane.name]
            self._watchdog.wake()
            return
        if lane is None or not lane.put(command):
            event = refusal(command, nothing_loaded(command).info)
            if event is not None:
                self._post(event)
            return
        if isinstance(command, UnloadModel):
            lane.stop()
            del self._lanes[lane.name]
        if lane.gate.busy or lane.stopping:
            self._watchdog.wake()

    def _ending(self) -> list[Lane]:
        """Lanes that take no more commands and may still hold device memory."""
        self._forget_ended()
        return [lane for lane in self._runners if lane.gate.is_shut or self._lanes.get(lane.name) is not lane]

    def _lane(self, name: str, make: _Make, after: Sequence[Lane] = ()) -> Lane:
        """The lane of that name; a new one when there is none, or its thread was given up."""
        lane = self._lanes.get(name)
        if lane is not None and not lane.gate.is_shut:
            return lane
        config, marks = self.config, self._marks
        lane = Lane(name, lambda post, call: make(config, post, marks, call), self._post, after)
        self._lanes[name] = lane
        self._runners[lane] = self._make_runner(lane)
        self._runners[lane].start()
        return lane

    def _forget_ended(self) -> None:
        """Threads that have returned need not be joined any more."""
        self._runners = {
            lane: runner
            for lane, runner in self._runners.items()
            if not (lane.ended.is_set() and runner.join(0))
        }
