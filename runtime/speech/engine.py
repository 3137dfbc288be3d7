"""What a speech model must do for the service, and which class does it for which folder."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from runtime.audio.windows import Window
from runtime.config import RuntimeConfig
from runtime.errors import ModelIncompleteError, ModelNotFoundError, ModelUnsupportedError
from runtime.families.base import Progress
from runtime.families.memory import smaller_advised
from runtime.lanes.building import building
from runtime.messages import LoadSpeech, ModelInfo, Segment
from runtime.model_folder import read_object, require_plain_files, stated_in

TAIL_SECONDS = 0.5
"""Silence after a window; without it a speech model changes or drops the last word."""


@dataclass(frozen=True, slots=True)
class Task:
    """How a window is to be transcribed."""

    request_id: str
    language: str
    """ISO code; empty lets a model decide that could not guess it."""
    word_times: bool
    cancelled: Callable[[], bool]


@dataclass(frozen=True, slots=True)
class LanguageGuess:
    """The language of a window and how sure the model is (0..1)."""

    code: str
    """Empty when the model could not tell."""
    probability: float


class SpeechEngine(Protocol):
    """A loaded speech model; every method is called from the speech lane's thread."""

    info: ModelInfo
    title: str
    """Model and device in words, e.g. "Whisper tiny.en · host CPU"."""
    languages: tuple[str, ...]
    """ISO codes it understands."""

    def guess_language(self, window: Window, cancelled: Callable[[], bool]) -> LanguageGuess:
        """Which language is spoken; means nothing once `cancelled` says so."""

    def transcribe(self, window: Window, task: Task) -> Iterator[Segment]:
        """Segments as they come, in file time and within the window; ends early when cancelled.

        Raises DeviceError or RequestError.
        """

    def close(self) -> None:
        """Give the memory back."""


def load_engine(command: LoadSpeech, config: RuntimeConfig, progress: Progress) -> SpeechEngine:
    """The engine for the folder. Raises ModelError, LayoutError or DeviceError with all the words."""
    folder = Path(command.folder)
    family = _family(folder)
    # Files are heard one after the other: copies for conversations side by side would only take memory.
    command = replace(command, layout=replace(command.layout, max_batch_size=None))
    if family == "ctranslate2":
        from runtime.speech.faster_whisper import load_faster_whisper

        return load_faster_whisper(command, progress)
    if family == "mobilint-whisper":
        from runtime.speech.npu_whisper import load_npu_whisper

        with building(progress), smaller_advised(folder, command.layout), stated_in(folder):
            return load_npu_whisper(command, config.device, progress)
    if family == "mobilint-lfm2_audio":
        from runtime.speech.npu_lfm2_audio import load_npu_lfm2_audio

        with building(progress), smaller_advised(folder, command.layout), stated_in(folder):
            return load_npu_lfm2_audio(command, config.device, progress)
    if family == "mobilint-qwen3_asr":
        from runtime.speech.npu_qwen3_asr import load_npu_qwen3_asr

        with building(progress), smaller_advised(folder, command.layout), stated_in(folder):
            return load_npu_qwen3_asr(command, config.device, progress)
    raise ModelUnsupportedError(
        f"{folder.name} is not a speech model that can be run here (its type is “{family}”).",
        remedy="Choose Whisper, Qwen3-ASR or LFM2-Audio for the NPU, or Whisper in CTranslate2 form for "
        "the host CPU.",
        unharmed="Other models and your transcripts are unharmed.",
    )


def _family(folder: Path) -> str:
    if not folder.is_dir():
        raise ModelNotFoundError(
            f"There is no speech model in {folder}.",
            remedy="Fetch one in the Models pane, or choose another folder.",
            unharmed="Your transcripts are unharmed.",
        )
    try:
        config = read_object(folder / "config.json")
    except (OSError, ValueError):
        config = {}
    require_plain_files(folder, config)
    described = config.get("model_type")
    if described:
        return str(described)
    # Without one of the two it is a CTranslate2 model whose other half is missing; its loader says which.
    if (folder / "model.bin").is_file() or any(folder.glob("vocabulary.*")):
        return "ctranslate2"
    raise ModelIncompleteError(
        f"The model folder {folder} holds no speech model.",
        remedy="Fetch the model again, or choose the folder of a complete download.",
        unharmed="Other models and your transcripts are unharmed.",
    )
