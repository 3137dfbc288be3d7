"""Whisper through the vendor's classes on the simulated device, against plain transformers."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from runtime.audio.pcm import SAMPLE_RATE
from runtime.audio.vad import SileroVad
from runtime.audio.windows import Window, Windower
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    Cancelled,
    Event,
    LoadSpeech,
    ModelFailed,
    ModelLoaded,
    SegmentReady,
    Transcribed,
)
from runtime.speech.engine import TAIL_SECONDS
from runtime.speech.npu_whisper import load_npu_whisper
from runtime.tracing.recorder import RECORDER
from tests.runtime.audio.media import SAMPLE, SPOKEN, clip, write_wav
from tests.runtime.conftest import Calls
from tests.runtime.speech.conftest import SpeechLane, calls_until_the_end, failure_of_bad_numbers
from tests.runtime.speech.words import text_of, word_errors

TINY = "whisper-tiny.en-sim"
LANGUAGES = {"<|en|>": 50258, "<|ko|>": 50263}


def first_window() -> Window:
    windower = Windower(SileroVad())
    return [*windower.feed(clip()), *windower.finish()][0]


def plain_text(checkpoint: Path, window: Window) -> str:
    """What plain transformers hears in the window, greedily, without times."""
    from transformers import AutoTokenizer, WhisperFeatureExtractor, WhisperForConditionalGeneration

    model: Any = WhisperForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.float32)
    features = WhisperFeatureExtractor.from_pretrained(checkpoint)
    tail = np.zeros(int(TAIL_SECONDS * SAMPLE_RATE), np.float32)
    samples = np.concatenate((window.samples, tail))
    inputs = features(samples, sampling_rate=SAMPLE_RATE, return_tensors="pt").input_features
    with torch.inference_mode():
        tokens = model.generate(inputs, num_beams=1, return_timestamps=True)
    text: str = AutoTokenizer.from_pretrained(checkpoint).decode(tokens[0], skip_special_tokens=True)
    return " ".join(text.split())


def test_the_simulated_device_hears_what_plain_transformers_hears(
    lane: SpeechLane, demo_models: Path, demo_checkpoints: Any
) -> None:
    lane.load(demo_models / TINY)
    lane.transcribe("a", SAMPLE)
    result = lane.final("a")
    assert isinstance(result, Transcribed), result
    assert text_of(result.segments) == plain_text(demo_checkpoints.whisper, first_window())
    assert word_errors(SPOKEN, text_of(result.segments)) == 0
    assert result.engine == "Whisper tiny.en · Simulated ARIES (CPU)"
    assert result.duration == 11.0
    assert 0 <= result.segments[0].start < 0.6
    assert result.segments[-1].end <= 11.0
    info = lane.of(ModelLoaded)[0].info
    assert info.simulated
    assert info.layout is not None
    assert info.layout.board == "aries-rb"


@pytest.fixture(scope="module")
def multilingual(demo_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The English model told that it knows Korean as well; its tokens have all languages."""
    folder = Path(shutil.copytree(demo_models / TINY, tmp_path_factory.mktemp("models") / "multilingual"))
    path = folder / "generation_config.json"
    config = json.loads(path.read_text())
    config |= {"is_multilingual": True, "lang_to_id": LANGUAGES, "task_to_id": {"transcribe": 50358}}
    path.write_text(json.dumps(config))
    return folder


def test_the_language_is_the_one_that_plain_transformers_finds(
    multilingual: Path, demo_checkpoints: Any
) -> None:
    from transformers import WhisperFeatureExtractor, WhisperForConditionalGeneration

    command = LoadSpeech("a", str(multilingual), LayoutRequest())
    engine = load_npu_whisper(command, "simulated", lambda _stage, _fraction: None)
    guess = engine.guess_language(first_window(), lambda: False)
    engine.close()
    checkpoint = demo_checkpoints.whisper
    plain: Any = WhisperForConditionalGeneration.from_pretrained(checkpoint, dtype=torch.float32)
    features = WhisperFeatureExtractor.from_pretrained(checkpoint)
    inputs = features(first_window().samples, sampling_rate=SAMPLE_RATE, return_tensors="pt").input_features
    start = torch.tensor([[plain.generation_config.decoder_start_token_id]])
    with torch.inference_mode():
        logits = plain(input_features=inputs, decoder_input_ids=start).logits[0, -1]
    chances = logits[list(LANGUAGES.values())].softmax(-1)
    assert guess.code == ("en", "ko")[int(chances.argmax())]
    assert guess.probability == pytest.approx(float(chances.max()), abs=0.05)


