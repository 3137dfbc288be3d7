"""A Qwen3-ASR checkpoint small enough for a test, and what the app needs of one beside its weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch

from runtime.simulator.build import build_artifact
from tests.simulator.checkpoints import unsettle

MELS, SOUND = 16, 7
"""Mel bands; the token that stands for sound."""
END = 1
WORDS = {
    "<|end|>": END,
    "<|im_start|>": 2,
    "system": 3,
    "<|im_end|>": 4,
    "user": 5,
    "<|audio_start|>": 6,
    "<|audio_pad|>": SOUND,
    "<|audio_end|>": 8,
    "assistant": 9,
    # What the talkative one says first of the sample, so that its answer opens as a trained one's does.
    "language": 73,
    "English": 88,
    "<asr_text>": 26,
    "Korean": 10,
}
VOCABULARY = 89


def configuration(positions: int = 256, **audio: Any) -> Any:
    from transformers import Qwen3ASRConfig

    # Where a window is one second, the reference hears as the vendor's compiled encoder does.
    settings = {"n_window": 50, "n_window_infer": 100, "num_mel_bins": MELS} | audio
    return Qwen3ASRConfig(
        audio_config={
            "d_model": 32,
            "encoder_layers": 2,
            "encoder_attention_heads": 4,
            "encoder_ffn_dim": 40,
            "output_dim": 48,
            "downsample_hidden_size": 6,
            "initializer_range": 0.25,
            **settings,
        },
        text_config={
            "vocab_size": VOCABULARY,
            "hidden_size": 48,
            "intermediate_size": 64,
            "num_hidden_layers": 3,
            "num_attention_heads": 6,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "max_position_embeddings": positions,
            "initializer_range": 0.25,
            "tie_word_embeddings": False,
        },
        tie_word_embeddings=False,
        audio_token_id=SOUND,
        pad_token_id=0,
        eos_token_id=[1],
    )


def make_stuck() -> Any:
    """A reference that says one word over and over."""
    from transformers import Qwen3ASRForConditionalGeneration

    torch.manual_seed(1)
    return unsettle(Qwen3ASRForConditionalGeneration(configuration(positions=512))).eval()


def make_talkative() -> Any:
    """One that says different words, which depend on the sound."""
    model = make_stuck()
    text = model.model.language_model
    with torch.no_grad():
        text.embed_tokens.weight.mul_(2)
        for layer in text.layers:
            layer.self_attn.q_norm.weight.mul_(10)
    return model


def make_tokenizer() -> Any:
    """One word a token: those of `WORDS`, all others w0, w1, …"""
    from tokenizers import AddedToken, Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    named = {number: word for word, number in WORDS.items()}
    words = {named.get(number, f"w{number}"): number for number in range(VOCABULARY)}
    backend = Tokenizer(models.WordLevel(words, unk_token="w0"))
    backend.pre_tokenizer = pre_tokenizers.WhitespaceSplit()
    marks = [word for word in WORDS if word.startswith("<|")]
    backend.add_special_tokens([AddedToken(mark, special=True) for mark in marks])
    backend.add_tokens([AddedToken("<asr_text>", special=False)])
    sound = {"audio_token": "audio_pad", "audio_bos_token": "audio_start", "audio_eos_token": "audio_end"}
    return PreTrainedTokenizerFast(
        tokenizer_object=backend,
        eos_token="<|end|>",
        extra_special_tokens={name: f"<|{mark}|>" for name, mark in sound.items()},
    )


def make_features() -> Any:
    from transformers import WhisperFeatureExtractor

    return WhisperFeatureExtractor(feature_size=MELS)


def make_artifact(reference: Any, folder: Path, **options: Any) -> Path:
    """An artifact of it, complete with a tokenizer and what makes spectrograms."""
    source = write_checkpoint(reference, folder / "checkpoint")
    build_artifact(source, folder / "qwen3-asr", **({"prefill_chunk": 64} | options))
    return folder / "qwen3-asr"


def write_checkpoint(reference: Any, folder: Path) -> Path:
    for part in (reference, make_tokenizer(), make_features()):
        part.save_pretrained(folder)
    return folder
