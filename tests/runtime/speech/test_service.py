"""The speech lane on the real tiny.en: right words for every file, and each failure stays with its file."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import numpy as np
import pytest

from runtime.messages import (
    Cancelled,
    Event,
    Failed,
    ModelFailed,
    ModelLoaded,
    ModelLoading,
    ModelUnloaded,
    Queued,
    Segment,
    SegmentReady,
    Transcribed,
    TranscribeProgress,
)
from runtime.speech.job import NO_SPEECH
from runtime.tracing.recorder import RECORDER, SPAN
from tests.runtime.audio.media import RATE, SAMPLE, SPOKEN, clip, damage, encode, video_only, write_wav
from tests.runtime.speech.conftest import SpeechLane
from tests.runtime.speech.words import text_of, word_errors

TINY = "whisper-tiny.en"


@pytest.fixture
def ready(lane: SpeechLane, demo_models: Path) -> SpeechLane:
    lane.load(demo_models / TINY)
    return lane


def transcribed(lane: SpeechLane, request_id: str) -> Transcribed:
    event = lane.final(request_id)
    assert isinstance(event, Transcribed), event
    return event


def check_times(segments: tuple[Segment, ...], duration: float) -> None:
    edges = [edge for segment in segments for edge in (segment.start, segment.end)]
    assert edges == sorted(edges)
    assert edges[-1] <= duration + 0.001
    for segment in segments:
        assert segment.end > segment.start
        inside = [edge for word in segment.words for edge in (word.start, word.end)]
        assert all(segment.start <= edge <= segment.end for edge in inside)


def test_the_sample_gives_its_words_with_times_and_progress(ready: SpeechLane) -> None:
    ready.transcribe("a", SAMPLE)
    result = transcribed(ready, "a")
    assert word_errors(SPOKEN, text_of(result.segments)) == 0
    assert result.duration == 11.0
    assert result.language == "en"
    assert result.engine == "Whisper tiny.en · host CPU"
    assert result.warnings == ()
    check_times(result.segments, 11.0)
    assert result.segments[0].words
    assert tuple(event.segment for event in ready.of(SegmentReady)) == result.segments
    progress = ready.of(TranscribeProgress)
    assert [event.position for event in progress] == sorted(event.position for event in progress)
    assert {event.duration for event in progress} == {11.0}
    loaded = ready.of(ModelLoaded)[0].info
    assert (loaded.kind, loaded.device, loaded.simulated, loaded.languages) == (
        "speech",
        "host CPU",
        False,
        ("en",),
    )
    assert ready.of(ModelLoading)


@pytest.mark.parametrize(
    ("suffix", "container", "codec", "rate", "layout"),
    [
        ("mp3", "mp3", "libmp3lame", 44_100, "stereo"),
        ("wav", "wav", "pcm_alaw", 8_000, "mono"),
        ("wav", "wav", "pcm_u8", 8_000, "mono"),
        ("wav", "wav", "pcm_f64le", 96_000, "mono"),
        ("wav", "wav", "pcm_s16le", 48_000, "5.1"),
        ("webm", "webm", "libopus", 48_000, "stereo"),
    ],
)
def test_the_words_do_not_depend_on_the_format(
    ready: SpeechLane, tmp_path: Path, suffix: str, container: str, codec: str, rate: int, layout: str
) -> None:
    path = encode(tmp_path / f"clip.{suffix}", clip(), codec, rate=rate, layout=layout, container=container)
    ready.transcribe("a", path)
    assert word_errors(SPOKEN, text_of(transcribed(ready, "a").segments)) <= 0.05


def test_a_damaged_file_is_transcribed_with_a_warning(ready: SpeechLane, tmp_path: Path) -> None:
    path = damage(encode(tmp_path / "한국어 😀 [x].mp3", clip(), "libmp3lame", container="mp3"))
    ready.transcribe("a", path)
    result = transcribed(ready, "a")
    assert result.duration >= 10.5
    assert "damaged packet" in result.warnings[0]
    assert word_errors(SPOKEN, text_of(result.segments)) <= 0.1


def test_bad_files_fail_alone_and_in_words(ready: SpeechLane, tmp_path: Path) -> None:
    (tmp_path / "zero.mp3").touch()
    (tmp_path / "letter.wav").write_text("hello")
    video_only(tmp_path / "film.mp4")
    bad = ("zero.mp3", "letter.wav", "film.mp4", "gone.flac")
    for name in bad:
        ready.transcribe(name, tmp_path / name)
    ready.transcribe("good", SAMPLE)
    assert word_errors(SPOKEN, text_of(transcribed(ready, "good").segments)) == 0
    for name in bad:
        failed = ready.final(name)
        assert isinstance(failed, Failed)
        assert name in failed.error.summary
        assert failed.error.remedy
        assert "Traceback" not in failed.error.sentence()


@pytest.mark.parametrize("kind", ["zeros", "noise", "clicks"])
def test_no_voice_gives_no_words(ready: SpeechLane, tmp_path: Path, kind: str) -> None:
    count = 30 * RATE
    sound = {
        "zeros": np.zeros(count, np.float32),
        "noise": np.random.default_rng(2).standard_normal(count).astype(np.float32) * 0.1,
        "clicks": np.where(np.arange(count) % RATE < 8, 0.9, 0).astype(np.float32),
    }[kind]
    ready.transcribe("a", write_wav(tmp_path / "still.wav", sound))
    result = transcribed(ready, "a")
    assert result.segments == ()
    assert result.language == ""
    assert result.warnings == (NO_SPEECH,)
    assert result.duration == 30.0


@pytest.mark.parametrize("seconds", [1.1, 1.54, 2.0])
def test_nothing_ends_after_the_sound(ready: SpeechLane, tmp_path: Path, seconds: float) -> None:
    """faster-whisper#1334: tiny.en says 2.0 for a clip of 1.1 s."""
    sound = clip()[int(0.3 * RATE) : int((0.3 + seconds) * RATE)]
    ready.transcribe("a", write_wav(tmp_path / "short.wav", sound))
    result = transcribed(ready, "a")
    assert result.segments
    check_times(result.segments, result.duration)


