"""A Qwen3-VL checkpoint small enough for a test: random weights, byte-level tokens, the real processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tiny_qwen_vl import HIDDEN, TEMPLATE, byte_tokenizer, save_checkpoint


def make_checkpoint(folder: Path, *, tied: bool = False) -> Path:
    """Write a plain Hugging Face checkpoint and its processor into `folder`; returns the folder."""
    from transformers import Qwen3VLForConditionalGeneration

    return save_checkpoint(
        folder,
        Qwen3VLForConditionalGeneration,
        _processor(),
        text={"num_hidden_layers": 4, "head_dim": 16},
        vision={
            "depth": 4,
            "hidden_size": 32,
            "intermediate_size": 48,
            "out_hidden_size": HIDDEN,
            "num_position_embeddings": 49,
            "deepstack_visual_indexes": [0, 1, 3],
        },
        rotary={"mrope_section": [4, 2, 2], "mrope_interleaved": True},
        tied=tied,
    )


def _processor() -> Any:
    from transformers import Qwen2VLImageProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor

    edges = {"shortest_edge": 32 * 32, "longest_edge": 1 << 20}
    return Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(
            patch_size=16, size=edges, image_mean=[0.5] * 3, image_std=[0.5] * 3
        ),
        tokenizer=byte_tokenizer(),
        video_processor=Qwen3VLVideoProcessor(size=edges),
        chat_template=TEMPLATE,
    )
