"""What commands that run a model have in common: limits, layouts refused at once, a slow device."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from mblt_desktop import cli
from mblt_desktop.paths import default_paths
from runtime.config import KvOptions, RuntimeConfig
from runtime.lanes.host import Host
from runtime.simulator.faults import FAULTS, Fault
from tests.runtime.audio.media import SAMPLE

CHAT = ("chat", "-m", "smollm2-135m-instruct-sim", "-p", "Hello", "--max-tokens", "6")
SPEECH = ("transcribe", "-m", "whisper-tiny.en-sim", "talk.wav")
WRONG = [
    ("--core-mode single --cores 0:0:9", "“0:0:9” is not one of the cores. Nothing was changed. A core is"),
    ("--clusters 0:7", "“0:7” is not one of the clusters."),
    ("--dev-no 3", "There is no device 3. Nothing was changed. This computer has only device 0."),
    ("--core-mode global8 --clusters 0:1", "Global 8 needs both clusters of device 0"),
    ("--core-mode multi --max-batch-size 4", "Several parallel conversations do not go together with"),
    ("--core-mode sideways", "Core mode (--core-mode) does not take “sideways”."),
    ("--part kitchen=single@0:0:0", "“kitchen”"),
]
WATCHED = """
import sys
from mblt_desktop import cli
from mblt_desktop.commands import chat

def say(event):
    if getattr(event, "stage", "").startswith("Loading weights"):
        print(event.stage, flush=True)

chat._say_loading = say
sys.exit(cli.main(sys.argv[1:]))
"""


@pytest.fixture
def installed(demo_models: Path) -> None:
    data = default_paths().data
    data.mkdir(parents=True)
    (data / "models").symlink_to(demo_models)


@pytest.mark.parametrize(("options", "words"), WRONG)
@pytest.mark.parametrize("command", [CHAT, SPEECH], ids=["chat", "transcribe"])
@pytest.mark.usefixtures("installed")
def test_a_wrong_layout_is_one_line_and_nothing_is_started(
    command: tuple[str, ...],
    options: str,
    words: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("the runtime was started")

    monkeypatch.setattr(Host, "__init__", refuse)
    assert cli.main([*command, "--device", "simulated", *options.split()]) == 1
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("error: ")
    assert output.err.count("\n") == 1
    assert words in output.err


@pytest.mark.usefixtures("installed")
def test_a_wrong_layout_is_refused_before_the_large_packages_are_imported() -> None:
    code = (
        "import sys; from mblt_desktop import cli; status = cli.main(sys.argv[1:]); "
        "print(status, [name for name in ('torch', 'transformers', 'av') if name in sys.modules])"
    )
    options = ("--device", "simulated", "--clusters", "0:7")
    done = subprocess.run(
        [sys.executable, "-c", code, *CHAT, *options], capture_output=True, text=True, check=True
    )
    assert done.stdout == "1 []\n"


@pytest.fixture
def told(monkeypatch: pytest.MonkeyPatch) -> list[RuntimeConfig]:
    """What the runtime is told at its start, which is where the command ends."""
    seen: list[RuntimeConfig] = []

    def note(_host: Host, config: RuntimeConfig, *_: object) -> None:
        seen.append(config)
        raise KeyboardInterrupt

    monkeypatch.setattr(Host, "__init__", note)
    return seen


def write_settings(text: str) -> None:
    file = default_paths().settings_file
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("command", [CHAT, SPEECH], ids=["chat", "transcribe"])
def test_a_command_keeps_the_time_limits_of_the_settings(
    command: tuple[str, ...], told: list[RuntimeConfig], capsys: pytest.CaptureFixture[str]
) -> None:
    write_settings(json.dumps({"advanced.stall_seconds": 17, "advanced.load_stall_seconds": 5}))
    assert cli.main(list(command)) == cli.INTERRUPTED
    # 5 is less than the setting takes: the default stands for it.
    assert [(config.stall_seconds, config.load_stall_seconds) for config in told] == [(17.0, 600.0)]
    assert capsys.readouterr().err == ""
    write_settings("{")
    assert cli.main(list(command)) == cli.INTERRUPTED
    assert told[-1].stall_seconds == 60.0
    assert "is damaged" in capsys.readouterr().err


@pytest.mark.usefixtures("installed")
def test_a_command_keeps_kv_as_the_settings_say_but_not_beyond_its_end(told: list[RuntimeConfig]) -> None:
    values = {"kv_conversations": 3, "kv_host_mib": 99, "kv_minimum_hit": 7, "kv_load_margin": 0.4}
    stored = {f"advanced.{name}": value for name, value in values.items()}
    write_settings(json.dumps(stored | {"advanced.kv_calibrate": True, "storage.keep_kv": True}))
    assert cli.main(list(CHAT)) == cli.INTERRUPTED
    assert [config.engine.kv for config in told] == [KvOptions(3, 99, 7, 0.4)]
    assert not told[0].engine.kv.keep_on_disk
    assert not told[0].engine.kv.calibrate


@pytest.mark.usefixtures("installed")
@pytest.mark.parametrize("command", [CHAT, (*SPEECH[:-1], str(SAMPLE))], ids=["chat", "transcribe"])
def test_a_device_that_does_not_answer_is_said(
    command: tuple[str, ...], capsys: pytest.CaptureFixture[str]
) -> None:
    write_settings(json.dumps({"advanced.stall_seconds": 5}))
    FAULTS.inject(Fault("slow_core", value=6.5, nth=3))
    try:
        assert cli.main([*command, "--device", "simulated"]) == 0
    finally:
        FAULTS.clear()
    said = capsys.readouterr().err
    assert "note: The device has not answered since " in said
    assert "Ctrl+C gives the model up" in said


@pytest.mark.usefixtures("installed")
def test_ctrl_c_ends_a_command_at_once_whose_model_hangs_while_it_loads() -> None:
    environment = {**os.environ, "MBLT_SIM_FAULTS": "slow_launch=40"}
    program = subprocess.Popen(
        [sys.executable, "-c", WATCHED, *CHAT, "--device", "simulated"],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment,
    )
    assert program.stdout is not None
    assert program.stdout.readline() == "Loading weights onto the device\n"
    time.sleep(1)
    began = time.monotonic()
    program.send_signal(signal.SIGINT)
    _, said = program.communicate(timeout=30)
    assert (program.returncode, said) == (cli.INTERRUPTED, "")
    assert time.monotonic() - began < 3
