"""What a speech model must not get away with: words in silence, loops, times outside the sound."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from runtime.audio.times import clock
from runtime.audio.windows import Window
from runtime.messages import Segment, Word

_LOOP_REPEATS = 8
_LONGEST_LOOP = 8
_FASTEST_WORDS = 8.0
"""Words per second; nobody speaks faster for long."""
_UNSPACED = r"[\u0e00-\u0e7f\u3040-\u30ff\u3400-\u9fff\uf900-\ufaff]"
"""Thai, Japanese and Chinese, written without spaces: each character counts as a word in a loop."""
_STUCK_REPEATS = 16
_LONGEST_STUCK = 16
_SHORT_SPEECH = 0.5
_NO_SPEECH = 0.6


def clamp(segments: Iterable[Segment], window: Window) -> Iterator[Segment]:
    """Segments and words within the window, in order, each ending after it begins; empty ones left out."""
    floor = window.speech[0][0] if window.speech else window.start
    for segment in segments:
        text = segment.text.strip()
        if not text or floor >= window.end:
            continue
        start = round(min(max(segment.start, floor), window.end), 3)
        end = round(min(max(segment.end, start), window.end), 3)
        if end <= start:
            end = round(window.end, 3)
        words = tuple(_clamp_word(word, start, end) for word in segment.words if word.text.strip())
        floor = end
        yield Segment(start, end, text, words)


def invented(window: Window, no_speech: float) -> bool:
    """Whether text for this window is likely made up: hardly any voice, and the model itself doubts it."""
    return window.speech_seconds < _SHORT_SPEECH and no_speech > _NO_SPEECH


def doubt(segment: Segment) -> str:
    """In words, why the segment may be wrong; empty when nothing speaks against it. Text is never deleted."""
    text = segment.text.lower()
    words = re.findall(r"\w+", text)
    if _loops(re.findall(rf"{_UNSPACED}|(?:(?!{_UNSPACED})\w)+", text)):
        return f"The text at {clock(segment.start)} repeats itself; the sound there may be unclear."
    seconds = segment.end - segment.start
    if len(words) > 8 and seconds > 0 and len(words) / seconds > _FASTEST_WORDS:
        return f"The text at {clock(segment.start)} is longer than can be spoken there."
    return ""


def is_stuck(tokens: Sequence[int]) -> bool:
    """Whether an answer in the making repeats its last few tokens over and over, and will never end."""
    for size in range(1, _LONGEST_STUCK + 1):
        tail = tokens[-size * _STUCK_REPEATS :]
        if len(tail) == size * _STUCK_REPEATS and tail[size:] == tail[:-size]:
            return True
    return False


def _clamp_word(word: Word, start: float, end: float) -> Word:
    first = round(min(max(word.start, start), end), 3)
    return replace(word, start=first, end=round(min(max(word.end, first), end), 3), text=word.text.strip())


def _loops(words: list[str]) -> bool:
    """Whether a run of up to _LONGEST_LOOP words occurs _LOOP_REPEATS times without a break."""
    for size in range(1, _LONGEST_LOOP + 1):
        same = 0
        for index in range(size, len(words)):
            same = same + 1 if words[index] == words[index - size] else 0
            if same >= size * (_LOOP_REPEATS - 1):
                return True
    return False
