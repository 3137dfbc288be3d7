"""A real capture and a real playback without a sound card: a PulseAudio of the test's own.

PortAudio reads its configuration once per process, so each recording runs in a process of its own.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from tests.runtime.audio.media import RATE, clip, write_wav
from tests.runtime.audio.test_decode import likeness

PROGRAM = """
import json, subprocess, sys, threading, time
from pathlib import Path
from runtime.audio.microphone_service import MicrophoneService
from runtime.audio.playback_service import PlaybackService
from runtime.config import RuntimeConfig
from runtime.lanes.lane import CancelMarks, Lane
from runtime.messages import *

what, source, target = sys.argv[1:4]
events, config = [], RuntimeConfig(Path("/nowhere"))

def start(service, name):
    lane = Lane(name, lambda *_: service(config, events.append, CancelMarks()), events.append)
    thread = threading.Thread(target=lane.run)
    thread.start()
    return lane, thread

def wait(kind):
    while not any(isinstance(event, kind) for event in events):
        time.sleep(0.01)

microphone, thread = start(MicrophoneService, "microphone")
microphone.put(ListMicrophones())
microphone.put(StartTake("t", target, None))
wait(TakeStarted)
if what == "record":
    subprocess.run(["paplay", "--device=voice", source], check=True)
else:
    playback, other = start(PlaybackService, "playback")
    playback.put(PlayAudio("p", source, 0.0))
    wait(PlaybackEnded)
    playback.stop()
    other.join()
microphone.put(StopTake("t"))
wait(TakeFinished)
microphone.stop()
thread.join()
listed = next(event for event in events if isinstance(event, MicrophonesListed))
finished = next(event for event in events if isinstance(event, TakeFinished))
print(json.dumps({
    "microphones": len(listed.microphones),
    "defaults": sum(microphone.is_default for microphone in listed.microphones),
    "error": finished.error is not None,
    "peak": max(event.peak for event in events if isinstance(event, TakeLevel)),
}))
"""


@pytest.fixture(scope="module")
def sound_server() -> Iterator[dict[str, str]]:
    """The environment of a private sound server whose microphone hears what its loudspeaker plays."""
    # A socket's path must be short; pytest's folders are not.
    home = Path(tempfile.mkdtemp(prefix="mblt-pulse-"))
    socket = home / "native"
    environment = {
        **os.environ,
        "HOME": str(home),
        "XDG_RUNTIME_DIR": str(home),
        "PULSE_SERVER": f"unix:{socket}",
        "PULSE_COOKIE": str(home / "cookie"),
    }
    (home / ".asoundrc").write_text("pcm.!default { type pulse }\nctl.!default { type pulse }\n")
    modules = (
        f"module-native-protocol-unix auth-anonymous=1 socket={socket}",
        "module-null-sink sink_name=voice",
    )
    server = subprocess.Popen(
        [
            "pulseaudio",
            "-n",
            "--daemonize=no",
            "--exit-idle-time=-1",
            "--use-pid-file=no",
            "--disable-shm=yes",
        ]
        + [f"--load={module}" for module in modules],
        env=environment,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        _wait_until_ready(server, environment)
        for command in (("set-default-source", "voice.monitor"), ("set-default-sink", "voice")):
            subprocess.run(["pactl", *command], env=environment, check=True)
        yield environment
    finally:
        server.terminate()
        server.wait(10)
        shutil.rmtree(home, ignore_errors=True)


def _wait_until_ready(server: subprocess.Popen[bytes], environment: dict[str, str]) -> None:
    deadline = time.monotonic() + 20
    while subprocess.run(["pactl", "info"], env=environment, capture_output=True, check=False).returncode:
        assert server.poll() is None, (
            "pulseaudio did not start; are pulseaudio and pulseaudio-utils installed?"
        )
        assert time.monotonic() < deadline, "pulseaudio does not answer"
        time.sleep(0.1)


def _run(environment: dict[str, str], what: str, source: Path, target: Path) -> dict[str, object]:
    command = [sys.executable, "-c", PROGRAM, what, str(source), str(target)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 0, done.stderr
    report: dict[str, object] = json.loads(done.stdout)
    return report


def _heard(path: Path, spoken: np.ndarray) -> float:
    """How alike the take and what was said are, wherever the take begins."""
    take, rate = soundfile.read(path, dtype="float32")
    position = np.arange(int(len(take) / rate * RATE)) * (rate / RATE)
    take = np.interp(position, np.arange(len(take)), take).astype(np.float32)
    step = RATE // 50
    shifts = range(0, max(1, len(take) - len(spoken)), step)
    return max(likeness(take[shift : shift + len(spoken)], spoken) for shift in shifts)


def test_what_is_said_into_the_microphone_is_on_the_disk(
    sound_server: dict[str, str], tmp_path: Path
) -> None:
    spoken = clip()[: 3 * RATE]
    report = _run(sound_server, "record", write_wav(tmp_path / "said.wav", spoken), tmp_path / "take.wav")
    assert report["microphones"]
    assert report["defaults"] == 1
    assert report["error"] is False
    assert 0.3 < float(str(report["peak"])) <= 1.0
    assert _heard(tmp_path / "take.wav", spoken) > 0.9


def test_what_is_played_comes_out_of_the_loudspeaker(sound_server: dict[str, str], tmp_path: Path) -> None:
    spoken = clip()[: 3 * RATE]
    _run(sound_server, "play", write_wav(tmp_path / "played.wav", spoken), tmp_path / "take.wav")
    assert _heard(tmp_path / "take.wav", spoken) > 0.9
