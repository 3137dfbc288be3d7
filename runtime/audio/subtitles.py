"""A transcript as text, SubRip, WebVTT, JSON or TSV; every form is valid also when nobody spoke."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Literal, get_args

from runtime.errors import storage_error
from runtime.messages import Segment, Transcribed, Word

TranscriptFormat = Literal["txt", "srt", "vtt", "json", "tsv"]
FORMATS: tuple[TranscriptFormat, ...] = get_args(TranscriptFormat)

_SHORTEST = 0.001
"""Seconds: a cue of no length is shown by no player."""


def tidy(segments: Sequence[Segment], duration: float | None = None) -> tuple[Segment, ...]:
    """Segments in order, within 0..duration, without overlaps and none shorter than a millisecond.

    A segment that begins before the former one's end begins there instead; text is never dropped,
    empty text is.
    """
    limit = float("inf") if duration is None else max(duration, _SHORTEST)
    tidied: list[Segment] = []
    floor = 0.0
    for segment in sorted(segments, key=lambda each: each.start):
        text = segment.text.strip()
        if not text:
            continue
        if floor + _SHORTEST > limit and tidied:
            last = tidied[-1]
            tidied[-1] = replace(last, text=f"{last.text} {text}", words=last.words + segment.words)
            continue
        start = min(max(segment.start, floor), limit - _SHORTEST)
        end = min(max(segment.end, start + _SHORTEST), limit)
        words = tuple(_clamp_word(word, start, end) for word in segment.words)
        tidied.append(Segment(start, end, text, words))
        floor = end
    return tuple(tidied)


def _clamp_word(word: Word, start: float, end: float) -> Word:
    first = min(max(word.start, start), end)
    return replace(word, start=first, end=min(max(word.end, first), end))


def render(result: Transcribed, form: TranscriptFormat) -> str:
    """The transcript in that form."""
    tidied = tidy(result.segments, result.duration)
    return _RENDERERS[form](replace(result, segments=tidied))


def write(result: Transcribed, target: Path, form: TranscriptFormat) -> None:
    """Write the transcript to `target`, whole or not at all. Raises StorageError."""
    partial = target.with_name(f".{target.name}.part")
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        partial.write_text(render(result, form), encoding="utf-8", newline="\n")
        partial.replace(target)
    except OSError as error:
        with contextlib.suppress(OSError):
            partial.unlink(missing_ok=True)
        raise storage_error(error, str(target), unharmed="The transcript itself is unharmed.") from None


def _stamp(seconds: float, separator: str) -> str:
    milliseconds = round(seconds * 1000)
    minutes, rest = divmod(milliseconds, 60_000)
    hours, minutes = divmod(minutes, 60)
    return f"{hours:02d}:{minutes:02d}:{rest // 1000:02d}{separator}{rest % 1000:03d}"


def _one_paragraph(text: str) -> str:
    """A blank line ends a cue, so there is none inside; an arrow would be read as a time line."""
    return " ".join(text.split()).replace("-->", "→")


def _text(result: Transcribed) -> str:
    return "".join(f"{segment.text}\n" for segment in result.segments)


def _subrip(result: Transcribed) -> str:
    cues = [
        f"{number}\n{_stamp(segment.start, ',')} --> {_stamp(segment.end, ',')}\n"
        f"{_one_paragraph(segment.text)}\n"
        for number, segment in enumerate(result.segments, start=1)
    ]
    return "\n".join(cues)


def _escape_vtt(text: str) -> str:
    return text.replace("&", "&amp;").replace("<", "&lt;").replace(">", "&gt;")


def _webvtt(result: Transcribed) -> str:
    cues = [
        f"\n{_stamp(segment.start, '.')} --> {_stamp(segment.end, '.')}\n"
        f"{_escape_vtt(_one_paragraph(segment.text))}\n"
        for segment in result.segments
    ]
    return "WEBVTT\n" + "".join(cues)


def as_json(result: Transcribed) -> dict[str, object]:
    """The transcript as plain values, for JSON."""
    return {
        "source": result.source,
        "duration": round(result.duration, 3),
        "language": result.language,
        "engine": result.engine,
        "warnings": list(result.warnings),
        "text": " ".join(segment.text for segment in result.segments),
        "segments": [_segment_json(segment) for segment in result.segments],
    }


def _segment_json(segment: Segment) -> dict[str, object]:
    words = [
        {
            "start": round(word.start, 3),
            "end": round(word.end, 3),
            "word": word.text,
            "probability": round(word.probability, 4),
        }
        for word in segment.words
    ]
    plain: dict[str, object] = {
        "start": round(segment.start, 3),
        "end": round(segment.end, 3),
        "text": segment.text,
    }
    return {**plain, "words": words} if words else plain


def _json(result: Transcribed) -> str:
    return json.dumps(as_json(result), ensure_ascii=False, indent=2) + "\n"


def _tsv(result: Transcribed) -> str:
    rows = [
        f"{round(segment.start * 1000)}\t{round(segment.end * 1000)}\t{' '.join(segment.text.split())}\n"
        for segment in result.segments
    ]
    return "start\tend\ttext\n" + "".join(rows)


_RENDERERS: dict[TranscriptFormat, Callable[[Transcribed], str]] = {
    "txt": _text,
    "srt": _subrip,
    "vtt": _webvtt,
    "json": _json,
    "tsv": _tsv,
}
