"""The program as `make run` starts it, on an X display of its own: typed to, killed, and started again."""

from __future__ import annotations

import os
import shutil
import signal
import sqlite3
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from mblt_desktop.paths import Paths
from mblt_desktop.store.store import Store

PATIENCE = 120.0


@pytest.fixture
def display() -> Iterator[str]:
    """An X server without a window manager; its name as in DISPLAY."""
    reading, writing = os.pipe()
    command = ["Xvfb", "-displayfd", str(writing), "-screen", "0", "1600x1000x24", "-nolisten", "tcp"]
    server = subprocess.Popen(command, pass_fds=[writing], stderr=subprocess.DEVNULL)
    os.close(writing)
    with os.fdopen(reading) as answer:
        number = answer.readline().strip()
    assert number, "Xvfb did not start"
    yield f":{number}"
    server.terminate()
    server.wait()


@pytest.fixture
def environment(display: str, paths: Paths, demo_models: Path) -> dict[str, str]:
    """What the program finds: the display, and the demo models installed."""
    paths.data.mkdir(parents=True)
    (paths.data / "models").symlink_to(demo_models)
    apart = ("QT_QPA_PLATFORM", "WAYLAND_DISPLAY")
    return {**{name: value for name, value in os.environ.items() if name not in apart}, "DISPLAY": display}


def until(happened: Callable[[], object], program: subprocess.Popen[bytes]) -> None:
    """Wait for something that the running program does."""
    deadline = time.monotonic() + PATIENCE
    while not happened():
        assert program.poll() is None, f"it ended with {program.returncode}"
        assert time.monotonic() < deadline, "it did not happen"
        time.sleep(0.05)


def answer_so_far(database: Path) -> str:
    """What another process can read of the answer at this moment."""
    if not database.exists():
        return ""
    with sqlite3.connect(f"file:{database}?mode=ro", uri=True) as reader:
        rows = reader.execute("SELECT text FROM messages WHERE role = 'assistant'").fetchall()
    reader.close()
    return "".join(text for (text,) in rows)


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_an_answer_is_on_disk_while_it_streams_and_survives_a_kill(
    environment: dict[str, str], paths: Paths
) -> None:
    xdotool = shutil.which("xdotool")
    assert xdotool is not None
    command = [sys.executable, "-m", "mblt_desktop", "--device", "simulated"]
    program = subprocess.Popen(command, env=environment, stderr=subprocess.PIPE)

    def type_(*words: str) -> None:
        subprocess.run([xdotool, *words], env=environment, check=True, timeout=PATIENCE, capture_output=True)

    try:
        type_("search", "--sync", "--onlyvisible", "--name", "MBLT Desktop", "windowfocus", "--sync")
        type_("type", "--delay", "20", "Tell me a very long story about the sea.")
        type_("key", "Return")
        until(lambda: len(answer_so_far(paths.database).split()) > 8, program)
        program.send_signal(signal.SIGKILL)
        assert program.wait() == -signal.SIGKILL
    finally:
        program.kill()
        program.wait()
        assert program.stderr is not None
        said = program.stderr.read().decode()
        program.stderr.close()
    assert "Traceback" not in said
    seen = answer_so_far(paths.database)
    assert seen

    store = Store(paths.database)
    (chat,) = store.conversations.list()
    question, answer = store.conversations.tree(chat.id).path(chat.leaf_id)
    store.close()
    assert question.text == "Tell me a very long story about the sea."
    assert answer.text == seen
    assert answer.state == "interrupted"
