"""LFM2-Audio on the NPU, real or simulated, asked to write down what is said.

The compiled encoder takes ten seconds, so windows are cut in silences at most that far apart. The model tells
no times: each window becomes one line.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np

from runtime.audio.pcm import SAMPLE_RATE, Samples
from runtime.audio.windows import Window
from runtime.config import DeviceChoice
from runtime.device.infers import ended_when
from runtime.families.base import Progress
from runtime.families.faults import device_faults
from runtime.families.opening import Opening
from runtime.families.vendor import dispose_model
from runtime.layout.request import from_pretrained_kwargs
from runtime.messages import LoadSpeech, ModelInfo, Segment
from runtime.speech.engine import LanguageGuess, Task
from runtime.speech.on_npu import refuse_bad_logits, speech_info
from runtime.tracing.recorder import RECORDER

_WINDOW_SECONDS = 10
_MOST_TOKENS = 256
"""Far more than anybody says in a window; a model that loops ends here."""
_ROLES = ("encoder_", "decoder_", "depthformer_")


class NpuLfm2Audio:
    """A loaded LFM2-Audio artifact."""

    def __init__(self, model: Any, processor: Any, info: ModelInfo) -> None:
        self._model = model
        self._processor = processor
        self.info = info
        self.title = f"{info.title} · {info.device}"
        self.languages = info.languages
        extractor = processor.feature_extractor
        self._whole = int(extractor.hop_length) * int(processor.subsampling_factor)

    def guess_language(self, window: Window, cancelled: Callable[[], bool]) -> LanguageGuess:
        """The one it knows."""
        del window, cancelled
        return LanguageGuess(self.languages[0], 1.0)

    def transcribe(self, window: Window, task: Task) -> Iterator[Segment]:
        """The window's words as one segment; none when cancelled or nothing was heard."""
        with RECORDER.span("transcribe window", request=task.request_id, seconds=window.end - window.start):
            text = self._text(window, task)
        if text and not task.cancelled():
            yield Segment(window.start, window.end, text)

    def close(self) -> None:
        """Give the device memory back."""
        dispose_model(self._model)

    def _text(self, window: Window, task: Task) -> str:
        import torch

        batch = self._processor(audio=self._padded(window.samples), sampling_rate=SAMPLE_RATE)
        asked = int(batch["input_ids"].shape[1])
        said: list[int] = []
        with ended_when(task.cancelled), torch.inference_mode(), device_faults(self.info.title):
            output = self._model.generate(
                **batch,
                do_sample=False,
                num_beams=1,
                max_new_tokens=_MOST_TOKENS,
                eos_token_id=int(self._model.config.im_end_token_id),
                logits_processor=refuse_bad_logits(self.info.title),
            )
            said = output[0, asked:].tolist()
        return str(self._processor.decode(said, skip_special_tokens=True)).strip()

    def _padded(self, samples: Samples) -> Samples:
        """The samples and silence up to a whole number of the encoder's steps: the vendor's class tells the
        compiled encoder the end of the sound in those. So it is also never shorter than 320 samples, which
        the encoder refuses."""
        return np.pad(samples, (0, -len(samples) % self._whole))


def load_npu_lfm2_audio(command: LoadSpeech, device: DeviceChoice, progress: Progress) -> NpuLfm2Audio:
    """Load the artifact. Raises ModelError, LayoutError or DeviceError with all the words."""
    folder = Path(command.folder)
    opening = Opening(folder, command.layout, device, progress)
    from transformers import AutoModelForSpeechSeq2Seq, AutoProcessor

    (processor,) = opening.read("its processor or tokenizer files", AutoProcessor)
    model = opening.load(AutoModelForSpeechSeq2Seq, from_pretrained_kwargs(opening.layout, _ROLES))
    info = speech_info(command, opening, model, "lfm2_audio", _WINDOW_SECONDS, ("en",))
    return NpuLfm2Audio(model, processor, info)
