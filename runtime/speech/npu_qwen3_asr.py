"""Qwen3-ASR on the NPU, real or simulated: a text network that reads what an encoder heard.

The compiled encoder takes one second, and the vendor's class fills a last part of one with zeros, which are
no silence in a spectrogram; so a window is filled up to whole seconds with real silence. The vendor's parts
are called one by one instead of through `generate`: then every call of the device is one second, one piece of
the prompt or one token, and a cancel is seen before each.

The model tells no times: each window becomes one line, so windows stay short enough to find a sentence in.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.audio.pcm import SAMPLE_RATE, Samples
from runtime.audio.windows import Window
from runtime.config import DeviceChoice
from runtime.device.active import vendor_stack
from runtime.errors import ModelIncompleteError, ModelUnsupportedError
from runtime.families.base import Progress
from runtime.families.faults import device_faults
from runtime.families.model_info import context_length, eos_ids
from runtime.families.opening import Opening
from runtime.families.prefill_chunk import chunk_of
from runtime.families.vendor import dispose_model, new_slot_cache
from runtime.layout.request import from_pretrained_kwargs
from runtime.messages import LoadSpeech, ModelInfo, Segment
from runtime.model_folder import loading
from runtime.speech.engine import TAIL_SECONDS, LanguageGuess, Task
from runtime.speech.guards import clamp, is_stuck
from runtime.speech.on_npu import bad_numbers, speech_info
from runtime.speech.qwen3_asr_words import Words
from runtime.tracing.recorder import RECORDER

if TYPE_CHECKING:
    import torch

_LONGEST_WINDOW = 16
"""Seconds."""
_LONGEST_CONTEXT = 2048
"""Tokens. More of them can stall the NPU, also where a model was compiled for more."""
_SHORTEST_WINDOW = 3
_FRAMES = 100
"""Of the spectrogram in a second."""
_HEARD = 13
"""Embeddings of a second."""
_SPOKEN = 12
"""Tokens that nobody speaks more of in a second; an answer that is longer ends there."""
_LEAST_ROOM = 64
"""Tokens of an answer, however short the sound."""
_LANGUAGE_TOKENS = 12
"""The longest opening of an answer that is waited for."""
_UNHARMED = "Other models and your transcripts are unharmed."


class NpuQwen3Asr:
    """A loaded Qwen3-ASR artifact."""

    def __init__(
        self, model: Any, features: Any, words: Words, ends: frozenset[int], info: ModelInfo
    ) -> None:
        self._model = model
        self._thinker = model.thinker
        self._features = features
        self._words = words
        self._ends = ends
        self.info = info
        self.title = f"{info.title} · {info.device}"
        self.languages = info.languages
        text = self._thinker.model
        self._chunk = chunk_of(text)
        self._cache: Any = new_slot_cache(text)

    def guess_language(self, window: Window, cancelled: Callable[[], bool]) -> LanguageGuess:
        """The language that the model opens its answer with; no code when it hears no speech."""
        tokens: list[int] = []
        chance = 1.0
        heard = self._hear(window, cancelled)
        for token, logits in islice(self._answer(heard, "", cancelled), _LANGUAGE_TOKENS):
            if token == self._words.marker:
                code = self._words.code(tokens)
                return LanguageGuess(code, chance if code else 0.0)
            tokens.append(token)
            chance *= float(logits.softmax(-1)[token])
        return LanguageGuess("", 0.0)

    def transcribe(self, window: Window, task: Task) -> Iterator[Segment]:
        """The window's words as one segment; none when cancelled or nothing was said."""
        seconds = window.end - window.start
        with RECORDER.span("transcribe window", request=task.request_id, seconds=seconds):
            text = self._words.text(self._tokens(window, task))
        if task.cancelled():
            return iter(())
        return clamp([Segment(window.start, window.end, text)], window)

    def close(self) -> None:
        """Give the device memory back."""
        dispose_model(self._model)

    def _tokens(self, window: Window, task: Task) -> list[int]:
        tokens: list[int] = []
        heard = self._hear(window, task.cancelled)
        most = _LEAST_ROOM + _SPOKEN * len(heard)
        for token, _ in islice(self._answer(heard, task.language, task.cancelled), most):
            tokens.append(token)
            if is_stuck(tokens):
                break
        return tokens

    def _hear(self, window: Window, cancelled: Callable[[], bool]) -> list[torch.Tensor]:
        """Embeddings of each second, shape (13, hidden); fewer of them when cancelled."""
        import torch

        spectrogram = self._features(
            _filled(window.samples), sampling_rate=SAMPLE_RATE, padding="longest", return_tensors="pt"
        ).input_features[0]
        heard: list[torch.Tensor] = []
        for start in range(0, spectrogram.shape[-1], _FRAMES):
            if cancelled():
                break
            with torch.inference_mode(), device_faults(self.info.title):
                second = self._thinker.audio_tower(spectrogram[:, start : start + _FRAMES])
            heard.append(second.last_hidden_state)
        return heard

    def _answer(
        self, heard: list[torch.Tensor], language: str, cancelled: Callable[[], bool]
    ) -> Iterator[tuple[int, torch.Tensor]]:
        """The likeliest tokens, each with the logits (vocab,) it leads; ends early when cancelled.

        A window leaves room for so many tokens (`_window_seconds`); who asks must not take more.
        """
        import torch

        embedded = self._embed
        prompt = torch.cat([embedded(self._words.before), *heard, embedded(self._words.after(language))])
        self._cache.reset()
        logits: Any = None
        for start in range(0, len(prompt), self._chunk):
            if cancelled():
                return
            logits = self._forward(prompt[start : start + self._chunk])
        while True:
            token = self._likeliest(logits)
            if token in self._ends or cancelled():
                return
            yield token, logits
            logits = self._forward(embedded([token]))

    def _embed(self, tokens: list[int]) -> torch.Tensor:
        """Shape (tokens, hidden), in float32: the logits come in the precision of what goes in."""
        import torch

        with torch.inference_mode():
            embedded: torch.Tensor = self._thinker.get_input_embeddings()(torch.tensor(tokens)).float()
        return embedded

    def _forward(self, embedded: torch.Tensor) -> torch.Tensor:
        """The logits (vocab,) after the last of some positions (tokens, hidden), in one call."""
        import torch

        with torch.inference_mode(), device_faults(self.info.title):
            output = self._thinker(
                inputs_embeds=embedded[None],
                past_key_values=self._cache,
                use_cache=True,
                logits_to_keep=1,
                npu_prefill_chunk_size=len(embedded),
            )
        logits: torch.Tensor = output.logits.reshape(-1)
        return logits

    def _likeliest(self, logits: torch.Tensor) -> int:
        token = int(logits.argmax())
        if not logits[token].isfinite():  # argmax finds a NaN first
            raise bad_numbers(self.info.title, f"logits[{token}] = {float(logits[token])}")
        return token


