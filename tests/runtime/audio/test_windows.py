"""Speech is found the same however the stream is chopped, and never cut into windows that are too long."""

from __future__ import annotations

import numpy as np
import pytest
from faster_whisper.vad import get_vad_model

from runtime.audio.vad import FRAME, SileroVad, Span, SpeechFinder, VadOptions
from runtime.audio.windows import LONGEST_PAUSE, LONGEST_WINDOW, Window, Windower
from tests.runtime.audio.media import RATE, clip


@pytest.fixture(scope="module")
def vad() -> SileroVad:
    return SileroVad()


def silence(seconds: float) -> np.ndarray:
    return np.zeros(int(seconds * RATE), np.float32)


def windows(vad: SileroVad, sound: np.ndarray, block: int = RATE) -> list[Window]:
    windower = Windower(vad)
    found: list[Window] = []
    for start in range(0, len(sound), block):
        found += windower.feed(sound[start : start + block])
    return found + windower.finish()


def test_probabilities_equal_the_library_s_own_however_the_stream_is_cut(vad: SileroVad) -> None:
    sound = clip()[: len(clip()) // FRAME * FRAME]
    expected = get_vad_model()(sound).reshape(-1)
    vad.reset()
    assert np.abs(vad.probabilities(sound) - expected).max() < 1e-6
    vad.reset()
    pieces = [vad.probabilities(sound[start : start + FRAME]) for start in range(0, len(sound), FRAME)]
    assert np.abs(np.concatenate(pieces) - expected).max() < 1e-5


@pytest.mark.parametrize("block", [160, 5_000, RATE, 10**7])
def test_the_blocks_length_changes_nothing(vad: SileroVad, block: int) -> None:
    sound = np.concatenate((silence(2), clip(), silence(6), clip()))
    expected = windows(vad, sound, RATE)
    found = windows(vad, sound, block)
    assert [(window.start, window.end, window.speech) for window in found] == [
        (window.start, window.end, window.speech) for window in expected
    ]
    assert all(np.array_equal(one.samples, other.samples) for one, other in zip(found, expected, strict=True))


def test_a_window_is_the_sound_at_its_place(vad: SileroVad) -> None:
    sound = np.concatenate((silence(5), clip(), silence(8), clip(), silence(3)))
    found = windows(vad, sound)
    assert len(found) == 2
    for window in found:
        start = round(window.start * RATE)
        assert np.array_equal(window.samples, sound[start : start + len(window.samples)])
    # The first word begins about 0.3 s into the clip; padding starts a little before it.
    assert 4.9 <= found[0].start <= 5.4
    assert 23.9 <= found[1].start <= 24.4


def test_windows_are_in_order_bounded_and_hold_all_speech(vad: SileroVad) -> None:
    sound = np.concatenate([np.concatenate((clip(), silence(pause))) for pause in (0.2, 1, 0, 2, 0.5, 4, 1)])
    found = windows(vad, sound)
    ends = [window.end for window in found]
    assert all(window.end - window.start <= LONGEST_WINDOW for window in found)
    assert all(later.start >= end for later, end in zip(found[1:], ends, strict=False))
    heard = sum(window.speech_seconds for window in found)
    alone = sum(window.speech_seconds for window in windows(vad, clip()))
    assert heard == pytest.approx(7 * alone, rel=0.05)


def test_speech_without_any_pause_is_cut_at_quiet_places(vad: SileroVad) -> None:
    spoken = clip()[int(0.3 * RATE) : int(2.2 * RATE)]
    sound = np.concatenate([spoken] * 40)
    found = windows(vad, sound)
    assert all(window.end - window.start <= LONGEST_WINDOW for window in found)
    joined = np.concatenate([window.samples for window in found])
    start = round(found[0].start * RATE)
    assert np.array_equal(joined, sound[start : start + len(joined)])
    for window in found[:-1]:
        assert np.abs(window.samples[-400:]).mean() < np.abs(sound).mean() / 2


def test_long_silence_is_not_kept_inside_a_window(vad: SileroVad) -> None:
    sound = np.concatenate((clip(), silence(LONGEST_PAUSE + 1), clip()))
    assert len(windows(vad, sound)) == 2
    assert len(windows(vad, np.concatenate((clip(), silence(1), clip())))) == 1


@pytest.mark.parametrize("kind", ["zeros", "white", "clicks", "hum"])
def test_what_is_no_voice_gives_no_window(vad: SileroVad, kind: str) -> None:
    noise = np.random.default_rng(1)
    count = 20 * RATE
    if kind == "zeros":
        sound = silence(20)
    elif kind == "white":
        sound = (noise.standard_normal(count) * 0.1).astype(np.float32)
    elif kind == "clicks":
        sound = np.where(np.arange(count) % 8000 < 8, 0.8, 0.0).astype(np.float32)
    else:
        sound = (0.2 * np.sin(np.arange(count) * 2 * np.pi * 50 / RATE)).astype(np.float32)
    assert windows(vad, sound) == []


def test_a_windower_holds_no_more_than_a_window(vad: SileroVad) -> None:
    windower = Windower(vad)
    for _ in range(120):
        windower.feed(silence(1))
        assert len(windower._held) <= 2 * RATE
    for _ in range(8):
        windower.feed(clip())
        assert len(windower._held) <= (LONGEST_WINDOW + 11) * RATE


def test_spans_keep_their_padding_apart_and_ignore_clicks() -> None:
    finder = SpeechFinder(VadOptions(least_speech=0.1, hangover=0.4, padding=0.3))
    frames = np.zeros(200, np.float32)
    frames[10:12] = 0.9  # 64 ms: a click
    frames[40:60] = 0.9
    frames[75:87] = 0.9  # 0.48 s after: within both paddings
    spans = list(finder.feed(frames))
    assert len(spans) == 2
    assert spans[0].start == 40 * FRAME - int(0.3 * RATE)
    assert spans[0].end <= spans[1].start
    assert spans[1].end == 87 * FRAME + int(0.3 * RATE)


def test_speech_that_lasts_to_the_end_ends_with_the_sound() -> None:
    finder = SpeechFinder()
    list(finder.feed(np.full(50, 0.9, np.float32)))
    assert finder.finish(50 * FRAME - 100) == Span(0, 50 * FRAME - 100)
    assert finder.finish(50 * FRAME) is None
