"""LFM2-Audio as a speech model of the app, against the same network put together from transformers' parts."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

from runtime.audio.vad import SileroVad
from runtime.audio.windows import Windower
from runtime.layout.request import LayoutRequest, PartLayout
from runtime.messages import LoadSpeech, ModelLoaded, Transcribed
from runtime.simulator.build import build_artifact
from runtime.speech.npu_lfm2_audio import load_npu_lfm2_audio
from tests.runtime.audio.media import SAMPLE, clip
from tests.runtime.conftest import Calls, Networks
from tests.runtime.speech.conftest import SpeechLane, calls_until_the_end, failure_of_bad_numbers
from tests.simulator.lfm2_audio import MELS, SOUND, Reference, make_reference, write_checkpoint

WORDS = 73
END = 7
STEP = 160 * 8


@pytest.fixture(scope="module")
def reference() -> Reference:
    return make_reference()


def make_processor() -> Any:
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast
    from transformers_mblt.models.lfm2_audio.processing_lfm2_audio import (
        MobilintLfm2AudioFeatureExtractor,
        MobilintLfm2AudioProcessor,
    )

    marks = {SOUND: "<|reserved_6|>", END: "<|im_end|>", 6: "<|im_start|>", 1: "<|startoftext|>"}
    words = {marks.get(number, f"w{number}"): number for number in range(WORDS)}
    backend = Tokenizer(models.WordLevel(words, unk_token="w0"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    backend.add_special_tokens([AddedToken(mark, special=True) for mark in marks.values()])
    tokenizer = PreTrainedTokenizerFast(
        tokenizer_object=backend, bos_token="<|startoftext|>", eos_token="<|im_end|>"
    )
    return MobilintLfm2AudioProcessor(MobilintLfm2AudioFeatureExtractor(feature_size=MELS), tokenizer)


@pytest.fixture(scope="module")
def folder(reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from runtime.device.active import activate, vendor_stack

    activate("simulated")
    vendor_stack()
    source = write_checkpoint(reference, tmp_path_factory.mktemp("lfm2") / "checkpoint")
    build_artifact(source, source.parent / "artifact", prefill_chunk=64, context_length=512)
    make_processor().save_pretrained(source.parent / "artifact")
    return source.parent / "artifact"


def expected(reference: Reference) -> list[str]:
    """What the reference writes of each window of the sample, up to the end it draws."""
    windower = Windower(SileroVad(), longest=9.0)
    processor = make_processor()
    texts = []
    for window in (*windower.feed(clip()), *windower.finish()):
        samples = np.pad(window.samples, (0, -len(window.samples) % STEP))
        batch = processor(audio=samples, sampling_rate=16_000)
        frames = int(batch["feature_attention_mask"].sum())
        embedded = reference.embed(batch["input_ids"][0].tolist(), batch["input_features"][..., :frames])
        tokens = reference.transcribe(embedded, 40)
        end = tokens.index(END) if END in tokens else None
        texts.append(processor.decode(tokens[:end], skip_special_tokens=True))
    return texts


def test_each_window_is_a_line_with_the_references_words(
    lane: SpeechLane, folder: Path, reference: Reference
) -> None:
    lane.load(folder)
    lane.transcribe("a", SAMPLE)
    result = lane.final("a")
    assert isinstance(result, Transcribed), result
    lines, wanted = [segment.text for segment in result.segments], expected(reference)
    assert len(lines) == len(wanted) == 2, "eleven seconds are two windows of ten"
    for line, text in zip(lines, wanted, strict=True):
        assert line[: len(text)] == text, "the reference was asked for 40 tokens at most"
        assert len(set(text.split())) > 4, "a model that repeats itself proves little"
    assert all(segment.end - segment.start <= 9.0 for segment in result.segments)
    info = lane.of(ModelLoaded)[0].info
    assert (info.kind, info.family, info.languages) == ("speech", "lfm2_audio", ("en",))
    assert info.layout is not None


@pytest.mark.parametrize("call", [1, 2, 3, 4, 9])
def test_a_cancel_lets_no_other_call_begin(lane: SpeechLane, folder: Path, calls: Calls, call: int) -> None:
    """One call hears, the next two read the prompt; others are words."""
    lane.load(folder)
    assert calls_until_the_end(lane, calls, call) == call
    lane.transcribe("b", SAMPLE)
    assert isinstance(lane.final("b"), Transcribed)


def test_bad_numbers_fail_the_file_in_words_and_no_other(lane: SpeechLane, folder: Path) -> None:
    lane.load(folder)
    assert failure_of_bad_numbers(lane).code == "request.bad_logits"


def test_the_three_networks_run_where_each_is_put(folder: Path, networks: Networks) -> None:
    cores = {"encoder": "0:0:3", "decoder": "0:1:2", "depthformer": "0:1:0"}
    parts = tuple(PartLayout(part, LayoutRequest("single", (core,))) for part, core in cores.items())
    command = LoadSpeech("a", str(folder), LayoutRequest(parts=parts))
    engine = load_npu_lfm2_audio(command, "simulated", lambda _stage, _fraction: None)
    assert networks() == {part: ("Single", [core[2:]]) for part, core in cores.items()}
    engine.close()
