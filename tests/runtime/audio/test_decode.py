"""Files of every kind come out as the same sound; bad ones are refused or mended in words."""

from __future__ import annotations

import os
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import soundfile

from runtime.audio.decode import BLOCK_SECONDS, AudioFile
from runtime.audio.pcm import to_float, to_mono
from runtime.errors import AudioError
from tests.runtime.audio.media import RATE, SAMPLE, clip, damage, encode, video_only, write_wav

ENCODED = [
    ("mp3", "mp3", "libmp3lame", 44_100, "stereo"),
    ("m4a", "ipod", "aac", 44_100, "stereo"),
    ("mp4", "mp4", "aac", 48_000, "mono"),
    ("aac", "adts", "aac", 44_100, "mono"),
    ("opus", "ogg", "libopus", 48_000, "mono"),
    ("webm", "webm", "libopus", 48_000, "stereo"),
    ("mkv", "matroska", "pcm_s16le", 44_100, "stereo"),
    ("flac", "flac", "flac", 48_000, "7.1"),
    ("mp2", "mp2", "mp2", 44_100, "stereo"),
    ("amr", "amr", "libopencore_amrnb", 8_000, "mono"),
    ("wav", "wav", "pcm_alaw", 8_000, "mono"),
    ("wav", "wav", "pcm_u8", 8_000, "mono"),
    ("wav", "wav", "pcm_s24le", 48_000, "stereo"),
    ("wav", "wav", "pcm_f32le", 22_050, "mono"),
    ("wav", "wav", "pcm_f64le", 96_000, "mono"),
    ("wav", "wav", "pcm_s16le", 48_000, "5.1"),
]


def read(path: Path) -> tuple[np.ndarray, AudioFile]:
    with AudioFile(path) as file:
        return np.concatenate(list(file.blocks())), file


def likeness(sound: np.ndarray, reference: np.ndarray) -> float:
    """Correlation of the loudness over time, in steps of 200 ms: blind to level, phase and small shifts."""
    step = RATE // 5

    def loudness(samples: np.ndarray) -> np.ndarray:
        count = min(len(sound), len(reference)) // step
        return np.abs(samples[: count * step]).reshape(count, step).mean(axis=1)

    return float(np.corrcoef(loudness(sound), loudness(reference))[0, 1])


@pytest.mark.parametrize("kind", ENCODED, ids=lambda kind: f"{kind[2]}-{kind[3]}-{kind[4]}")
def test_every_format_gives_the_same_sound(tmp_path: Path, kind: tuple[str, str, str, int, str]) -> None:
    suffix, container, codec, rate, layout = kind
    path = encode(tmp_path / f"clip.{suffix}", clip(), codec, rate=rate, layout=layout, container=container)
    sound, file = read(path)
    assert sound.dtype == np.float32
    assert len(sound) / RATE == pytest.approx(11.0, abs=0.1)
    assert file.position == pytest.approx(len(sound) / RATE)
    assert likeness(sound, clip()) > 0.97
    assert file.warnings == ()


def test_vorbis_from_libsndfile(tmp_path: Path) -> None:
    path = tmp_path / "clip.ogg"
    soundfile.write(path, clip(), RATE, format="OGG", subtype="VORBIS")
    sound, _ = read(path)
    assert likeness(sound, clip()) > 0.99


def test_the_sample_clip_is_read_exactly() -> None:
    sound, file = read(SAMPLE)
    assert file.duration == 11.0
    assert np.abs(sound - clip()).max() < 1e-4


def test_blocks_are_of_one_length_and_the_last_is_the_rest() -> None:
    with AudioFile(SAMPLE) as file:
        sizes = [len(block) for block in file.blocks()]
    assert sizes == [int(BLOCK_SECONDS * RATE)] * 11


def test_another_rate_on_request() -> None:
    with AudioFile(SAMPLE, rate=48_000) as file:
        assert sum(len(block) for block in file.blocks()) == 11 * 48_000


