"""What answers a command that no service can take: every kind has its typed failure, none vanishes."""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from runtime.errors import ErrorInfo, ModelNotLoadedError
from runtime.messages import (
    Cancelled,
    Command,
    Event,
    Failed,
    Finished,
    Generate,
    LoadModel,
    LoadSpeech,
    ModelFailed,
    ModelUnloaded,
    RecordingFailed,
    StartRecording,
    StopRecording,
    Timings,
    Transcribe,
    UnloadModel,
    Usage,
)


def refusal(command: Command, error: ErrorInfo) -> Event | None:
    """The event that ends the command with the error; None for one that nobody waits for."""
    if isinstance(command, LoadModel | LoadSpeech):
        return ModelFailed(command.model_id, error)
    if isinstance(command, UnloadModel):
        return ModelUnloaded(command.model_id)
    if isinstance(command, StartRecording | StopRecording):
        return RecordingFailed(command.recording_id, error)
    request_id = getattr(command, "request_id", "")
    return Failed(request_id, error) if request_id else None


def cancelled(command: Generate | Transcribe) -> Event:
    """The event that ends a request for which nothing was done yet."""
    if isinstance(command, Transcribe):
        return Cancelled(command.request_id)
    waited = max(0, time.perf_counter_ns() - command.submitted_ns) / 1e9
    timings = Timings(
        queue=waited, template=0.0, tokenise=0.0, prefill=0.0, decode=0.0, first_token=0.0, total=waited
    )
    return Finished(command.request_id, "cancelled", Usage(0, 0, 0), timings, device="")


def not_loaded(model_id: str, because: ErrorInfo | None = None) -> ModelNotLoadedError:
    """A request names a model that is not there; `because` is why, when that is known."""
    unharmed = "The conversation is unharmed."
    if because is not None:
        return ModelNotLoadedError(
            f"The model is not loaded. {because.summary}",
            remedy=because.remedy,
            unharmed=unharmed,
            detail=because.detail,
        )
    return ModelNotLoadedError(
        f"The model {model_id} is not loaded.",
        remedy="Load it in the Models pane, then send the message again.",
        unharmed=unharmed,
    )


def no_speech_model(source: str) -> ModelNotLoadedError:
    """A file is to be transcribed, and nothing is there that could."""
    return ModelNotLoadedError(
        f"{Path(source).name} cannot be transcribed: no speech model is loaded.",
        remedy="Choose one under “Run on”, or fetch one in the Models pane.",
        unharmed="The file was not changed.",
    )


def nothing_loaded(command: Command) -> ModelNotLoadedError:
    """There is no model that could take the command."""
    if isinstance(command, Transcribe):
        return no_speech_model(command.source)
    return not_loaded(getattr(command, "model_id", ""))


def load_cancelled() -> ModelNotLoadedError:
    """The model that a request waited for is not loaded after all."""
    return ModelNotLoadedError(
        "Loading the model was cancelled, so what waited for it was not done.",
        remedy="Load the model again, or choose another one, and try again.",
        unharmed="Your conversations and files are unharmed.",
    )


def memory_still_held(error: ErrorInfo, lanes: Sequence[str]) -> ErrorInfo:
    """A lack of device memory while threads of these lanes, which were given up, still hold some."""
    words = f"What was given up before ({', '.join(lanes)}) still holds memory of the device"
    remedy = f"{words}: quit and start the program again. If that does not help, reset the card."
    return replace(error, remedy=remedy)
