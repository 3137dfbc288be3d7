"""The playback lane with a scripted loudspeaker: the right samples, from the right place, to the end."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import numpy as np
import pytest

from runtime.audio.playback_service import PlaybackService
from runtime.config import RuntimeConfig
from runtime.errors import MicrophoneError
from runtime.lanes.lane import CancelMarks, Lane
from runtime.messages import (
    AudioOutlined,
    Event,
    Failed,
    OutlineAudio,
    PlayAudio,
    PlaybackEnded,
    PlaybackMoved,
    StopAudio,
)
from tests.runtime.audio.media import RATE, SAMPLE, clip


class Loudspeaker:
    """Remembers what was played; `pace` seconds pass with each write."""

    rate = RATE
    latency = 0.1
    pace = 0.0
    made: list[Loudspeaker]

    def __init__(self) -> None:
        self.heard: list[np.ndarray] = []
        self.closed = False
        type(self).made.append(self)

    def write(self, samples: np.ndarray) -> None:
        time.sleep(self.pace)
        self.heard.append(samples)

    def close(self) -> None:
        self.closed = True


def run(output: type, *commands: object, until: type) -> list[Event]:
    """Run the lane until an event of that kind has come."""
    events: list[Event] = []
    came = threading.Event()

    def post(event: Event) -> None:
        events.append(event)
        if isinstance(event, until):
            came.set()

    config = RuntimeConfig(Path("/nowhere"))
    lane = Lane("playback", lambda *_: PlaybackService(config, post, CancelMarks(), output), post)
    for command in commands:
        lane.put(command)
    thread = threading.Thread(target=lane.run)
    thread.start()
    assert came.wait(20), events
    lane.stop()
    thread.join()
    return events


@pytest.fixture
def loudspeaker() -> type[Loudspeaker]:
    return type("Fresh", (Loudspeaker,), {"made": []})


def test_a_file_is_played_from_its_place_to_its_end(loudspeaker: type[Loudspeaker]) -> None:
    events = run(loudspeaker, PlayAudio("p", str(SAMPLE), 4.0), until=PlaybackEnded)
    heard = np.concatenate(loudspeaker.made[0].heard)
    expected = np.concatenate((clip()[4 * RATE :], np.zeros(int(0.1 * RATE), np.float32)))
    assert len(heard) == len(expected)
    assert np.abs(heard - expected).max() < 1e-4
    assert loudspeaker.made[0].closed
    ended = events[-1]
    assert isinstance(ended, PlaybackEnded)
    assert ended.at_end
    assert ended.position == pytest.approx(11.0)
    positions = [event.position for event in events if isinstance(event, PlaybackMoved)]
    assert positions == sorted(positions)
    assert positions[0] == pytest.approx(4.0, abs=0.06)


def test_stopping_keeps_the_place(loudspeaker: type[Loudspeaker]) -> None:
    loudspeaker.pace = 0.01
    events = run(loudspeaker, PlayAudio("p", str(SAMPLE), 2.0), StopAudio("p"), until=PlaybackEnded)
    ended = next(event for event in events if isinstance(event, PlaybackEnded))
    assert not ended.at_end
    assert 1.8 < ended.position < 4.0


def test_another_file_replaces_the_first(loudspeaker: type[Loudspeaker]) -> None:
    loudspeaker.pace = 0.005
    commands = (PlayAudio("p", str(SAMPLE), 0.0), PlayAudio("q", str(SAMPLE), 10.5))
    events = run(loudspeaker, *commands, until=PlaybackEnded)
    assert [speaker.closed for speaker in loudspeaker.made] == [True, True]
    ended = [event for event in events if isinstance(event, PlaybackEnded)]
    assert ended[0].request_id == "p"


def test_no_loudspeaker_and_no_file_are_said_so(loudspeaker: type[Loudspeaker], tmp_path: Path) -> None:
    class Missing:
        def __init__(self) -> None:
            raise MicrophoneError("No loudspeaker was found.", remedy="Connect one.")

    failed = run(Missing, PlayAudio("p", str(SAMPLE), 0.0), until=Failed)[-1]
    assert isinstance(failed, Failed)
    assert "No loudspeaker" in failed.error.summary
    failed = run(loudspeaker, PlayAudio("p", str(tmp_path / "gone.wav"), 0.0), until=Failed)[-1]
    assert isinstance(failed, Failed)
    assert "gone.wav" in failed.error.summary
    assert loudspeaker.made[0].closed


def test_a_file_is_outlined_also_while_another_plays(loudspeaker: type[Loudspeaker]) -> None:
    loudspeaker.pace = 0.001
    commands = (PlayAudio("p", str(SAMPLE), 0.0), OutlineAudio("o", str(SAMPLE)))
    events = run(loudspeaker, *commands, until=AudioOutlined)
    outlined = next(event for event in events if isinstance(event, AudioOutlined))
    assert outlined.duration == 11.0
    assert max(outlined.outline) == pytest.approx(float(np.abs(clip()).max()), abs=0.001)


def test_a_file_that_cannot_be_read_has_no_outline(loudspeaker: type[Loudspeaker], tmp_path: Path) -> None:
    outlined = run(loudspeaker, OutlineAudio("o", str(tmp_path / "gone.wav")), until=AudioOutlined)[-1]
    assert outlined == AudioOutlined("o", (), 0.0)