def test_a_long_file_with_pauses_keeps_its_words_and_their_places(ready: SpeechLane, tmp_path: Path) -> None:
    pause = np.zeros(10 * RATE, np.float32)
    ready.transcribe("a", write_wav(tmp_path / "long.wav", np.concatenate([clip(), pause] * 4)))
    result = transcribed(ready, "a")
    assert word_errors(" ".join([SPOKEN] * 4), text_of(result.segments)) <= 0.05
    check_times(result.segments, result.duration)
    for number in range(4):
        begins = [segment.start for segment in result.segments if segment.start >= number * 21.0 - 0.6]
        # The voice begins 0.3 s into the clip; a cue never stands in the pause before it.
        assert begins[0] == pytest.approx(number * 21.0 + 0.3, abs=0.5)


def test_the_last_word_is_there_without_silence_after_it(ready: SpeechLane, tmp_path: Path) -> None:
    ready.transcribe("a", write_wav(tmp_path / "cut.wav", clip()[: int(10.2 * RATE)]))
    result = transcribed(ready, "a")
    assert text_of(result.segments).rstrip(".").endswith("country")
    assert result.duration == pytest.approx(10.2)


def test_cancel_ends_the_file_within_a_window_and_the_next_runs(ready: SpeechLane, tmp_path: Path) -> None:
    path = write_wav(tmp_path / "long.wav", np.concatenate([clip()] * 40))

    def cancel_at_first_words(event: Event) -> None:
        if isinstance(event, SegmentReady) and event.request_id == "a":
            ready.marks.cancel("a")

    ready.watch = cancel_at_first_words
    ready.transcribe("a", path)
    ready.transcribe("b", SAMPLE)
    assert isinstance(ready.final("a"), Cancelled)
    assert ready.of(SegmentReady)[0].request_id == "a"
    heard = [event for event in ready.of(SegmentReady) if event.request_id == "a"]
    assert len(heard) == 1
    assert word_errors(SPOKEN, text_of(transcribed(ready, "b").segments)) == 0
    assert not ready.marks.is_cancelled("a")


def test_a_waiting_file_is_cancelled_at_once(ready: SpeechLane, tmp_path: Path) -> None:
    def cancel_the_waiting_one(event: Event) -> None:
        if isinstance(event, TranscribeProgress) and event.request_id == "a":
            ready.marks.cancel("b")

    ready.watch = cancel_the_waiting_one
    ready.transcribe("a", write_wav(tmp_path / "long.wav", np.concatenate([clip()] * 4)))
    ready.transcribe("b", SAMPLE)
    ready.transcribe("c", SAMPLE)
    transcribed(ready, "c")
    ended = [event.request_id for event in ready.events if isinstance(event, (Transcribed, Cancelled))]
    assert ended == ["b", "a", "c"]


