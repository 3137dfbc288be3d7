"""The log: bounded, one line a record, of this program only, and without a word of the user's."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from mblt_desktop.log import FILE, to_file, to_stderr
from mblt_desktop.paths import Paths
from runtime.errors import to_info

OURS = logging.getLogger("runtime.somewhere")
SECRET = "Xyzzyplugh"


def lines(folder: Path) -> list[str]:
    return (folder / FILE).read_text(encoding="utf-8").splitlines()


def test_what_this_program_logs_is_in_the_file_and_nothing_else(tmp_path: Path) -> None:
    with to_file(tmp_path / "a" / "log"):
        OURS.info("The model %s", "a\nb\x1b[31m한")
        OURS.debug("too much")
        logging.getLogger("transformers").warning("another's")
    OURS.info("after the end")
    (line,) = lines(tmp_path / "a" / "log")
    assert line.endswith("INFO runtime.somewhere: The model a b [31m한")
    assert (tmp_path / "a" / "log").stat().st_mode & 0o077 == 0


def test_it_does_not_grow_beyond_its_bound(tmp_path: Path) -> None:
    with to_file(tmp_path):
        for number in range(6000):
            OURS.info("%d %s", number, "x" * 1000)
    sizes = [path.stat().st_size for path in tmp_path.iterdir()]
    assert len(sizes) == 4
    assert max(sizes) <= 1_000_000
    assert lines(tmp_path)[-1].split()[-2] == "5999"


def test_a_folder_or_a_disk_that_takes_nothing_costs_the_log_only(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "file").write_text("")
    with to_file(tmp_path / "file" / "log"):
        OURS.warning("nowhere")
    (tmp_path / FILE).symlink_to("/dev/full")
    with to_file(tmp_path):
        OURS.warning("no room")
    assert capsys.readouterr().err == ""


@pytest.mark.parametrize("verbose", [True, False])
def test_a_command_shows_it_when_asked_to(capsys: pytest.CaptureFixture[str], verbose: bool) -> None:
    with to_stderr(verbose=verbose):
        OURS.warning("KV is not used")
    assert ("KV is not used" in capsys.readouterr().err) is verbose


def test_an_unexpected_fault_is_logged_with_its_place_and_without_its_words(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with pytest.raises(ValueError, match=SECRET) as caught:
        raise ValueError(SECRET)
    assert SECRET in to_info(caught.value).detail
    assert "ValueError at " in caplog.text
    assert "test_log.py:" in caplog.text
    assert SECRET not in caplog.text


def run(*command: str, paths: Paths) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "QT_QPA_PLATFORM": "offscreen"}
    return subprocess.run(
        [sys.executable, *command], capture_output=True, text=True, timeout=120, check=False, env=environment
    )


@pytest.mark.parametrize("verbose", [True, False])
def test_penalties_that_are_left_out_are_said_to_who_asks(
    paths: Paths, demo_models: Path, verbose: bool
) -> None:
    model = str(demo_models / "smollm2-135m-instruct-sim")
    options = ["--max-tokens", "2", "--no-penalties", "--presence-penalty", "0.5"] + ["--verbose"] * verbose
    done = run("-m", "mblt_desktop", "chat", "-m", model, "-p", SECRET, *options, paths=paths)
    assert done.returncode == 0
    words = "Penalties are off; ignored: repetition_penalty 1.05, presence_penalty 0.5"
    assert (words in done.stderr) is verbose
    assert ("was loaded in" in done.stderr) is verbose
    assert SECRET not in done.stderr
    assert not paths.logs.exists()


def test_a_run_of_the_window_leaves_what_it_did_and_no_word_of_the_conversation(
    paths: Paths, demo_models: Path
) -> None:
    paths.data.mkdir(parents=True)
    (paths.data / "models").symlink_to(demo_models)
    program = f"""
        import sys
        from mblt_desktop import app

        class Program(app.Application):
            def __init__(self, *args):
                super().__init__(*args)
                self.preferences.set("sampling.max_tokens", 4)
                self.preferences.set("sampling.apply_penalties", False)
                self.preferences.set("sampling.presence_penalty", 0.5)
                self.dispatcher.model_loaded.connect(self.ask)
                self.window.chat.session.ended.connect(self.fail)

            def ask(self, event):
                self.window.chat.composer.set_text("{SECRET}")
                self.window.chat.composer.send.click()

            def fail(self, message):
                self.window.chat.session.ended.disconnect(self.fail)
                from pathlib import Path
                self.window.open_files([Path("/{SECRET}.xyz")])
                self.window.close()

        app.Application = Program
        sys.exit(app.run_app(device="simulated"))
        """
    done = run("-c", textwrap.dedent(program), paths=paths)
    assert done.returncode == 0
    assert "Traceback" not in done.stderr
    text = "\n".join(lines(paths.logs))
    for words in ("begins, with Python", "was loaded in", "Penalties are off", "Shown: media", "ends"):
        assert words in text, text
    assert SECRET not in text
    assert [path.name for path in paths.logs.iterdir()] == [FILE]
