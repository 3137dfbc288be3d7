"""What the tiny Qwen2-VL and Qwen3-VL checkpoints have in common: tokens, template, sizes, random weights."""

from __future__ import annotations

from pathlib import Path
from typing import Any

SPECIAL = (
    "<|endoftext|>",
    "<|im_start|>",
    "<|im_end|>",
    "<|vision_start|>",
    "<|vision_end|>",
    "<|image_pad|>",
    "<|video_pad|>",
)
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n"
    "{% if message['content'] is string %}{{ message['content'] }}{% else %}"
    "{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<|vision_start|><|image_pad|><|vision_end|>"
    "{% elif part['type'] == 'video' %}<|vision_start|><|video_pad|><|vision_end|>"
    "{% else %}{{ part['text'] }}{% endif %}{% endfor %}{% endif %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
"""The turns and picture marks of Qwen2-VL's own template."""
HIDDEN = 64


def byte_tokenizer() -> Any:
    """A token a byte, the marks of Qwen's templates, and the template."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    letters = sorted(pre_tokenizers.ByteLevel.alphabet())
    backend = Tokenizer(
        models.BPE(vocab={letter: number for number, letter in enumerate(letters)}, merges=[])
    )
    backend.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False)
    backend.decoder = decoders.ByteLevel()
    backend.add_special_tokens([AddedToken(text, special=True) for text in SPECIAL])
    return PreTrainedTokenizerFast(
        tokenizer_object=backend, eos_token="<|im_end|>", pad_token="<|endoftext|>", chat_template=TEMPLATE
    )


def save_checkpoint(
    folder: Path,
    model_class: Any,
    processor: Any,
    *,
    text: dict[str, Any],
    vision: dict[str, Any],
    rotary: dict[str, Any],
    tied: bool,
) -> Path:
    """Write a plain Hugging Face checkpoint of the class and its processor into `folder`; returns the folder.

    `text` and `vision` are what the two networks have beyond the common sizes, `rotary` how positions are
    divided.
    """
    import torch

    token = processor.tokenizer.convert_tokens_to_ids
    text_config = {
        "hidden_size": HIDDEN,
        "intermediate_size": 96,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": len(processor.tokenizer),
        "max_position_embeddings": 1024,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, **rotary},
        "bos_token_id": token("<|endoftext|>"),
        "eos_token_id": token("<|im_end|>"),
        "pad_token_id": token("<|endoftext|>"),
    }
    config = model_class.config_class(
        text_config=text_config | text,
        vision_config={"num_heads": 2, **vision},
        image_token_id=token("<|image_pad|>"),
        video_token_id=token("<|video_pad|>"),
        vision_start_token_id=token("<|vision_start|>"),
        vision_end_token_id=token("<|vision_end|>"),
        tie_word_embeddings=tied,
    )
    torch.manual_seed(0)
    model = model_class(config).eval()
    with torch.no_grad():
        for parameter in model.parameters():  # far from zero, so that every part shows in the output
            parameter.add_(torch.randn_like(parameter) * 0.15)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder
