"""A second start gives its files to the window that is open."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from mblt_desktop import door as door_module
from mblt_desktop.door import Door, hand_over


@pytest.fixture
def door(qapp: object, tmp_path: Path) -> Iterator[Door]:
    door = Door(tmp_path)
    door.received = []
    door.files_received.connect(door.received.append)
    yield door
    door.close()


def knock(qtbot: QtBot, data: Path, files: list[Path]) -> bool:
    """A second start, in a thread of its own so that the window's thread can answer."""
    with ThreadPoolExecutor(1) as pool:
        answer = pool.submit(hand_over, data, files)
        qtbot.waitUntil(answer.done)
        return answer.result()


def test_files_go_to_the_open_window(qtbot: QtBot, door: Door, tmp_path: Path) -> None:
    files = [Path("/a/회의 녹음.wav"), Path("/b/photo.png")]
    assert knock(qtbot, tmp_path, files)
    assert knock(qtbot, tmp_path, [])
    assert door.received == [files, []]


def test_without_a_window_or_on_another_data_folder_a_start_goes_on(
    qtbot: QtBot, door: Door, tmp_path: Path
) -> None:
    assert not hand_over(tmp_path / "other", [])
    door.close()
    assert not hand_over(tmp_path, [])
    assert door.received == []


def test_a_window_that_hangs_does_not_keep_a_second_start_waiting(
    door: Door, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(door_module, "ANSWER_SECONDS", 0.05)
    assert not hand_over(tmp_path, []), "nothing runs the window's events here"
    second = Door(tmp_path)
    second.close()


def test_what_is_no_list_of_files_is_not_answered(qtbot: QtBot, door: Door, tmp_path: Path) -> None:
    for text in (b"{", b'{"a": 1}', b""):
        with socket.socket(socket.AF_UNIX) as caller:
            caller.connect(door_module._address(tmp_path))
            caller.sendall(text)
            caller.shutdown(socket.SHUT_WR)
            caller.settimeout(0.0)
            qtbot.wait(30)
            assert caller.recv(2) == b""
    assert door.received == []
