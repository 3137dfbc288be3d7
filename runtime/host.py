"""The runtime as one object: starts the lanes, routes commands to them, collects their events.

The window runs the lanes in QThreads (`runtime.thread`), the command line in plain threads. Nothing here
imports a heavy package; each service does that in its own thread, in `open`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Protocol

from runtime.config import RuntimeConfig
from runtime.lane import CancelMarks, Lane, Post, Service
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
)
from runtime.outbox import Outbox

LANE_OF: dict[type[Command], str] = {
    LoadModel: "chat",
    UnloadModel: "chat",
    Generate: "chat",
    ForgetConversation: "chat",
    SetEngineOptions: "chat",
    MeasurePrompt: "chat",
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


def _chat(config: RuntimeConfig, post: Post, marks: CancelMarks) -> Service:
    from runtime.engine import Engine

    return Engine(config, post, marks)


def _speech(config: RuntimeConfig, post: Post, marks: CancelMarks) -> Service:
    from runtime.speech.service import SpeechService

    return SpeechService(config, post, marks)


def _recorder(config: RuntimeConfig, post: Post, marks: CancelMarks) -> Service:
    from runtime.tracing.service import RecorderService

    return RecorderService(config, post, marks)


def _library(config: RuntimeConfig, post: Post, marks: CancelMarks) -> Service:
    from runtime.catalog.service import LibraryService

    return LibraryService(config, post, marks)


def _microphone(config: RuntimeConfig, post: Post, marks: CancelMarks) -> Service:
    from runtime.audio.microphone_service import MicrophoneService

    return MicrophoneService(config, post, marks)


def _playback(config: RuntimeConfig, post: Post, marks: CancelMarks) -> Service:
    from runtime.audio.playback_service import PlaybackService

    return PlaybackService(config, post, marks)


_SERVICES: dict[str, Callable[[RuntimeConfig, Post, CancelMarks], Service]] = {
    "chat": _chat,
    "speech": _speech,
    "recorder": _recorder,
    "library": _library,
    "microphone": _microphone,
    "playback": _playback,
}


class Host:
    """The door to the runtime for the window and the command line."""

    def __init__(
        self,
        config: RuntimeConfig,
        wake: Callable[[], None],
        make_runner: Callable[[Lane], Runner] = PlainRunner,
    ) -> None:
        self.config = config
        self._outbox = Outbox(wake)
        self._marks = CancelMarks()
        self._lanes = {name: self._lane(name) for name in _SERVICES}
        self._runners = {name: make_runner(lane) for name, lane in self._lanes.items()}
        self._started: set[str] = set()
        self._stopped = False

    def submit(self, command: Command) -> None:
        """Route the command to its lane, starting the lane at its first command; never waits."""
        if self._stopped:
            # What the last events lead to comes too late; a lane started now would never be joined.
            return
        name = LANE_OF[type(command)]
        self._lanes[name].put(command)
        if name not in self._started:
            self._started.add(name)
            self._runners[name].start()

    def cancel(self, request_id: str) -> None:
        """Mark a request; its final event acknowledges."""
        self._marks.cancel(request_id)

    def take_events(self) -> list[Event]:
        """Everything posted since the last call, in order."""
        return self._outbox.take()

    def stop(self, seconds: float = 10.0) -> list[str]:
        """End every lane; returns the names of those still busy after `seconds` each."""
        self._stopped = True
        for name in self._started:
            self._lanes[name].stop()
        return [name for name in self._started if not self._runners[name].join(seconds)]

    def _lane(self, name: str) -> Lane:
        def make_service() -> Service:
            return _SERVICES[name](self.config, self._outbox.post, self._marks)

        return Lane(name, make_service, self._outbox.post)
