"""Whisper on the host's own processor: a CTranslate2 folder, run by faster-whisper."""

from __future__ import annotations

import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from runtime.audio.pcm import SAMPLE_RATE
from runtime.audio.windows import Window
from runtime.errors import ModelDamagedError, ModelIncompleteError
from runtime.families.base import Progress
from runtime.families.model_info import title_of
from runtime.messages import LoadSpeech, ModelInfo, Segment, Word
from runtime.model_folder import read_object
from runtime.speech.engine import TAIL_SECONDS, LanguageGuess, Task
from runtime.speech.guards import clamp, invented
from runtime.tracing.recorder import RECORDER

DEVICE = "host CPU"
_WINDOW_SECONDS = 30
_MOST_THREADS = 4
_TEMPERATURES = (0.0, 0.2, 0.4)
"""Each fallback costs a whole decode; six of them make noise take a minute."""


class FasterWhisper:
    """A loaded CTranslate2 Whisper."""

    def __init__(self, model: Any, info: ModelInfo) -> None:
        self._model = model
        self.info = info
        self.title = f"{info.title} · {DEVICE}"
        self.languages = info.languages

    def guess_language(self, window: Window, cancelled: Callable[[], bool]) -> LanguageGuess:
        """Which language is spoken; one call, in which no cancel is seen."""
        if cancelled():
            return LanguageGuess("", 0.0)
        code, probability, _ = self._model.detect_language(audio=window.samples)
        return LanguageGuess(code, float(probability))

    def transcribe(self, window: Window, task: Task) -> Iterator[Segment]:
        """Segments as they come, in file time and within the window; ends early when cancelled."""
        return clamp(self._raw(window, task), window)

    def close(self) -> None:
        """Give the memory back."""
        self._model.model.unload_model()

    def _raw(self, window: Window, task: Task) -> Iterator[Segment]:
        tail = np.zeros(int(TAIL_SECONDS * SAMPLE_RATE), np.float32)
        with RECORDER.span("transcribe window", request=task.request_id, seconds=window.end - window.start):
            found, _ = self._model.transcribe(
                np.concatenate((window.samples, tail)),
                language=task.language,
                temperature=list(_TEMPERATURES),
                # One misheard sentence must not colour the rest of the file.
                condition_on_previous_text=False,
                word_timestamps=task.word_times,
            )
            for segment in found:
                if task.cancelled():
                    return
                if not invented(window, segment.no_speech_prob):
                    yield _in_file_time(segment, window.start)


def _in_file_time(segment: Any, offset: float) -> Segment:
    """The library's numbers are numpy's; ours are plain."""
    words = tuple(
        Word(float(offset + word.start), float(offset + word.end), word.word, float(word.probability))
        for word in segment.words or ()
    )
    return Segment(float(offset + segment.start), float(offset + segment.end), segment.text, words)


def load_faster_whisper(command: LoadSpeech, progress: Progress) -> FasterWhisper:
    """Load the folder. Raises ModelIncompleteError or ModelDamagedError."""
    folder = Path(command.folder)
    _check(folder)
    started = time.perf_counter()
    if "faster_whisper" not in sys.modules:
        progress("Importing faster-whisper", None)
    from faster_whisper import WhisperModel

    progress("Loading the speech model", 0.5)
    # Without OMP_NUM_THREADS the library takes four threads, also where there are only two cores.
    threads = 0 if os.environ.get("OMP_NUM_THREADS") else min(_MOST_THREADS, os.cpu_count() or 1)
    try:
        model = WhisperModel(
            str(folder), device="cpu", compute_type="int8", cpu_threads=threads, local_files_only=True
        )
    except (RuntimeError, ValueError, OSError, IndexError, MemoryError) as error:
        raise _damaged(folder, "model.bin", str(error)) from error
    info = ModelInfo(
        model_id=command.model_id,
        title=title_of(folder),
        kind="speech",
        family="whisper",
        folder=str(folder),
        device=DEVICE,
        simulated=False,
        layout=None,
        context_length=_WINDOW_SECONDS,
        prefill_chunk=0,
        load_seconds=time.perf_counter() - started,
        languages=tuple(model.supported_languages),
    )
    return FasterWhisper(model, info)


def _check(folder: Path) -> None:
    """A missing or broken tokenizer would make the library ask the model hub for one."""
    missing = [
        name for name in ("model.bin", "config.json", "tokenizer.json") if not (folder / name).is_file()
    ]
    if missing:
        raise ModelIncompleteError(
            f"The speech model in {folder} has no {' and no '.join(missing)}.",
            remedy="Fetch the model again in the Models pane.",
            unharmed="Other models and your transcripts are unharmed.",
        )
    for name, key in (("config.json", "suppress_ids"), ("tokenizer.json", "model")):
        try:
            read_object(folder / name)[key]
        except (OSError, ValueError, KeyError) as error:
            raise _damaged(folder, name, f"{type(error).__name__}: {error}") from error


def _damaged(folder: Path, name: str, detail: str) -> ModelDamagedError:
    return ModelDamagedError(
        f"The file {name} of the speech model in {folder} is damaged.",
        remedy="Fetch the model again in the Models pane.",
        unharmed="Other models and your transcripts are unharmed.",
        detail=detail,
    )
