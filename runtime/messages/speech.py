"""Commands and events of transcription; the speech lane answers them."""

from __future__ import annotations

from dataclasses import dataclass

from runtime.messages.chat import Priority


@dataclass(frozen=True, slots=True)
class Word:
    """One recognised word; times in seconds from the start of the audio."""

    start: float
    end: float
    text: str
    probability: float = 1.0


@dataclass(frozen=True, slots=True)
class Segment:
    """One line of a transcript; times in seconds from the start of the audio."""

    start: float
    end: float
    text: str
    words: tuple[Word, ...] = ()


# -- commands -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Transcribe:
    """Transcribe one audio or video file with the loaded speech model."""

    request_id: str
    source: str
    language: str | None
    """ISO code, or None to detect."""
    word_times: bool
    submitted_ns: int
    priority: Priority = "background"
    """Files come one after the other; what somebody has just said goes before those that wait, and one that
    has begun gives way to it after the window it is in."""


# -- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SegmentReady:
    """One more transcript line."""

    request_id: str
    segment: Segment


@dataclass(frozen=True, slots=True)
class TranscribeProgress:
    """Seconds of audio dealt with; `duration` is None while the container does not say."""

    request_id: str
    position: float
    duration: float | None


@dataclass(frozen=True, slots=True)
class Transcribed:
    """A file is done. `warnings` names damaged packets and other things to know, in words."""

    request_id: str
    source: str
    duration: float
    language: str
    segments: tuple[Segment, ...]
    engine: str
    elapsed: float
    """Seconds of work on it; the time for which it gave way to others is not counted."""
    warnings: tuple[str, ...] = ()
