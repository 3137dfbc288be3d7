"""The language of a file, as it is found out window by window."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from runtime.audio.vad import SileroVad
from runtime.audio.windows import Window
from runtime.messages import Event, ModelInfo, Segment, SegmentReady, Transcribe, TranscribeProgress
from runtime.speech.engine import LanguageGuess, Task
from runtime.speech.job import TranscribeJob
from tests.runtime.audio.media import SAMPLE

PAUSE = 2.0
"""Seconds of silence, at most, between two windows of the sample."""


class Listener:
    """Hears six seconds at once, and guesses as it was told."""

    title = "Listener"
    languages = ("en", "ko")
    info = ModelInfo("l", "Listener", "speech", "l", "", "", True, None, 7, 0, languages=languages)

    def __init__(self, *guesses: LanguageGuess) -> None:
        self._guesses = iter(guesses)
        self.asked: list[str] = []

    def guess_language(self, window: Window, cancelled: Callable[[], bool]) -> LanguageGuess:
        del window, cancelled
        return next(self._guesses)

    def transcribe(self, window: Window, task: Task) -> Iterator[Segment]:
        self.asked.append(task.language)
        yield Segment(window.start, window.end, "words")

    def close(self) -> None:
        pass


@pytest.mark.parametrize(
    ("guesses", "asked", "language"),
    [
        ([("ko", 0.9)], ["ko", "ko"], "ko"),
        ([("ko", 0.3), ("en", 0.3)], ["ko", "en"], "en"),
        ([("ko", 0.3), ("", 0.0)], ["ko", ""], "ko"),
        ([("", 0.0), ("en", 0.9)], ["", "en"], "en"),
        ([("", 0.0), ("", 0.0)], ["", ""], ""),
    ],
)
def test_the_language_is_settled_once_a_model_is_sure(
    guesses: list[tuple[str, float]], asked: list[str], language: str
) -> None:
    listener = Listener(*(LanguageGuess(*guess) for guess in guesses))
    command = Transcribe("a", str(SAMPLE), None, False, 0)
    job = TranscribeJob(command, listener, SileroVad(), lambda event: None, lambda: False)
    while job.advance():
        pass
    assert listener.asked == asked
    assert job.result().language == language
    job.close()


def test_a_cancel_while_the_language_is_found_out_has_nothing_transcribed() -> None:
    marks: list[bool] = []

    class Interrupted(Listener):
        def guess_language(self, window: Window, cancelled: Callable[[], bool]) -> LanguageGuess:
            marks.append(True)
            return super().guess_language(window, cancelled)

    listener = Interrupted(LanguageGuess("ko", 0.9))
    command = Transcribe("a", str(SAMPLE), None, False, 0)
    job = TranscribeJob(command, listener, SileroVad(), lambda event: None, lambda: bool(marks))
    while job.advance():
        pass
    assert (len(marks), listener.asked) == (1, [])
    job.close()


def test_progress_follows_what_was_heard_not_what_was_read() -> None:
    """Its reader is a window ahead: a short file was at 100 % before a word of it was heard."""
    events: list[Event] = []
    listener = Listener(*(LanguageGuess("en", 0.9) for _ in range(2)))
    command = Transcribe("a", str(SAMPLE), None, False, 0)
    job = TranscribeJob(command, listener, SileroVad(), events.append, lambda: False)
    while job.advance():
        pass
    job.close()
    heard = 0.0
    first_word = next(event.segment.start for event in events if isinstance(event, SegmentReady))
    for event in events:
        if isinstance(event, SegmentReady):
            heard = event.segment.end
        elif isinstance(event, TranscribeProgress):
            assert event.position <= max(heard, first_word) + PAUSE
    assert heard > first_word + PAUSE
