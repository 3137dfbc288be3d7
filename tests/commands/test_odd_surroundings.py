"""The command line where something about the terminal, the environment or a name is odd."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from mblt_desktop import cli

ODD_NAME = "안녕 \udcff.wav"


def started(*options: str, redirect: str = "", **variables: str) -> subprocess.CompletedProcess[bytes]:
    """Run the program as a shell does."""
    return subprocess.run(
        ["bash", "-c", f'"$0" -m mblt_desktop "$@" {redirect}', sys.executable, *options],
        capture_output=True,
        check=False,
        env={**os.environ, **variables},
    )


def test_a_terminal_without_the_letters_gets_json_escapes(tmp_path: Path) -> None:
    home = tmp_path / "집"
    done = started("doctor", "--json", PYTHONIOENCODING="ascii", MBLT_DESKTOP_HOME=str(home))
    assert done.stderr == b""
    document = json.loads(done.stdout.decode("ascii"))
    assert str(home) in json.dumps(document, ensure_ascii=False)


def test_a_file_name_that_is_no_text_can_be_told(tmp_path: Path) -> None:
    done = started(
        "transcribe", "--format", ODD_NAME, "x.wav", PYTHONIOENCODING="utf-8", MBLT_DESKTOP_HOME=str(tmp_path)
    )
    assert done.returncode == 1
    assert b"\\udcff" in done.stderr
    assert "안녕".encode() in done.stderr


@pytest.mark.parametrize("redirect", [">&-", "2>&-"])
def test_a_closed_output_is_no_fault(redirect: str, tmp_path: Path) -> None:
    done = started("models", "list", redirect=redirect, MBLT_DESKTOP_HOME=str(tmp_path))
    assert done.returncode == 0
    assert done.stderr == b""


@pytest.mark.parametrize("command", [("models", "list"), ("doctor",), ("trace", "check", "{trace}")])
def test_a_full_disk_behind_the_output_is_said(command: tuple[str, ...], tmp_path: Path) -> None:
    trace = tmp_path / "trace.json"
    trace.write_text('[{"name": "step", "ph": "X", "ts": 1, "dur": 2, "pid": 1, "tid": 1}]')
    words = [word.format(trace=trace) for word in command]
    done = started(*words, redirect=">/dev/full", MBLT_DESKTOP_HOME=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.decode().startswith("error: The disk holding standard output is full.")
    assert b"Exception ignored" not in done.stderr


def test_a_closed_input_is_no_prompt(tmp_path: Path) -> None:
    done = started("chat", "-m", str(tmp_path), redirect="<&-", MBLT_DESKTOP_HOME=str(tmp_path))
    assert done.returncode == 1
    assert done.stderr.startswith(b"error: There is no prompt.")


def test_the_home_of_somebody_unknown_is_named(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MBLT_DESKTOP_HOME", "~nobody-of-that-name/x")
    assert cli.main(["models", "list"]) == 1
    assert "MBLT_DESKTOP_HOME is “~nobody-of-that-name/x”" in capsys.readouterr().err


@pytest.mark.parametrize("name", ["~nobody-of-that-name/", "", "../.."])
def test_what_is_no_model_is_refused(
    name: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MBLT_DESKTOP_HOME", str(tmp_path))
    assert cli.main(["chat", "-m", name, "-p", "Hi"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: ")
    assert "unexpected" not in said


def test_a_mistyped_command_opens_no_window(capsys: pytest.CaptureFixture[str]) -> None:
    assert cli.main(["transcibe"]) == 1
    assert "neither a command nor a file called transcibe" in capsys.readouterr().err


@pytest.mark.parametrize("target", ["nowhere/x.pftrace", "folder.json"])
def test_a_trace_that_cannot_be_written_is_refused_before_the_work(
    target: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("MBLT_DESKTOP_HOME", str(tmp_path))
    (tmp_path / "model").mkdir()
    (tmp_path / "folder.json").mkdir()
    place = tmp_path / target
    assert cli.main(["chat", "-m", str(tmp_path / "model"), "-p", "Hi", "--trace", str(place)]) == 1
    said = capsys.readouterr().err
    assert str(place) in said
    assert "Nothing was started." in said
