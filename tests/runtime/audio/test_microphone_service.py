"""The microphone lane with scripted inputs: takes are kept whatever happens to the input."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest
import soundfile

from runtime.audio import capture, microphone_service
from runtime.audio.capture import PortAudioInputs, Take
from runtime.audio.microphone_service import MicrophoneService
from runtime.config import RuntimeConfig
from runtime.errors import MicrophoneError
from runtime.lanes.lane import CancelMarks, Lane
from runtime.messages import (
    Event,
    Failed,
    ListMicrophones,
    Microphone,
    MicrophonesListed,
    StartTake,
    StopTake,
    TakeFinished,
    TakeLevel,
    TakeStarted,
)

RATE = 16_000


class ScriptedInput:
    """Delivers the blocks it was given, then nothing."""

    name = "USB Headset"
    rate = RATE

    def __init__(self, blocks: list[np.ndarray]) -> None:
        self.blocks = blocks
        self.closed = False

    def read(self, seconds: float) -> np.ndarray | None:
        if self.blocks:
            return self.blocks.pop(0)
        time.sleep(min(seconds, 0.005))
        return None

    def close(self) -> None:
        self.closed = True


class ScriptedInputs:
    def __init__(self, *inputs: ScriptedInput, found: tuple[Microphone, ...] = ()) -> None:
        self.inputs = list(inputs)
        self.found = found
        self.opened: list[str | None] = []

    def list(self) -> tuple[Microphone, ...]:
        return self.found

    def open(self, key: str | None) -> ScriptedInput:
        self.opened.append(key)
        if not self.inputs:
            raise MicrophoneError("The microphone “USB Headset” is not connected.", remedy="Plug it in.")
        return self.inputs.pop(0)


class Running:
    """A lane with its events."""

    def __init__(self, inputs: object) -> None:
        self.events: list[Event] = []
        self.marks = CancelMarks()
        config = RuntimeConfig(Path("/nowhere"))
        self.lane = Lane(
            "microphone",
            lambda *_: MicrophoneService(config, self.events.append, self.marks, inputs),
            self.events.append,
        )
        self.thread = threading.Thread(target=self.lane.run)
        self.thread.start()

    def wait(self, kind: type, seconds: float = 10.0) -> Event:
        """The first event of that kind."""
        deadline = time.monotonic() + seconds
        while time.monotonic() < deadline:
            for event in list(self.events):
                if isinstance(event, kind):
                    return event
            time.sleep(0.005)
        raise AssertionError(f"no {kind.__name__} in {self.events}")

    def stop(self) -> None:
        self.lane.stop()
        self.thread.join()


@pytest.fixture
def run() -> Iterator[Callable[[object], Running]]:
    started: list[Running] = []

    def start(inputs: object) -> Running:
        started.append(Running(inputs))
        return started[-1]

    yield start
    for running in started:
        running.stop()


def tone(seconds: float, loudness: float = 0.5) -> list[np.ndarray]:
    count = int(seconds * 20)
    return [np.full(RATE // 20, loudness, np.float32) for _ in range(count)]


def test_a_take_holds_everything_that_was_delivered(tmp_path: Path, run: Callable[[object], Running]) -> None:
    source = ScriptedInput(tone(3.0))
    running = run(ScriptedInputs(source))
    path = tmp_path / "media" / "take.wav"
    running.lane.put(StartTake("t", str(path), None))
    assert running.wait(TakeStarted) == TakeStarted("t", "USB Headset")
    running.lane.put(StopTake("t"))
    assert running.wait(TakeFinished) == TakeFinished("t", str(path), 3.0, None)
    assert source.closed
    samples, rate = soundfile.read(path)
    assert rate == RATE
    assert len(samples) == 3 * RATE
    assert np.abs(samples - 0.5).max() < 1e-4
    levels = [event for event in running.events if isinstance(event, TakeLevel)]
    assert levels
    assert levels[0].peak == pytest.approx(0.5)


def test_quitting_completes_the_take(tmp_path: Path, run: Callable[[object], Running]) -> None:
    running = run(ScriptedInputs(ScriptedInput(tone(1.0))))
    running.lane.put(StartTake("t", str(tmp_path / "t.wav"), None))
    running.wait(TakeStarted)
    running.stop()
    assert any(isinstance(event, TakeFinished) for event in running.events)
    assert soundfile.info(tmp_path / "t.wav").frames == RATE


def test_a_lost_microphone_keeps_what_was_recorded(
    tmp_path: Path, run: Callable[[object], Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(microphone_service, "LOST_AFTER", 0.2)
    running = run(ScriptedInputs(ScriptedInput(tone(1.0)), ScriptedInput(tone(0.5))))
    running.lane.put(StartTake("t", str(tmp_path / "1.wav"), None))
    finished = running.wait(TakeFinished)
    assert isinstance(finished, TakeFinished)
    assert finished.seconds == 1.0
    assert finished.error is not None
    assert "USB Headset" in finished.error.sentence()
    assert "is kept" in finished.error.sentence()
    assert soundfile.info(tmp_path / "1.wav").frames == RATE
    running.events.clear()
    running.lane.put(StartTake("u", str(tmp_path / "2.wav"), None))
    assert running.wait(TakeStarted)


def test_an_input_that_never_delivers_ends_the_take(
    tmp_path: Path, run: Callable[[object], Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(microphone_service, "FIRST_SOUND_WITHIN", 0.2)
    running = run(ScriptedInputs(ScriptedInput([])))
    running.lane.put(StartTake("t", str(tmp_path / "t.wav"), None))
    finished = running.wait(TakeFinished)
    assert isinstance(finished, TakeFinished)
    assert finished.seconds == 0
    assert finished.error is not None


def test_an_input_that_cannot_be_opened_fails_the_take(
    tmp_path: Path, run: Callable[[object], Running]
) -> None:
    running = run(ScriptedInputs())
    running.lane.put(StartTake("t", str(tmp_path / "t.wav"), "ALSA/USB Headset"))
    failed = running.wait(Failed)
    assert isinstance(failed, Failed)
    assert failed.error.code == "microphone"
    assert not (tmp_path / "t.wav").exists()


def test_a_second_take_does_not_disturb_the_first(tmp_path: Path, run: Callable[[object], Running]) -> None:
    running = run(ScriptedInputs(ScriptedInput(tone(1.0)), ScriptedInput(tone(1.0))))
    running.lane.put(StartTake("t", str(tmp_path / "1.wav"), None))
    running.lane.put(StartTake("u", str(tmp_path / "2.wav"), None))
    failed = running.wait(Failed)
    assert isinstance(failed, Failed)
    assert failed.request_id == "u"
    running.lane.put(StopTake("u"))
    running.lane.put(StopTake("t"))
    finished = running.wait(TakeFinished)
    assert isinstance(finished, TakeFinished)
    assert (finished.request_id, finished.error) == ("t", None)


def test_an_existing_file_is_never_overwritten(tmp_path: Path, run: Callable[[object], Running]) -> None:
    path = tmp_path / "take.wav"
    path.write_bytes(b"precious")
    source = ScriptedInput(tone(1.0))
    running = run(ScriptedInputs(source))
    running.lane.put(StartTake("t", str(path), None))
    assert running.wait(Failed)
    assert source.closed
    assert path.read_bytes() == b"precious"


def test_a_full_disk_ends_the_take_in_words(
    tmp_path: Path, run: Callable[[object], Running], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(self: soundfile.SoundFile, data: object) -> None:
        raise OSError(28, "No space left on device")

    running = run(ScriptedInputs(ScriptedInput(tone(1.0))))
    monkeypatch.setattr(soundfile.SoundFile, "write", full)
    running.lane.put(StartTake("t", str(tmp_path / "t.wav"), None))
    finished = running.wait(TakeFinished)
    assert isinstance(finished, TakeFinished)
    assert finished.error is not None
    assert finished.error.code == "storage.full"


def test_the_list_says_when_there_is_nothing(run: Callable[[object], Running]) -> None:
    running = run(ScriptedInputs())
    running.lane.put(ListMicrophones())
    listed = running.wait(MicrophonesListed)
    assert isinstance(listed, MicrophonesListed)
    assert listed.microphones == ()
    assert listed.error is not None
    assert "No microphone" in listed.error.summary


def test_devices_with_odd_names_are_told_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Handy#1983's relatives: twins, and names that say nothing."""
    device = capture.portaudio.Device(3, "Mic", "ALSA", 1, 48_000, is_default=False)
    twin = capture.portaudio.Device(4, "Mic", "ALSA", 2, 48_000, is_default=True)
    monkeypatch.setattr(capture.portaudio, "devices", lambda _direction: [twin, device])
    listed = PortAudioInputs().list()
    assert [microphone.key for microphone in listed] == ["ALSA/Mic", "ALSA/Mic (2)"]
    assert [microphone.is_default for microphone in listed] == [True, False]
    with pytest.raises(MicrophoneError, match="“Gone” is not connected"):
        PortAudioInputs().open("ALSA/Gone")


