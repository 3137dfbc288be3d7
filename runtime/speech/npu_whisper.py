"""Whisper on the NPU, real or simulated, through transformers-mblt.

The compiled encoder always takes 30 seconds, so every window costs one whole encode; windows are therefore as
long as the speech allows. There are no attention weights from the device, hence no word times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from runtime.audio.pcm import SAMPLE_RATE
from runtime.audio.windows import Window
from runtime.config import DeviceChoice
from runtime.device.infers import ended_when
from runtime.errors import ModelIncompleteError
from runtime.families.base import Progress
from runtime.families.faults import device_faults
from runtime.families.opening import Opening
from runtime.families.vendor import dispose_model
from runtime.layout.request import from_pretrained_kwargs
from runtime.messages import LoadSpeech, ModelInfo, Segment
from runtime.model_folder import read_object
from runtime.speech.engine import TAIL_SECONDS, LanguageGuess, Task
from runtime.speech.guards import clamp
from runtime.speech.on_npu import refuse_bad_logits, speech_info
from runtime.speech.timestamps import split_segments
from runtime.tracing.recorder import RECORDER

_FETCH_AGAIN = "Fetch the model again, or choose the folder of a complete download."
_UNHARMED = "Other models and your transcripts are unharmed."
_WINDOW_SECONDS = 30
_TEMPERATURES = (0.0, 0.2, 0.4)
_TOO_REPETITIVE = 2.4
"""Compression ratio above which a window is decoded again at the next temperature."""


class NpuWhisper:
    """A loaded Whisper artifact."""

    def __init__(self, model: Any, features: Any, tokenizer: Any, info: ModelInfo) -> None:
        self._model = model
        self._features = features
        self._tokenizer = tokenizer
        self.info = info
        self.title = f"{info.title} · {info.device}"
        self._language_ids = _language_ids(model)
        self._multilingual = bool(self._language_ids)
        self.languages = info.languages
        self._first_special = int(model.generation_config.eos_token_id)
        self._first_timestamp = int(model.generation_config.no_timestamps_token_id) + 1

    def guess_language(self, window: Window, cancelled: Callable[[], bool]) -> LanguageGuess:
        """Which language is spoken, by one encode and one token; no code when cancelled between them."""
        import torch

        start = torch.tensor([[self._model.generation_config.decoder_start_token_id]])
        logits: Any = None
        with ended_when(cancelled), torch.inference_mode(), device_faults(self.info.title):
            output = self._model(input_features=self._input(window), decoder_input_ids=start, use_cache=False)
            logits = output.logits.reshape(-1)  # of one token; the vendor's class leaves out an axis then
        if logits is None:
            return LanguageGuess("", 0.0)
        codes = list(self._language_ids)
        chances = torch.softmax(logits[list(self._language_ids.values())].float(), dim=-1)
        best = int(chances.argmax())
        return LanguageGuess(codes[best], float(chances[best]))

    def transcribe(self, window: Window, task: Task) -> Iterator[Segment]:
        """Segments in file time and within the window; none when cancelled."""
        seconds = window.end - window.start
        with RECORDER.span("transcribe window", request=task.request_id, seconds=seconds):
            tokens = self._generate(window, task)
        if task.cancelled():
            return iter(())
        segments = split_segments(
            tokens, self._first_timestamp, self._first_special, window, self._tokenizer.decode
        )
        return clamp(segments, window)

    def close(self) -> None:
        """Give the device memory back."""
        dispose_model(self._model)

    def _generate(self, window: Window, task: Task) -> list[int]:
        import torch

        spoken: dict[str, str] = {}
        if self._multilingual:
            spoken = {"language": task.language, "task": "transcribe"}
        tokens: list[int] = []
        with ended_when(task.cancelled), torch.inference_mode(), device_faults(self.info.title):
            output = self._model.generate(
                self._input(window),
                # Beams are replayed one after the other on one cache and make the words worse.
                num_beams=1,
                return_timestamps=True,
                # One pass per window: it ends in silence, a second pass over the rest would invent words.
                force_unique_generate_call=True,
                condition_on_prev_tokens=False,
                temperature=_TEMPERATURES,
                compression_ratio_threshold=_TOO_REPETITIVE,
                logits_processor=refuse_bad_logits(self.info.title),
                **spoken,
            )
            tokens.extend(output[0].tolist())
        return tokens

    def _input(self, window: Window) -> Any:
        """Log-mel features, shape (1, mel, 3000)."""
        tail = np.zeros(int(TAIL_SECONDS * SAMPLE_RATE), np.float32)
        samples = np.concatenate((window.samples, tail))
        return self._features(samples, sampling_rate=SAMPLE_RATE, return_tensors="pt").input_features


def _language_ids(model: Any) -> dict[str, int]:
    """Token of each language by ISO code; empty for an English-only model."""
    generation = model.generation_config
    if not getattr(generation, "is_multilingual", False):
        return {}
    return {token[2:-2]: number for token, number in generation.lang_to_id.items()}


def load_npu_whisper(command: LoadSpeech, device: DeviceChoice, progress: Progress) -> NpuWhisper:
    """Load the artifact. Raises ModelError, LayoutError or DeviceError with all the words."""
    folder = Path(command.folder)
    _require_files(folder)
    opening = Opening(folder, command.layout, device, progress)
    from transformers import AutoModelForSpeechSeq2Seq, AutoTokenizer, WhisperFeatureExtractor

    what = "its tokenizer or preprocessor files"
    tokenizer, features = opening.read(what, AutoTokenizer, WhisperFeatureExtractor)
    kwargs = from_pretrained_kwargs(opening.layout, ("encoder_", "decoder_"))
    model = opening.load(AutoModelForSpeechSeq2Seq, kwargs)
    known = tuple(_language_ids(model)) or ("en",)
    info = speech_info(command, opening, model, "whisper", _WINDOW_SECONDS, known)
    return NpuWhisper(model, features, tokenizer, info)


def _require_files(folder: Path) -> None:
    """Name what is missing; the vendor's own check is a bare Exception."""
    try:
        config = read_object(folder / "config.json")
        compiled = [str(config[f"{part}_mxq_path"]) for part in ("encoder", "decoder")]
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelIncompleteError(
            f"config.json of the speech model in {folder} does not name its compiled models.",
            remedy=_FETCH_AGAIN,
            unharmed=_UNHARMED,
            detail=f"{type(error).__name__}: {error}",
        ) from error
    wanted = (*compiled, "tokenizer.json", "preprocessor_config.json", "generation_config.json")
    missing = [name for name in wanted if not (folder / name).is_file()]
    if not any(folder.glob("*.safetensors")):
        missing.append("*.safetensors")
    if missing:
        raise ModelIncompleteError(
            f"The speech model in {folder} has no {', no '.join(missing)}.",
            remedy=_FETCH_AGAIN,
            unharmed=_UNHARMED,
        )