@pytest.mark.parametrize(
    ("suffix", "container", "codec", "rate"),
    [("mp3", "mp3", "libmp3lame", 44_100), ("m4a", "ipod", "aac", 44_100), ("aac", "adts", "aac", 44_100)],
)
def test_a_damaged_packet_does_not_end_the_file(
    tmp_path: Path, suffix: str, container: str, codec: str, rate: int
) -> None:
    path = encode(tmp_path / f"clip.{suffix}", clip(), codec, rate=rate, container=container)
    sound, file = read(damage(path))
    assert len(sound) / RATE >= 10.5
    assert len(file.warnings) == 1
    assert "damaged packet" in file.warnings[0]
    assert "0:03" in file.warnings[0]


def test_times_after_missing_packets_stay_right(tmp_path: Path) -> None:
    """Two seconds cut out of a Matroska file leave two seconds of silence, not a shorter file."""
    import av

    whole = encode(
        tmp_path / "whole.mkv", clip(), "pcm_s16le", rate=RATE, layout="mono", container="matroska"
    )
    cut = tmp_path / "cut.mkv"
    with av.open(str(whole)) as source, av.open(str(cut), "w") as target:
        stream = target.add_stream_from_template(source.streams.audio[0])
        for packet in source.demux(audio=0):
            if packet.dts is None or 4.0 <= float(packet.pts * packet.time_base) < 6.0:
                continue
            packet.stream = stream
            target.mux(packet)
    sound, _ = read(cut)
    assert len(sound) / RATE == pytest.approx(11.0, abs=0.15)
    assert np.abs(sound[int(4.3 * RATE) : int(5.7 * RATE)]).max() == 0
    assert likeness(sound[7 * RATE :], clip()[7 * RATE :]) > 0.95


def test_a_cut_off_file_says_where_it_ends(tmp_path: Path) -> None:
    path = encode(tmp_path / "clip.mkv", clip(), "pcm_s16le", rate=RATE, layout="mono", container="matroska")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2])
    sound, file = read(path)
    assert 4.5 < len(sound) / RATE < 6.5
    assert file.warnings == ("The file ends at 0:05 although it says it lasts 0:11.",)


def test_a_wav_whose_recorder_was_killed_is_whole(tmp_path: Path) -> None:
    path = write_wav(tmp_path / "take.wav", clip())
    content = bytearray(path.read_bytes())
    content[4:8] = content[40:44] = b"\0\0\0\0"
    path.write_bytes(content)
    sound, _ = read(path)
    assert len(sound) == len(clip())


@pytest.mark.parametrize(
    ("name", "content", "words"),
    [
        ("zero.wav", b"", "empty (0 bytes)"),
        ("zero.mp3", b"", "empty (0 bytes)"),
        ("letter.mp3", b"hello", "not an audio or video file"),
        ("long letter.mp3", b"hello world\n" * 5000, "not an audio or video file"),
        ("noise.m4a", np.random.default_rng(3).bytes(50_000), "not an audio or video file"),
        ("head.wav", b"RIFF\x24\x00\x00\x00WAVEfmt \x10\x00\x00\x00", "not an audio or video file"),
        ("list.m3u8", b"#EXTM3U\n#EXTINF:10,\nhttp://127.0.0.1:9/x.ts\n#EXT-X-ENDLIST\n", "not an audio"),
        ("concat.txt", b"ffconcat version 1.0\nfile '/etc/passwd'\n", "not an audio"),
    ],
)
def test_what_is_no_sound_is_refused_in_words(tmp_path: Path, name: str, content: bytes, words: str) -> None:
    path = tmp_path / name
    path.write_bytes(content)
    with pytest.raises(AudioError) as caught:
        read(path)
    sentence = caught.value.info.sentence()
    assert name in sentence
    assert words in sentence
    assert "The file was not changed." in sentence
    assert caught.value.remedy


def test_a_wav_without_samples_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="no sound could be decoded"):
        read(write_wav(tmp_path / "silent.wav", np.zeros(0, np.float32)))


def test_a_video_without_sound_is_refused(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="no audio track"):
        AudioFile(video_only(tmp_path / "film.mp4"))


