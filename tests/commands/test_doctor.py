"""`mblt-desktop doctor`: words for people, JSON for programs, and an exit status that can be relied on."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

import pytest

from mblt_desktop.commands import doctor
from runtime.device.doctor import Finding, Report
from runtime.errors import SettingError


def run(*options: str) -> int:
    parser = argparse.ArgumentParser()
    doctor.add_parser(parser.add_subparsers())
    args = parser.parse_args(["doctor", *options])
    return int(args.run(args))


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MBLT_DESKTOP_HOME", str(tmp_path))
    return tmp_path


def test_this_computer_in_words(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert run() == 0
    output = capsys.readouterr()
    assert output.err == ""
    assert "Ready. Models run on Simulated ARIES (CPU): right answers, but no NPU speed." in output.out
    assert str(home / "data") in output.out
    assert f"The window's log is in {home / 'state' / 'log'}." in output.out
    assert "→ Fetch one: mblt-desktop models fetch" in output.out


def test_this_computer_as_json(capsys: pytest.CaptureFixture[str], home: Path) -> None:
    assert run("--json") == 0
    document = json.loads(capsys.readouterr().out)
    assert document["usable"] is True
    assert document["simulated"] is True
    assert document["device"] == "Simulated ARIES (CPU)"
    assert document["log"] == str(home / "state" / "log")
    statuses = {check["status"] for check in document["checks"]}
    assert statuses <= {"ok", "note", "warning"}
    assert set(document["checks"][0]) == {"check", "title", "status", "summary", "fix", "detail"}


def test_a_failure_is_marked_and_gives_the_exit_status(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    finding = Finding("torch", "PyTorch", "failure", "torch is not installed.", "Install it.")
    monkeypatch.setattr(doctor, "examine", lambda config: Report((finding,), "", False))
    assert run() == 1
    output = capsys.readouterr().out
    assert output.startswith("FAIL PyTorch  torch is not installed.\n")
    assert "→ Install it." in output
    assert "Not ready" in output
    assert run("--json") == 1
    document = json.loads(capsys.readouterr().out)
    assert document["usable"] is False
    assert document["device"] is None


def test_an_unknown_device_is_refused_in_words() -> None:
    with pytest.raises(SettingError, match=r"Device \(--device\) does not take “gpu”"):
        run("--device", "gpu")