@pytest.mark.parametrize("call", [1, 2, 3, 4, 5])
def test_a_cancel_lets_no_other_call_of_the_device_begin(
    lane: SpeechLane, multilingual: Path, calls: Calls, call: int
) -> None:
    """Two calls find out the language, the third hears the window again, all others are words."""
    lane.load(multilingual)
    assert calls_until_the_end(lane, calls, call) == call


@pytest.mark.parametrize("call", [1, 2, 9])
def test_nor_where_the_language_is_known(
    lane: SpeechLane, demo_models: Path, calls: Calls, call: int
) -> None:
    lane.load(demo_models / TINY)
    assert calls_until_the_end(lane, calls, call) == call


def test_cancel_ends_a_window_between_tokens(lane: SpeechLane, demo_models: Path, tmp_path: Path) -> None:
    lane.load(demo_models / TINY)
    path = write_wav(tmp_path / "long.wav", np.concatenate([clip()] * 20))

    def cancel_at_first_words(event: Event) -> None:
        if isinstance(event, SegmentReady):
            lane.marks.cancel("a")

    lane.watch = cancel_at_first_words
    lane.transcribe("a", path)
    assert isinstance(lane.final("a"), Cancelled)
    lane.watch = lambda event: None
    lane.transcribe("b", SAMPLE)
    after = lane.final("b")
    assert isinstance(after, Transcribed)
    assert word_errors(SPOKEN, text_of(after.segments)) == 0


def test_bad_numbers_fail_the_file_in_words_and_no_other(lane: SpeechLane, demo_models: Path) -> None:
    lane.load(demo_models / TINY)
    assert failure_of_bad_numbers(lane).code == "request.bad_logits"


def test_a_cancelled_generation_gives_no_words(lane: SpeechLane, demo_models: Path) -> None:
    """The mark is set while tokens are being made: the window's words are not posted."""
    lane.load(demo_models / TINY)
    original = RECORDER.span

    def cancelling(name: str, /, *args: Any, **kwargs: Any) -> Any:
        if name == "transcribe window":
            lane.marks.cancel("a")
        return original(name, *args, **kwargs)

    RECORDER.span = cancelling  # type: ignore[method-assign]
    try:
        lane.transcribe("a", SAMPLE)
        assert isinstance(lane.final("a"), Cancelled)
    finally:
        RECORDER.span = original  # type: ignore[method-assign]
    assert lane.of(SegmentReady) == []


@pytest.mark.parametrize(
    ("name", "content", "named"),
    [
        ("encoder.mxq", None, "encoder.mxq"),
        ("decoder.mxq", b"junk", "decoder.mxq"),
        ("tokenizer.json", b"{", "tokenizer"),
        ("model.safetensors", b"junk", "model.safetensors"),
        ("generation_config.json", b'{"eos_token_id": 50256}', "generation_config.json"),
    ],
)
def test_a_damaged_artifact_is_named(
    lane: SpeechLane, demo_models: Path, tmp_path: Path, name: str, content: bytes | None, named: str
) -> None:
    broken = Path(shutil.copytree(demo_models / TINY, tmp_path / "broken"))
    (broken / name).unlink()
    if content is not None:
        (broken / name).write_bytes(content)
    lane.load(broken)
    lane.transcribe("a", SAMPLE)
    lane.final("a")
    error = lane.of(ModelFailed)[0].error
    assert error.code.startswith("model"), error
    assert error.remedy
    assert named in error.summary
