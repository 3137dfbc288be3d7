"""`mblt-desktop transcribe`: text, files, JSON, and an exit status that can be relied on."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pysubs2
import pytest

from mblt_desktop import cli
from tests.runtime.audio.media import SAMPLE, SPOKEN, write_wav
from tests.runtime.speech.words import word_errors
from tests.simulator.qwen3_asr import make_talkative, write_checkpoint


@pytest.fixture
def model(demo_models: Path) -> str:
    return str(demo_models / "whisper-tiny.en")


def run(*options: object) -> int:
    return cli.main(["transcribe", *map(str, options)])


def test_one_file_goes_to_standard_output(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(SAMPLE, "-m", model) == 0
    output = capsys.readouterr()
    assert word_errors(SPOKEN, output.out) == 0
    assert "Whisper tiny.en · host CPU" in output.err


def test_the_simulated_device_is_named(demo_models: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(SAMPLE, "-m", demo_models / "whisper-tiny.en-sim", "--device", "simulated") == 0
    output = capsys.readouterr()
    assert word_errors(SPOKEN, output.out) == 0
    assert "Whisper tiny.en · Simulated ARIES (CPU)" in output.err


def test_a_checkpoint_of_qwen3_asr_is_built_and_hears_the_language_by_itself(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = write_checkpoint(make_talkative(), tmp_path / "checkpoint")
    assert cli.main(["models", "build-simulated", str(checkpoint), "qwen3-asr"]) == 0
    assert run(SAMPLE, "-m", "qwen3-asr", "--device", "simulated") == 0
    output = capsys.readouterr()
    assert len(set(output.out.split())) > 15
    assert " · en · " in output.err
    assert run(SAMPLE, "-m", "qwen3-asr", "--device", "simulated", "--language", "xx") == 1
    assert "does not understand the language “xx”" in capsys.readouterr().err


def test_every_file_gets_its_own_and_a_bad_one_gives_the_exit_status(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "a").mkdir()
    first = shutil.copy(SAMPLE, tmp_path / "회의 1.flac")
    twin = shutil.copy(SAMPLE, tmp_path / "a" / "회의 1.flac")
    empty = tmp_path / "zero.wav"
    empty.touch()
    folder = tmp_path / "out"
    assert run(first, empty, twin, "-m", model, "-f", "srt", "-o", folder) == 1
    assert sorted(path.name for path in folder.iterdir()) == ["회의 1.flac.srt", "회의 1.srt"]
    cues = pysubs2.load(str(folder / "회의 1.srt"))
    assert word_errors(SPOKEN, " ".join(cue.plaintext for cue in cues)) == 0
    output = capsys.readouterr()
    assert output.out == ""
    errors = [line for line in output.err.splitlines() if line.startswith("error:")]
    assert errors == [
        "error: zero.wav: the file is empty (0 bytes). The file was not changed. Copy or record it again."
    ]


def test_json_holds_every_file_and_nothing_else_is_printed(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    gone = tmp_path / "gone.mp3"
    assert run(SAMPLE, gone, "-m", model, "--json") == 1
    good, bad = json.loads(capsys.readouterr().out)["files"]
    assert word_errors(SPOKEN, good["text"]) == 0
    assert good["engine"] == "Whisper tiny.en · host CPU"
    assert good["segments"][0]["words"]
    assert bad["error"]["code"] == "media.audio"
    assert "gone.mp3" in bad["error"]["summary"]


def test_silence_succeeds_and_says_so(model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    import numpy as np

    still = write_wav(tmp_path / "still.wav", np.zeros(48_000, np.float32))
    assert run(still, "-m", model, "-f", "vtt") == 0
    output = capsys.readouterr()
    assert output.out == "WEBVTT\n"
    assert "warning: still.wav: No speech detected." in output.err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (("-f", "doc"), "Choose one of txt, srt, vtt, json, tsv."),
        (("--language", "klingon"), "klingon"),
        (("--core-mode", "global9"), "global9"),
        (("--trace", "trace.doc"), "trace.doc"),
        (("-m", "no-such-model"), "no-such-model"),
    ],
)
def test_option_values_that_are_not_known(
    model: str, capsys: pytest.CaptureFixture[str], options: tuple[str, ...], words: str
) -> None:
    chosen = () if "-m" in options else ("-m", model)
    assert run(SAMPLE, *chosen, *options) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: ")
    assert words in output.err
    assert output.err.count("\n") == 1


def test_several_subtitles_need_a_folder(model: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(SAMPLE, SAMPLE, "-m", model, "-f", "srt") == 1
    assert "-o DIR" in capsys.readouterr().err


def test_a_folder_that_cannot_be_made_is_named(
    model: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "taken").write_text("a file")
    assert run(SAMPLE, "-m", model, "-o", tmp_path / "taken") == 1
    assert "taken" in capsys.readouterr().err


def test_a_trace_of_the_work(model: str, tmp_path: Path) -> None:
    target = tmp_path / "work.json"
    assert run(SAMPLE, "-m", model, "--trace", target) == 0
    document = json.loads(target.read_text(encoding="utf-8"))
    events = document["traceEvents"] if isinstance(document, dict) else document
    assert {"decode audio", "voice activity", "transcribe window"} <= {event.get("name") for event in events}
