"""Whisper's token stream into segments: text between timestamp tokens. No torch."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from runtime.audio.windows import Window
from runtime.messages import Segment

STEP = 0.02
"""Seconds per timestamp token."""


def split_segments(
    tokens: Sequence[int],
    first_timestamp: int,
    first_special: int,
    window: Window,
    decode: Callable[[list[int]], str],
) -> Iterator[Segment]:
    """Segments of one window in file time.

    `tokens` may hold the prompt and end tokens: everything from `first_special` on is no text, from
    `first_timestamp` on a time. Text after the last time runs to the window's end: a window ends in silence,
    so it is the end of a sentence and not a cut.
    """
    start: float | None = None
    text: list[int] = []
    for token in tokens:
        if token < first_special:
            text.append(token)
            continue
        if token < first_timestamp:
            continue
        moment = window.start + (token - first_timestamp) * STEP
        if text:
            yield Segment(window.start if start is None else start, moment, decode(text))
            text = []
        start = moment
    if text:
        yield Segment(window.start if start is None else start, window.end, decode(text))
