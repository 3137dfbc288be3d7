"""How far a transcript is from what was said."""

from __future__ import annotations

import re

import jiwer

from runtime.messages import Segment


def text_of(segments: tuple[Segment, ...]) -> str:
    return " ".join(segment.text for segment in segments)


def word_errors(said: str, heard: str) -> float:
    """Word error rate without case and punctuation."""

    def plain(text: str) -> str:
        return " ".join(re.findall(r"[\w']+", text.lower()))

    return float(jiwer.wer(plain(said), plain(heard) or "∅"))