def _filled(samples: Samples) -> Samples:
    """The samples and silence up to whole seconds, of which there is at least a tail's length."""
    length = len(samples) + int(TAIL_SECONDS * SAMPLE_RATE)
    return np.pad(samples, (0, length - len(samples) + -length % SAMPLE_RATE))


def load_npu_qwen3_asr(command: LoadSpeech, device: DeviceChoice, progress: Progress) -> NpuQwen3Asr:
    """Load the artifact. Raises ModelError, LayoutError or DeviceError with all the words."""
    folder = Path(command.folder)
    opening = Opening(folder, command.layout, device, progress)
    _require_vendor_class(folder)
    from transformers import AutoConfig, AutoFeatureExtractor, AutoModelForSpeechSeq2Seq, AutoTokenizer

    tokenizer_files = "its tokenizer or preprocessor files"
    tokenizer, features = opening.read(tokenizer_files, AutoTokenizer, AutoFeatureExtractor)
    with loading(folder, "its config.json"):
        config = AutoConfig.from_pretrained(str(folder), local_files_only=True)
        paths = _compiled(folder, config)
    with loading(folder, tokenizer_files):
        words = Words(tokenizer, config.support_languages)
    kwargs = paths | from_pretrained_kwargs(opening.layout, ("encoder_", "decoder_"))
    model = opening.load(AutoModelForSpeechSeq2Seq, kwargs)
    seconds = _window_seconds(folder, model, words)
    info = speech_info(command, opening, model, "qwen3_asr", seconds, words.languages)
    return NpuQwen3Asr(model, features, words, eos_ids(model, tokenizer) | {words.end}, info)


def _require_vendor_class(folder: Path) -> None:
    if "qwen3_asr" in vendor_stack().register():
        return
    from transformers import __version__

    raise ModelUnsupportedError(
        f"{folder.name} is a Qwen3-ASR model, which the installed transformers {__version__} does not know.",
        remedy="Install a newer one: pip install 'transformers>=5.17,<5.18'.",
        unharmed=_UNHARMED,
    )


def _compiled(folder: Path, config: Any) -> dict[str, str]:
    """Where the two compiled networks lie, as arguments of `from_pretrained`.

    The vendor's nested configurations do not learn the folder and would ask the hub (docs/decisions.md).
    """
    paths: dict[str, str] = {}
    for part in ("encoder", "decoder"):
        name = getattr(config, f"{part}_mxq_path")
        if not name or not (folder / name).is_file():
            raise ModelIncompleteError(
                f"The speech model in {folder} has no {name or f'compiled {part} that config.json names'}.",
                remedy="Fetch the model again, or choose the folder of a complete download.",
                unharmed=_UNHARMED,
            )
        paths[f"{part}_mxq_path"] = str(folder / name)
    return paths


def _window_seconds(folder: Path, model: Any, words: Words) -> int:
    """How long a window may be for its sound and its words to fit into the context together.

    The longest takes some 500 tokens.
    """
    context = min(context_length(model.thinker.model), _LONGEST_CONTEXT)
    asked = len(words.before) + max(len(words.after(code)) for code in ("", *words.languages))
    seconds = min(_LONGEST_WINDOW, (context - asked - _LEAST_ROOM) // (_HEARD + _SPOKEN))
    if seconds < _SHORTEST_WINDOW:
        raise ModelUnsupportedError(
            f"{folder.name} was compiled for {context} tokens, which is too short to hear a sentence.",
            remedy="Choose a variant with a longer context.",
            unharmed=_UNHARMED,
        )
    return seconds
