"""Text of people and models on its way into a prompt: it is data, whatever it looks like."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any


def control_tokens(tokenizer: Any) -> tuple[str, ...]:
    """The texts that a tokenizer of transformers reads as a token steering the model, e.g. the end of a turn.

    Single characters are left out: they are ordinary text to everybody but the tokenizer.
    """
    added = tokenizer.added_tokens_decoder.values()
    return tuple(token.content for token in added if token.special and len(token.content) > 1)


def as_data(text: str, tokens: Iterable[str]) -> str:
    """The text with each of `tokens` broken up, so that it stays text, and without half characters.

    A lone surrogate (half of a pair, or a byte that was no UTF-8) is nothing a tokenizer takes: it becomes
    the replacement character.
    """
    text = text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    for token in tokens:
        text = text.replace(token, f"{token[0]}\N{ZERO WIDTH SPACE}{token[1:]}")
    return text