def test_a_missing_portaudio_names_the_package(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "sounddevice", None)

    class Finder:
        def find_spec(self, name: str, *_: object) -> None:
            if name == "sounddevice":
                raise OSError("PortAudio library not found")

    monkeypatch.delitem(sys.modules, "sounddevice")
    monkeypatch.setattr(sys, "meta_path", [Finder(), *sys.meta_path])
    with pytest.raises(MicrophoneError) as caught:
        PortAudioInputs().list()
    assert "sudo apt install libportaudio2" in caught.value.remedy


def test_a_take_survives_a_kill(tmp_path: Path) -> None:
    path = tmp_path / "take.wav"
    program = (
        "import sys, time, numpy as np\n"
        "from pathlib import Path\n"
        "from runtime.audio.capture import Take\n"
        "Take._FLUSH_SECONDS = 0.0\n"
        "take = Take(Path(sys.argv[1]), 16000)\n"
        "for _ in range(40):\n"
        "    take.write(np.full(1600, 0.25, np.float32))\n"
        "print('ready', flush=True)\n"
        "time.sleep(60)\n"
    )
    process = subprocess.Popen([sys.executable, "-c", program, str(path)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    with process.stdout:
        assert process.stdout.readline() == "ready\n"
        os.kill(process.pid, signal.SIGKILL)
        process.wait()
    from tests.runtime.audio.test_decode import read

    sound, _ = read(path)
    assert len(sound) == 4 * RATE
    assert np.abs(sound - 0.25).max() < 1e-3


def test_a_take_says_when_its_folder_cannot_be_made(tmp_path: Path) -> None:
    from runtime.errors import StorageError

    (tmp_path / "media").write_text("in the way")
    with pytest.raises(StorageError, match=r"take\.wav"):
        Take(tmp_path / "media" / "take.wav", RATE)
