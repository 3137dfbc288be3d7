"""What a speech model must not get away with."""

from __future__ import annotations

import numpy as np
import pytest

from runtime.audio.windows import Window
from runtime.messages import Segment, Word
from runtime.speech.guards import clamp, doubt, invented, is_stuck
from runtime.speech.timestamps import split_segments


def window(start: float = 10.0, seconds: float = 5.0) -> Window:
    samples = np.zeros(int(seconds * 16_000), np.float32)
    return Window(start, samples, ((start + 0.5, start + seconds),))


def test_segments_stay_within_the_window_and_in_order() -> None:
    wild = [
        Segment(9.0, 12.0, " Good ", (Word(8.0, 11.0, " Good"), Word(13.0, 99.0, " "))),
        Segment(11.0, 11.0, "morning"),
        Segment(14.0, 30.0, "everyone"),
        Segment(20.0, 31.0, "Thank you."),
        Segment(14.0, 14.5, "   "),
    ]
    kept = list(clamp(wild, window()))
    assert [segment.text for segment in kept] == ["Good", "morning"]
    assert kept[0] == Segment(10.5, 12.0, "Good", (Word(10.5, 11.0, "Good"),))
    assert kept[1].start == 12.0
    assert all(segment.end <= 15.0 for segment in kept)


def test_text_in_hardly_any_voice_is_dropped_only_when_the_model_doubts_it() -> None:
    short = Window(0.0, np.zeros(16_000, np.float32), ((0.0, 0.3),))
    assert invented(short, 0.9)
    assert not invented(short, 0.2)
    assert not invented(window(), 0.9)


@pytest.mark.parametrize(
    ("text", "doubted"),
    [
        ("go " * 8, True),
        ("thank you very much " * 9, True),
        ("谢谢" * 8, True),
        ("ありがとう" * 8, True),
        ("ขอบคุณ" * 8, True),
        ("我们今天下午三点在会议室开会讨论明年的预算和计划", False),
        ("ha ha ha no", False),
        ("Ask not what your country can do for you, ask what you can do for your country.", False),
    ],
)
def test_loops_are_flagged(text: str, doubted: bool) -> None:
    assert bool(doubt(Segment(80.0, 110.0, text))) is doubted


def test_speech_faster_than_a_mouth_is_flagged() -> None:
    text = "one two three four five six seven eight nine ten eleven twelve"
    assert "1:20" in doubt(Segment(80.0, 81.0, text))
    assert doubt(Segment(80.0, 86.0, text)) == ""


@pytest.mark.parametrize(
    ("tokens", "stuck"),
    [
        ([1, 2, 3, *[7] * 16], True),
        ([1, 2, 3, *[7] * 15], False),
        ([9, *[4, 5, 6] * 16], True),
        ([9, *[4, 5, 6] * 15], False),
        ([*[4, 5, 6] * 16, 9], False),
        ([*range(16)] * 16, True),
        ([*range(17)] * 16, False),
        ([], False),
    ],
)
def test_an_answer_that_only_repeats_itself_is_given_up(tokens: list[int], stuck: bool) -> None:
    assert is_stuck(tokens) is stuck


# Tokens below 100 are text, 100..109 special, from 110 on times of 20 ms each.
def split(tokens: list[int]) -> list[tuple[float, float, str]]:
    segments = split_segments(tokens, 110, 100, window(), lambda ids: ",".join(map(str, ids)))
    return [(round(segment.start, 2), round(segment.end, 2), segment.text) for segment in segments]


def test_times_of_tokens_become_times_of_the_file() -> None:
    assert split([101, 110, 1, 2, 160, 160, 3, 210, 100]) == [(10.0, 11.0, "1,2"), (11.0, 12.0, "3")]


def test_text_after_the_last_time_runs_to_the_end_of_the_window() -> None:
    assert split([101, 110, 1, 160, 160, 2, 3]) == [(10.0, 11.0, "1"), (11.0, 15.0, "2,3")]


def test_text_without_any_time_is_the_whole_window() -> None:
    assert split([101, 1, 2, 100]) == [(10.0, 15.0, "1,2")]


def test_no_text_gives_no_segment() -> None:
    assert split([101, 110, 160, 100]) == []
    assert split([]) == []
