"""Loading and unloading models: a lane for each chat or image model, one lane for the speech model."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from runtime.errors import ErrorInfo
from runtime.layout.request import EffectiveLayout, LayoutRequest

DESCRIBERS = ("blip",)
"""Families that describe a picture and take no question."""
ModelKind = Literal["chat", "image", "speech", "other"]
"""What a model is for; "other" is none of what this program does."""


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """A loaded model, as the UI may show it."""

    model_id: str
    title: str
    kind: ModelKind
    family: str
    folder: str
    device: str
    """The device in words, e.g. "Simulated ARIES (CPU)"."""
    simulated: bool
    layout: EffectiveLayout | None
    """None for an engine that runs on the host CPU."""
    context_length: int
    """Tokens a conversation may have; of a speech model, the seconds it hears at once."""
    prefill_chunk: int
    sampling_defaults: dict[str, float | int] = field(default_factory=dict)
    """Sampling values the model's own generation_config.json sets, by name, e.g. "temperature"."""
    sampling_not_taken: frozenset[str] = frozenset()
    """Names of sampling values that it cannot follow, because it answers by speculation."""
    load_seconds: float = 0.0
    languages: tuple[str, ...] = ()
    """ISO codes of what a speech model understands."""

    @property
    def slots(self) -> int:
        """Conversations that it answers at once."""
        return self.layout.models * self.layout.slots_per_model if self.layout is not None else 1

    @property
    def only_describes(self) -> bool:
        """Whether an image model takes no question, but the beginning of its description, if anything."""
        return self.family in DESCRIBERS


def model_lane(model_id: str) -> str:
    """The name of the lane that runs a chat or image model, as `LaneFaulted` says it."""
    return f"model {model_id}"


# -- commands -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class LoadModel:
    """Load the artifact in `folder` beside what is loaded; the same model is unloaded first.

    A model that is to give way is unloaded with `UnloadModel` before; its memory is free when this one loads.
    """

    model_id: str
    folder: str
    layout: LayoutRequest


@dataclass(frozen=True, slots=True)
class UnloadModel:
    """Give the model's device memory back; while it is being loaded, that is cancelled at once."""

    model_id: str


@dataclass(frozen=True, slots=True)
class LoadSpeech:
    """Load a speech model: a CTranslate2 folder, or an NPU artifact (then `layout` counts)."""

    model_id: str
    folder: str
    layout: LayoutRequest


@dataclass(frozen=True, slots=True)
class UnloadSpeech:
    """Give the speech model's memory back, once the files before it are done.

    While it is being loaded, that is cancelled at once.
    """


# -- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelLoading:
    """Progress of a load; `fraction` in 0..1 or None while it cannot be told."""

    model_id: str
    stage: str
    fraction: float | None = None


@dataclass(frozen=True, slots=True)
class ModelLoaded:
    """The model is ready."""

    info: ModelInfo


@dataclass(frozen=True, slots=True)
class ModelUnloaded:
    """The model is gone from the device."""

    model_id: str
    cancelled: bool = False
    """It was on its way there: this answers the load as well."""


@dataclass(frozen=True, slots=True)
class ModelFailed:
    """The model could not be loaded, or was lost."""

    model_id: str
    error: ErrorInfo
