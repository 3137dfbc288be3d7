"""The command line as a whole: which command, which exit status, and never a traceback."""

from __future__ import annotations

import argparse
import importlib
import json
import signal
import subprocess
import sys
import tempfile
from pathlib import Path

import pytest

from mblt_desktop import __version__, cli
from runtime.errors import ModelError


@pytest.fixture
def doctor_that(monkeypatch: pytest.MonkeyPatch) -> object:
    """`mblt-desktop doctor` raises what the test gives it."""

    def raise_(error: BaseException) -> None:
        def run(_args: argparse.Namespace) -> int:
            raise error

        monkeypatch.setattr("mblt_desktop.commands.doctor.run", run)

    return raise_


@pytest.mark.parametrize("name", cli.COMMANDS)
def test_every_command_has_help(name: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main([name, "--help"])
    assert ended.value.code == 0
    assert f"mblt-desktop {name}" in capsys.readouterr().out


def leaves(parser: argparse.ArgumentParser) -> list[argparse.ArgumentParser]:
    """The parsers that take options: a command, or each of its actions."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    return [leaf for action in below for child in action.choices.values() for leaf in leaves(child)] or [
        parser
    ]


@pytest.mark.parametrize("name", [name for name in cli.COMMANDS if name != "demo"])
def test_every_command_prints_json(name: str) -> None:
    root = argparse.ArgumentParser()
    importlib.import_module(f"mblt_desktop.commands.{name}").add_parser(root.add_subparsers())
    assert [leaf.prog for leaf in leaves(root) if "--json" not in leaf._option_string_actions] == []


def test_a_known_failure_is_one_line(doctor_that, capsys: pytest.CaptureFixture[str]) -> None:
    doctor_that(ModelError("The model is gone.", remedy="Fetch it again."))
    assert cli.main(["doctor"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err == "error: The model is gone. The other models are unharmed. Fetch it again.\n"


def test_an_unexpected_one_too_and_its_traceback_waits_for_who_asks(
    doctor_that, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    doctor_that(ZeroDivisionError("by nothing"))
    assert cli.main(["doctor"]) == 1
    said = capsys.readouterr().err
    assert said.startswith("error: An unexpected fault: ZeroDivisionError.")
    assert said.count("\n") == 1
    monkeypatch.setenv("MBLT_DESKTOP_DEBUG", "1")
    assert cli.main(["doctor"]) == 1
    assert "Traceback" in capsys.readouterr().err


def test_ctrl_c_is_told_by_the_exit_status(doctor_that) -> None:
    doctor_that(KeyboardInterrupt())
    assert cli.main(["doctor"]) == 130


def test_a_reader_that_goes_away_is_no_traceback() -> None:
    command = f'"{sys.executable}" -m mblt_desktop models list --json | true; echo "${{PIPESTATUS[0]}}"'
    done = subprocess.run(["bash", "-c", command], capture_output=True, text=True, check=True)
    assert done.stderr == ""
    assert done.stdout.strip() in ("0", "1")  # it may have written before the reader went


def test_version(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as ended:
        cli.main(["--version"])
    assert ended.value.code == 0
    assert capsys.readouterr().out == f"mblt-desktop {__version__}\n"


def test_files_open_the_window_and_an_unknown_option_does_not(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    opened = []
    monkeypatch.setattr("mblt_desktop.app.run_app", lambda **options: opened.append(options) or 0)
    assert cli.main(["talk.wav", "--device", "simulated"]) == 0
    assert [str(path) for path in opened[0]["files"]] == ["talk.wav"]
    assert opened[0]["device"] == "simulated"
    with pytest.raises(SystemExit) as ended:
        cli.main(["--colour"])
    assert ended.value.code == 2
    assert len(opened) == 1


def test_a_script_gets_json_alone_on_standard_output() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "mblt_desktop", "models", "list", "--json"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stderr == ""
    assert {row["model_id"] for row in json.loads(done.stdout)} >= {"smollm2-135m-instruct-sim"}


def test_who_is_told_to_end_takes_back_what_is_half_done(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def run(_args: argparse.Namespace) -> int:
        with tempfile.TemporaryDirectory(dir=tmp_path):
            signal.raise_signal(signal.SIGTERM)
        return 0

    before = signal.getsignal(signal.SIGTERM)
    monkeypatch.setattr("mblt_desktop.commands.doctor.run", run)
    assert cli.main(["doctor"]) == cli.TERMINATED == 143
    assert list(tmp_path.iterdir()) == []
    assert signal.getsignal(signal.SIGTERM) == before
