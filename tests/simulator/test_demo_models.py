"""The real SmolLM2 and the real Whisper tiny.en on the simulated device, against plain transformers."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from runtime.catalog.entries import DEMO_CHAT, DEMO_SPEECH_NPU
from runtime.device.active import vendor_stack
from runtime.families.vendor import dispose_model, new_slot_cache
from tests.simulator.checkpoints import greedy

PROMPTS = (
    "What is the capital of France?",
    "Write one sentence about the sea.",
    "Count from one to ten in English, then say goodbye to your friends in three polite ways.",
)
SPOKEN = "The quick brown fox jumps over the lazy dog. My name is Peter, and I live in London."

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def plain_smollm2(demo_checkpoints: Any) -> Any:
    from transformers import AutoModelForCausalLM

    return AutoModelForCausalLM.from_pretrained(demo_checkpoints.smollm2, dtype=torch.float32).eval()


@pytest.mark.parametrize("prompt", PROMPTS)
def test_smollm2_answers_token_for_token(
    prompt: str, demo_models: Path, plain_smollm2: Any, load: Callable[..., Any]
) -> None:
    from transformers import AutoTokenizer

    folder = demo_models / DEMO_CHAT
    tokenizer = AutoTokenizer.from_pretrained(str(folder))
    turns = [{"role": "user", "content": prompt}]
    ids = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
    model = load(folder, core_mode="global4", target_clusters=["0:0"])

    expected = greedy(plain_smollm2, ids, 24)
    cache = new_slot_cache(model)
    assert greedy(model, ids, 24, past_key_values=cache) == expected

    turns += [
        {"role": "assistant", "content": tokenizer.decode(expected, skip_special_tokens=True)},
        {"role": "user", "content": "Say it again, shorter."},
    ]
    more = tokenizer.apply_chat_template(turns, add_generation_prompt=True, return_dict=False)
    shared = next(
        (n for n, (one, two) in enumerate(zip(ids + expected, more, strict=False)) if one != two), len(ids)
    )
    cache.set_seq_length(min(shared, cache.get_seq_length()))
    assert greedy(model, more, 12, past_key_values=cache) == greedy(plain_smollm2, more, 12)


def spoken(text: str, path: Path) -> np.ndarray:
    """The text as 16 kHz samples, spoken by espeak-ng."""
    import soundfile
    import soxr

    subprocess.run(["espeak-ng", "-w", str(path), text], check=True)
    samples, rate = soundfile.read(path, dtype="float32")
    return soxr.resample(samples, rate, 16000)


@pytest.mark.parametrize("timestamps", [False, True])
def test_whisper_tiny_en_writes_the_same_words(
    timestamps: bool, demo_models: Path, demo_checkpoints: Any, tmp_path: Path
) -> None:
    vendor_stack()
    from transformers import (
        AutoModelForSpeechSeq2Seq,
        AutoTokenizer,
        WhisperFeatureExtractor,
        WhisperForConditionalGeneration,
    )

    folder = str(demo_models / DEMO_SPEECH_NPU)
    extractor = WhisperFeatureExtractor.from_pretrained(folder)
    features = extractor(
        spoken(SPOKEN, tmp_path / "spoken.wav"), sampling_rate=16000, return_tensors="pt"
    ).input_features
    model = AutoModelForSpeechSeq2Seq.from_pretrained(folder)
    plain = WhisperForConditionalGeneration.from_pretrained(demo_checkpoints.whisper, dtype=torch.float32)

    with torch.inference_mode():
        ours, theirs = (
            one.generate(features, num_beams=1, return_timestamps=timestamps)[0].tolist()
            for one in (model, plain)
        )
    dispose_model(model)

    assert ours == theirs
    text = AutoTokenizer.from_pretrained(folder).decode(ours, skip_special_tokens=True)
    assert "My name is Peter and I live in London." in text
