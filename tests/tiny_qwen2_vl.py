"""A Qwen2-VL checkpoint small enough for a test: random weights, byte-level tokens, the real processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tiny_qwen_vl import HIDDEN, TEMPLATE, byte_tokenizer, save_checkpoint


def make_checkpoint(folder: Path, *, tied: bool = False) -> Path:
    """Write a plain Hugging Face checkpoint and its processor into `folder`; returns the folder."""
    from transformers import Qwen2VLForConditionalGeneration

    return save_checkpoint(
        folder,
        Qwen2VLForConditionalGeneration,
        _processor(),
        text={"num_hidden_layers": 2},
        vision={"depth": 2, "embed_dim": 32, "mlp_ratio": 2, "hidden_size": HIDDEN},
        rotary={"mrope_section": [2, 4, 2]},
        tied=tied,
    )


def _processor() -> Any:
    from transformers import Qwen2VLImageProcessor, Qwen2VLProcessor
    from transformers.models.qwen2_vl.video_processing_qwen2_vl import Qwen2VLVideoProcessor

    return Qwen2VLProcessor(
        image_processor=Qwen2VLImageProcessor(),
        tokenizer=byte_tokenizer(),
        video_processor=Qwen2VLVideoProcessor(),
        chat_template=TEMPLATE,
    )
