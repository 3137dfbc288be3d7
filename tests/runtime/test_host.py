"""The door to the runtime: lanes start at their first command and none after the end."""

from __future__ import annotations

from pathlib import Path

from runtime.config import RuntimeConfig
from runtime.host import Host
from runtime.lane import Lane
from runtime.messages import ListMicrophones, StopAudio


class Runner:
    """Remembers whether it was started."""

    def __init__(self, lane: Lane) -> None:
        self.name = lane.name
        self.started = False
        RUNNERS.append(self)

    def start(self) -> None:
        self.started = True

    def join(self, seconds: float) -> bool:
        return True


RUNNERS: list[Runner] = []


def test_a_lane_starts_at_its_first_command_and_never_after_the_end(tmp_path: Path) -> None:
    RUNNERS.clear()
    host = Host(RuntimeConfig(tmp_path), lambda: None, Runner)
    host.submit(ListMicrophones())
    assert [runner.name for runner in RUNNERS if runner.started] == ["microphone"]
    assert host.stop() == []
    host.submit(StopAudio("p"))
    assert [runner.name for runner in RUNNERS if runner.started] == ["microphone"]
