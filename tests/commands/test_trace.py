"""`mblt-desktop trace`: summarize, export, check."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from mblt_desktop.cli import main
from runtime.tracing.write_pftrace import write_pftrace
from tests.perfetto import assert_accepted
from tests.runtime.tracing.recordings import chat_events, make_trace, names_of


@pytest.fixture
def recording(tmp_path: Path) -> Path:
    path = tmp_path / "a.pftrace"
    write_pftrace(make_trace(chat_events("1")), path)
    return path


def test_summarize_says_where_the_time_went(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "summarize", str(recording)]) == 0
    out = capsys.readouterr().out
    assert "decode step" in out
    assert "5 of “decode step”" in out


def test_summarize_as_json(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "summarize", "--json", str(recording)]) == 0
    document = json.loads(capsys.readouterr().out)
    rows = {row["name"]: row for row in document["spans"]}
    assert (rows["decode step"]["count"], rows["decode step"]["total"]) == (5, 4_000_000)
    (request,) = document["requests"]
    assert (request["steps"], request["median_ns"]["sample"]) == (5, 110_000)


@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".pftrace"])
def test_export_writes_what_the_engine_accepts(
    recording: Path, tmp_path: Path, suffix: str, capsys: pytest.CaptureFixture[str]
) -> None:
    target = tmp_path / f"out{suffix}"
    assert main(["trace", "export", str(recording), "-o", str(target)]) == 0
    assert capsys.readouterr().out.strip() == str(target)
    assert_accepted(target, names_of(make_trace(chat_events("1"))), flows=1)


def test_export_without_a_target_goes_beside_the_recording(
    recording: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["trace", "export", "--json", str(recording)]) == 0
    document = json.loads(capsys.readouterr().out)
    assert document["file"] == str(recording.with_suffix(".json"))
    assert document["bytes"] == recording.with_suffix(".json").stat().st_size


def test_check_is_the_exit_status(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "check", str(recording)]) == 0
    assert capsys.readouterr().out.endswith("sound\n")
    recording.write_bytes(recording.read_bytes()[:-40])
    assert main(["trace", "check", "--json", str(recording)]) == 1
    document = json.loads(capsys.readouterr().out)
    assert document["sound"] is False
    assert document["problems"]


@pytest.mark.parametrize("action", ["summarize", "export", "check"])
@pytest.mark.parametrize("content", [None, b"", b"hello", b"{"])
def test_what_is_no_trace_is_one_line_on_stderr(
    tmp_path: Path, action: str, content: bytes | None, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "strange.pftrace"
    if content is not None:
        path.write_bytes(content)
    assert main(["trace", action, str(path)]) == 1
    captured = capsys.readouterr()
    assert captured.out == ""
    assert captured.err.startswith("error: ")
    assert "strange.pftrace" in captured.err
    assert captured.err.count("\n") == 1


def test_an_unknown_format_is_refused(recording: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["trace", "export", str(recording), "-o", "out.csv"]) == 1
    assert "out.csv" in capsys.readouterr().err