def test_missing_files_and_folders_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AudioError, match="no such file"):
        AudioFile(tmp_path / "gone.wav")
    with pytest.raises(AudioError, match="folder"):
        AudioFile(tmp_path)
    with pytest.raises(AudioError, match="not a file"):
        AudioFile(Path("/dev/null"))


@pytest.mark.parametrize(
    "name",
    [
        "한국어 테스트 😀 [x].wav",
        "a:b?c=%20&d.wav",
        "-i.wav",
        b"\xff\xfe.wav".decode("utf-8", "surrogateescape"),
    ],
)
def test_any_file_name_works(tmp_path: Path, name: str) -> None:
    folder = tmp_path / "with spaces"
    write_wav(folder / "plain.wav", clip()[:RATE]).rename(folder / name)
    sound, _ = read(folder / name)
    assert len(sound) == RATE


@pytest.mark.parametrize("channels", [1, 2, 3, 7, 32])
def test_any_number_of_channels_is_mixed_without_clipping(tmp_path: Path, channels: int) -> None:
    sound = np.tile(clip()[:, None], (1, channels))
    mono, _ = read(write_wav(tmp_path / "many.wav", sound))
    assert np.abs(mono - clip()).max() < 1e-3


def test_surround_keeps_the_voice_of_the_centre() -> None:
    names = ("FL", "FR", "FC", "LFE", "BL", "BR")
    channels = np.zeros((6, 4), np.float32)
    channels[2] = 1.0
    assert to_mono(channels, names)[0] == pytest.approx(1 / (1 + 2 * 0.7071 + 2 * 0.5))
    channels[2], channels[3] = 0.0, 1.0
    assert to_mono(channels, names)[0] == 0.0


def test_samples_of_every_width() -> None:
    assert to_float(np.array([0, 128, 255], np.uint8)).tolist() == [-1.0, 0.0, 127 / 128]
    assert to_float(np.array([-32768, 16384], np.int16)).tolist() == [-1.0, 0.5]
    assert to_float(np.array([-(2**31), 2**30], np.int32)).tolist() == [-1.0, 0.5]
    assert to_float(np.array([0.25, 7.0, np.nan, np.inf])).tolist() == [0.25, 1.0, 0.0, 0.0]


def test_an_hour_needs_no_more_memory_than_a_minute(tmp_path: Path) -> None:
    path = tmp_path / "hour.wav"
    with soundfile.SoundFile(path, "w", 8000, 1, "PCM_U8", format="WAV") as file:
        for _ in range(60):
            file.write(np.zeros(60 * 8000, np.float32))
    with AudioFile(path) as audio:
        blocks = audio.blocks()
        next(blocks)
        tracemalloc.start()
        seconds = 1 + sum(len(block) for block in blocks) / RATE
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert seconds == pytest.approx(3600)
    assert peak < 4_000_000


def test_seeking_begins_near_the_time(tmp_path: Path) -> None:
    for path in (SAMPLE, encode(tmp_path / "clip.m4a", clip(), "aac", container="ipod")):
        with AudioFile(path) as file:
            file.seek(8.0)
            blocks = list(file.blocks())
            begin = file.position - sum(len(block) for block in blocks) / RATE
        assert 7.0 < begin <= 8.0
        start = int(begin * RATE)
        assert likeness(np.concatenate(blocks), clip()[start:]) > 0.95


@pytest.mark.timeout(30)
def test_a_pipe_is_refused_and_not_waited_for(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.wav")
    with pytest.raises(AudioError, match="not a file"):
        AudioFile(tmp_path / "pipe.wav")


def test_a_track_that_comes_up_on_the_way_is_passed_over(tmp_path: Path) -> None:
    path = encode(tmp_path / "sound.ts", clip(), "mp2", rate=48_000, layout="mono", container="mpegts")
    data = bytearray(path.read_bytes())
    starts = [at for at in range(0, len(data), 188) if data[at + 1 : at + 3] == b"\x41\x00"]
    data[starts[-2] + 2] = 0xB0  # the beginning of a frame under another track's number
    path.write_bytes(data)
    with AudioFile(path) as file:
        blocks = list(file.blocks())
        warnings = file.warnings
    assert np.isfinite(np.concatenate(blocks)).all()
    assert warnings
