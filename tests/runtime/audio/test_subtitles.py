"""Every form is read back by somebody else's parser, also for no speech and for impossible times."""

from __future__ import annotations

import csv
import io
import itertools
import json
import os
from collections.abc import Sequence
from pathlib import Path

import pysubs2
import pytest
import webvtt
from hypothesis import given
from hypothesis import strategies as st

from runtime.audio.subtitles import FORMATS, TranscriptFormat, render, tidy, write
from runtime.errors import ReadOnlyError, StorageError
from runtime.messages import Segment, Transcribed, Word

TEXTS = ("Good morning, everyone.", "They arrived <b>on Tuesday</b> & passed.", "안녕하세요 --> 세계")


def result(*segments: Segment, duration: float = 60.0) -> Transcribed:
    return Transcribed("r", "/a/talk.wav", duration, "en", segments, "Whisper tiny.en · host CPU", 1.0)


SPOKEN = result(
    *(Segment(3.0 * number, 3.0 * number + 2.5, text) for number, text in enumerate(TEXTS)), duration=3700.0
)


def test_subrip_is_read_by_pysubs2() -> None:
    cues = pysubs2.SSAFile.from_string(render(SPOKEN, "srt"), format_="srt")
    assert [(cue.start, cue.end) for cue in cues] == [(0, 2500), (3000, 5500), (6000, 8500)]
    assert cues[0].plaintext == TEXTS[0]
    assert cues[2].plaintext == "안녕하세요 → 세계"


def test_webvtt_is_read_by_webvtt_py() -> None:
    cues = list(webvtt.from_buffer(io.StringIO(render(SPOKEN, "vtt"))))
    assert [cue.start for cue in cues] == ["00:00:00.000", "00:00:03.000", "00:00:06.000"]
    assert len(cues) == 3
    assert "&lt;b&gt;" in cues[1].raw_text
    assert "&amp;" in cues[1].raw_text


def test_hours_are_written_in_full() -> None:
    late = result(Segment(3661.5, 3662.25, "late"), duration=3700.0)
    assert "01:01:01,500 --> 01:01:02,250" in render(late, "srt")
    assert "01:01:01.500 --> 01:01:02.250" in render(late, "vtt")


def test_json_holds_everything() -> None:
    words = (Word(0.1, 0.4, "Good", 0.98765), Word(0.4, 0.9, "morning", 0.5))
    document = json.loads(render(result(Segment(0.1, 0.9, "Good morning", words)), "json"))
    assert document["text"] == "Good morning"
    assert document["language"] == "en"
    assert document["segments"][0]["words"][0] == {
        "start": 0.1, "end": 0.4, "word": "Good", "probability": 0.9877,
    }  # fmt: skip


def test_tsv_is_a_table_in_milliseconds() -> None:
    rows = list(csv.DictReader(io.StringIO(render(SPOKEN, "tsv")), delimiter="\t", quoting=csv.QUOTE_NONE))
    assert [(row["start"], row["end"]) for row in rows] == [("0", "2500"), ("3000", "5500"), ("6000", "8500")]


@pytest.mark.parametrize("form", FORMATS)
def test_no_speech_gives_a_valid_empty_file(form: TranscriptFormat) -> None:
    text = render(result(), form)
    expected = {"txt": "", "srt": "", "vtt": "WEBVTT\n", "tsv": "start\tend\ttext\n"}
    if form == "json":
        assert json.loads(text)["segments"] == []
    else:
        assert text == expected[form]
    if form == "vtt":
        assert list(webvtt.from_buffer(io.StringIO(text))) == []


def test_impossible_times_are_put_in_order() -> None:
    """lhotse#928, whisper PR#191: zero length, negative length, overlap, before the start."""
    wrong = (Segment(5, 5, "b"), Segment(7, 6.9, "d"), Segment(6, 8, "c"), Segment(-0.1, 1, "a"))
    cues = pysubs2.SSAFile.from_string(render(result(*wrong), "srt"), format_="srt")
    assert [cue.plaintext for cue in cues] == ["a", "b", "c", "d"]
    assert all(cue.end > cue.start >= 0 for cue in cues)
    assert all(later.start >= cue.end for cue, later in itertools.pairwise(cues))


TIMES = st.floats(-10, 100, allow_nan=False)


@given(
    st.lists(st.builds(Segment, TIMES, TIMES, st.text("ab \n", max_size=5)), max_size=20), st.floats(0, 50)
)
def test_any_times_become_ordered_cues_within_the_sound(segments: list[Segment], duration: float) -> None:
    tidied = tidy(segments, duration)
    edges = [edge for segment in tidied for edge in (segment.start, segment.end)]
    assert edges == sorted(edges)
    assert all(0 <= edge <= max(duration, 0.001) for edge in edges)
    assert all(segment.end > segment.start for segment in tidied)
    assert sorted(words_of(tidied)) == sorted(words_of(segments))


def words_of(segments: Sequence[Segment]) -> list[str]:
    return [word for segment in segments for word in segment.text.split()]


def test_a_file_is_written_whole_with_its_folders(tmp_path: Path) -> None:
    target = tmp_path / "한국어 폴더" / "talk.srt"
    write(SPOKEN, target, "srt")
    assert target.read_text(encoding="utf-8") == render(SPOKEN, "srt")
    assert [path.name for path in target.parent.iterdir()] == ["talk.srt"]


def test_a_folder_that_cannot_be_written_to_is_said_so(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if os.geteuid() == 0:
        # Root may write anywhere; the system's answer to everybody else is given instead.
        def refuse(*_args: object, **_kwargs: object) -> None:
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "write_text", refuse)
    else:
        tmp_path.chmod(0o500)
    with pytest.raises(ReadOnlyError) as caught:
        write(SPOKEN, tmp_path / "talk.txt", "txt")
    assert "talk.txt" in caught.value.info.sentence()
    assert "transcript itself is unharmed" in caught.value.info.sentence()


def test_a_target_that_is_a_folder_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "talk.txt").mkdir()
    with pytest.raises(StorageError, match=r"talk\.txt"):
        write(SPOKEN, tmp_path / "talk.txt", "txt")
    assert [path.name for path in tmp_path.iterdir()] == ["talk.txt"]


def test_a_parent_that_is_a_file_is_said_so(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("not a folder")
    with pytest.raises(StorageError, match=r"talk\.txt"):
        write(SPOKEN, tmp_path / "taken" / "talk.txt", "txt")
