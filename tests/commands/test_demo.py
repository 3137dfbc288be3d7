"""`mblt-desktop demo`: the main job once, without a screen, in a process of its own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest
from PIL import Image

from mblt_desktop.commands import demo
from mblt_desktop.paths import default_paths
from tests.perfetto import PROBLEMS, UNFINISHED, perfetto_query


@pytest.mark.slow
@pytest.mark.timeout(400)
def test_an_answer_a_transcript_a_trace_and_a_picture(demo_models: Path, tmp_path: Path) -> None:
    paths = default_paths()
    paths.data.mkdir(parents=True)
    (paths.data / "models").symlink_to(demo_models)
    environment = {name: value for name, value in os.environ.items() if name != "QT_QPA_PLATFORM"}
    done = subprocess.run(
        [sys.executable, "-m", "mblt_desktop", "demo", "--device", "simulated", "-o", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        check=False,
        env=environment,  # without a display, and without being told to do without
    )
    assert done.returncode == 0, done.stderr
    said = done.stdout
    assert f"You: {demo.PROMPT}" in said
    assert "ask not what your country can do for you" in said
    assert "The device was simulated on the CPU" in said
    trace, picture = tmp_path / "out" / "demo.pftrace", tmp_path / "out" / "window.png"
    assert str(trace) in said
    assert str(picture) in said
    with Image.open(picture) as image:
        assert image.size == demo.SIZE
        assert len(image.convert("RGB").getcolors(1 << 24)) > 50  # not an empty window
    problems, unfinished, names = perfetto_query(
        trace, PROBLEMS, UNFINISHED, "select distinct name from slice"
    )
    assert problems == []
    assert unfinished == [{"n": 0}]
    assert {"decode step", "transcribe window", "paint", "infer"} <= {row["name"] for row in names}
    assert not paths.database.exists()  # it leaves no chats behind
    assert sorted(path.name for path in paths.data.iterdir()) == ["models"]


def test_without_models_and_without_a_network_it_says_so(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    from mblt_desktop import cli

    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_EXTRA_INDEX_URL", "")
    monkeypatch.setenv("PIP_FIND_LINKS", "")
    monkeypatch.setenv("PIP_RETRIES", "0")
    assert cli.main(["demo"]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    errors = [line for line in output.err.splitlines() if line.startswith("error: ")]
    assert len(errors) == 1
    assert "unharmed" in errors[0]
