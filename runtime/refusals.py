"""What answers a command that no service can take: every kind has its typed failure, none vanishes."""

from __future__ import annotations

from runtime.errors import ErrorInfo, ModelNotLoadedError
from runtime.messages import (
    Command,
    Event,
    Failed,
    LoadModel,
    LoadSpeech,
    ModelFailed,
    ModelUnloaded,
    RecordingFailed,
    StartRecording,
    StopRecording,
    UnloadModel,
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


def not_loaded(model_id: str) -> ModelNotLoadedError:
    """A request names a model that is not there."""
    return ModelNotLoadedError(
        f"The model {model_id} is not loaded.",
        remedy="Load it in the Models pane, then send the message again.",
        unharmed="The conversation is unharmed.",
    )


def load_cancelled() -> ModelNotLoadedError:
    """The model that a request waited for is not loaded after all."""
    return ModelNotLoadedError(
        "Loading the model was cancelled, so what waited for it was not done.",
        remedy="Load the model again, or choose another one, and try again.",
        unharmed="Your conversations and files are unharmed.",
    )
