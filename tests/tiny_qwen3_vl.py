"""A Qwen3-VL checkpoint small enough for a test: random weights, byte-level tokens, the real processor."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from tests.tiny_qwen2_vl import byte_tokenizer


def make_checkpoint(folder: Path, *, tied: bool = False) -> Path:
    """Write a plain Hugging Face checkpoint and its processor into `folder`; returns the folder."""
    import torch
    from transformers import Qwen3VLConfig, Qwen3VLForConditionalGeneration

    processor = _processor()
    tokenizer = processor.tokenizer
    token = tokenizer.convert_tokens_to_ids
    config = Qwen3VLConfig(
        text_config={
            "hidden_size": 64,
            "intermediate_size": 96,
            "num_hidden_layers": 4,
            "num_attention_heads": 4,
            "num_key_value_heads": 2,
            "head_dim": 16,
            "vocab_size": len(tokenizer),
            "max_position_embeddings": 1024,
            "rope_parameters": {
                "rope_type": "default",
                "rope_theta": 10000.0,
                "mrope_section": [4, 2, 2],
                "mrope_interleaved": True,
            },
            "bos_token_id": token("<|endoftext|>"),
            "eos_token_id": token("<|im_end|>"),
            "pad_token_id": token("<|endoftext|>"),
        },
        vision_config={
            "depth": 4,
            "hidden_size": 32,
            "num_heads": 2,
            "intermediate_size": 48,
            "out_hidden_size": 64,
            "num_position_embeddings": 49,
            "deepstack_visual_indexes": [0, 1, 3],
        },
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=tied,
    )
    torch.manual_seed(0)
    model = Qwen3VLForConditionalGeneration(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # far from zero, so that every part shows in the output
            parameter.add_(torch.randn_like(parameter) * 0.15)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


def _processor() -> Any:
    from transformers import Qwen2VLImageProcessor, Qwen3VLProcessor, Qwen3VLVideoProcessor

    edges = {"shortest_edge": 32 * 32, "longest_edge": 1 << 20}
    return Qwen3VLProcessor(
        image_processor=Qwen2VLImageProcessor(
            patch_size=16, size=edges, image_mean=[0.5] * 3, image_std=[0.5] * 3
        ),
        tokenizer=byte_tokenizer(),
        video_processor=Qwen3VLVideoProcessor(size=edges),
        chat_template=byte_tokenizer().chat_template,
    )
