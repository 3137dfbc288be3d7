"""The door to the runtime: lanes start at their first command and none after the end."""

from __future__ import annotations

from pathlib import Path

from runtime.config import RuntimeConfig
from runtime.kv.reuse import Said
from runtime.kv.store import KvStore, ModelKey
from runtime.lanes.host import Host
from runtime.lanes.lane import Lane
from runtime.messages import ForgetConversation, ListMicrophones, StopAudio


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


def test_what_the_disk_keeps_of_a_deleted_conversation_goes_without_a_model(tmp_path: Path) -> None:
    store = KvStore(RuntimeConfig(tmp_path).kv_dir)
    key = ModelKey("m", "layout", "digest")

    def dump(folder: str) -> None:
        (Path(folder) / "cache.bin").write_bytes(b"kv")

    host = Host(RuntimeConfig(tmp_path), lambda: None)
    host.submit(ForgetConversation("nothing is kept"))
    for name in "ab":
        store.save(key, name, [1], Said(()), dump)
    host.submit(ForgetConversation("a"))
    assert host.stop() == []
    assert store.find(key, "a") is None
    assert store.find(key, "b") is not None
