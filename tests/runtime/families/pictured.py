"""Conversations with pictures, and what plain transformers answer to them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch

from runtime.images import load_for_model
from runtime.messages import ImagePart, TextPart, Turn
from tests.simulator.pictures import noise


def user(text: str, *pictures: Path) -> Turn:
    """A question about pictures, which come before it."""
    return Turn("user", (*(ImagePart(str(path)) for path in pictures), TextPart(text)))


def said(text: str) -> Turn:
    """An answer."""
    return Turn("assistant", (TextPart(text),))


def saved(folder: Path, width: int, height: int, seed: int = 0) -> Path:
    """A picture of noise."""
    path = folder / f"{width}x{height}-{seed}.png"
    noise(width, height, seed).save(path)
    return path


def inputs_of(processor: Any, turns: Sequence[Turn], read: Callable[[str], Any] = load_for_model) -> Any:
    """What a plain model is given for the conversation; `read` decodes a picture's file."""
    messages = [
        {
            "role": turn.role,
            "content": [
                {"type": "text", "text": part.text} if isinstance(part, TextPart) else {"type": "image"}
                for part in turn.parts
            ],
        }
        for turn in turns
    ]
    text = processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True)
    pictures = [read(part.path) for turn in turns for part in turn.parts if isinstance(part, ImagePart)]
    return processor(text=[text], images=pictures or None, return_tensors="pt")


def plain_answer(plain: Any, processor: Any, turns: Sequence[Turn], most: int) -> str:
    """What a plain model answers greedily, in `most` tokens at most."""
    batch = inputs_of(processor, turns)
    with torch.inference_mode():
        tokens = plain.generate(**batch, max_new_tokens=most, do_sample=False)
    answer = tokens[0, batch["input_ids"].shape[1] :]
    return str(processor.tokenizer.decode(answer, skip_special_tokens=True))