def test_waiting_files_know_their_place(ready: SpeechLane) -> None:
    for name in ("a", "b", "c"):
        ready.transcribe(name, SAMPLE)
    transcribed(ready, "c")
    said = [event for event in ready.of(Queued) if event.request_id == "c" and event.cause != "loading"]
    places = [event.position for event in said]
    assert places == sorted(places, reverse=True)
    assert places[-1] == 1
    assert len(places) == len(set(places))


def test_a_model_is_unloaded_after_the_files_that_wait(ready: SpeechLane) -> None:
    ready.transcribe("a", SAMPLE)
    ready.unload()
    ready.transcribe("b", SAMPLE)
    failed = ready.final("b")
    assert isinstance(ready.final("a"), Transcribed)
    assert len(ready.of(ModelUnloaded)) == 1
    assert isinstance(failed, Failed)
    assert failed.error.code == "request.model_not_loaded"


def test_without_a_model_the_file_says_what_is_missing(lane: SpeechLane) -> None:
    lane.transcribe("a", SAMPLE)
    failed = lane.final("a")
    assert isinstance(failed, Failed)
    assert failed.error.code == "request.model_not_loaded"
    assert "jfk.flac" in failed.error.summary


def test_a_language_the_model_does_not_know_is_refused(ready: SpeechLane) -> None:
    ready.transcribe("a", SAMPLE, "fr")
    failed = ready.final("a")
    assert isinstance(failed, Failed)
    assert "“fr”" in failed.error.summary
    ready.transcribe("b", SAMPLE, "en", word_times=False)
    assert all(not segment.words for segment in transcribed(ready, "b").segments)


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("model.bin", None, "has no model.bin"),
        ("tokenizer.json", None, "has no tokenizer.json"),
        ("model.bin", b"\x06\0\0\0garbage", "model.bin"),
        ("model.bin", b"", "model.bin"),
        ("tokenizer.json", b"{", "tokenizer.json"),
        ("config.json", b"not json", "config.json"),
    ],
)
def test_a_damaged_model_is_named_and_the_lane_goes_on(
    lane: SpeechLane, demo_models: Path, tmp_path: Path, name: str, content: bytes | None, words: str
) -> None:
    broken = tmp_path / "broken"
    broken.mkdir()
    for path in (demo_models / TINY).iterdir():
        if path.name != name:
            (broken / path.name).symlink_to(path)
    if content is not None:
        (broken / name).write_bytes(content)
    lane.load(broken)
    lane.load(demo_models / TINY)
    lane.transcribe("a", SAMPLE)
    assert transcribed(lane, "a").segments
    failed = lane.of(ModelFailed)[0]
    assert words in failed.error.sentence()
    assert failed.error.code in ("model.incomplete", "model.damaged")
    assert failed.error.remedy


@pytest.mark.parametrize(
    ("content", "code"),
    [
        (None, "model.not_found"),
        ({}, "model.incomplete"),
        ({"config.json": '{"model_type": "mobilint-llama"}'}, "model.unsupported"),
        ({"config.json": '{"model_type": "mobilint-qwen3_asr"}'}, "model.incomplete"),
        ({"config.json": '{"model_type": "mobilint-whisper"}'}, "model.incomplete"),
    ],
)
def test_folders_that_hold_no_speech_model(
    lane: SpeechLane, tmp_path: Path, content: dict[str, str] | None, code: str
) -> None:
    folder = tmp_path / "folder"
    if content is not None:
        folder.mkdir()
        for name, text in content.items():
            (folder / name).write_text(text)
    lane.load(folder)
    lane.transcribe("a", SAMPLE)
    lane.final("a")
    assert lane.of(ModelFailed)[0].error.code == code


def test_another_voice_and_text_than_the_sample(ready: SpeechLane, tmp_path: Path) -> None:
    espeak = shutil.which("espeak-ng")
    assert espeak, "espeak-ng is not installed"
    said = "The meeting starts at the station. Please bring the blue folder and the two letters."
    subprocess.run([espeak, "-s", "140", "-w", str(tmp_path / "said.wav"), said], check=True)
    ready.transcribe("a", tmp_path / "said.wav")
    assert word_errors(said, text_of(transcribed(ready, "a").segments)) <= 0.2


def test_the_work_is_on_the_recording(ready: SpeechLane) -> None:
    RECORDER.start(max_events=10_000, max_seconds=60)
    window = RECORDER._window
    try:
        ready.transcribe("a", SAMPLE)
        transcribed(ready, "a")
    finally:
        RECORDER.stop()
    assert window is not None
    names = {event[1] for event in window.drain() if event[0] == SPAN and event[5] == "a"}
    assert {"queue", "decode audio", "voice activity", "transcribe window"} <= names
