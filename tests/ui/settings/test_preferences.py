"""Preferences: kept, corrected, saved, and never in the way."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest
from pytestqt.qtbot import QtBot

from mblt_desktop.settings import file
from mblt_desktop.settings.preferences import Preferences
from runtime.errors import SettingError


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "config" / "settings.json"


def test_the_first_start_has_defaults_and_writes_nothing(path: Path) -> None:
    preferences = Preferences(path)
    assert preferences.problems == []
    assert preferences.get("sampling.temperature") is None
    assert preferences.text("appearance.theme") == "system"
    assert preferences.flag("sampling.apply_penalties")
    preferences.flush()
    assert not path.parent.exists()


def test_a_change_is_told_once_and_is_there_after_a_restart(path: Path, qtbot: QtBot) -> None:
    preferences = Preferences(path)
    keys: list[str] = []
    preferences.changed.connect(keys.append)
    preferences.set("sampling.temperature", 0.5)
    preferences.set("sampling.temperature", 0.5)
    preferences.set("layout.cores", ["0:0:0", "0:0:1"])
    assert keys == ["sampling.temperature", "layout.cores"]
    qtbot.waitUntil(path.exists)
    again = Preferences(path)
    assert again.get("sampling.temperature") == 0.5
    assert again.get("layout.cores") == ("0:0:0", "0:0:1")
    assert again.is_set("layout.cores")


def test_going_back_to_the_default_leaves_nothing_in_the_file(path: Path) -> None:
    preferences = Preferences(path)
    preferences.set("sampling.temperature", 0.5)
    preferences.set("appearance.theme", "dark")
    preferences.reset("sampling.temperature")
    preferences.set("appearance.theme", "system")
    preferences.flush()
    assert json.loads(path.read_text(encoding="utf-8")) == {}
    assert not preferences.is_set("appearance.theme")


def test_a_value_that_the_setting_does_not_take_changes_nothing(path: Path) -> None:
    preferences = Preferences(path)
    preferences.set("sampling.top_p", 0.9)
    with pytest.raises(SettingError, match=r"Top-p .* does not take “1\.5”"):
        preferences.set("sampling.top_p", 1.5)
    assert preferences.get("sampling.top_p") == 0.9


def test_what_a_newer_version_wrote_is_kept(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"future.thing": {"a": [1]}, "sampling.top_k": 40}', encoding="utf-8")
    preferences = Preferences(path)
    preferences.set("sampling.top_k", 41)
    preferences.flush()
    assert json.loads(path.read_text(encoding="utf-8")) == {"future.thing": {"a": [1]}, "sampling.top_k": 41}


def test_one_impossible_value_costs_only_itself(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"sampling.temperature": "hot", "sampling.top_k": 40}', encoding="utf-8")
    preferences = Preferences(path)
    assert preferences.get("sampling.temperature") is None
    assert preferences.get("sampling.top_k") == 40
    (problem,) = preferences.problems
    assert "does not take “hot” in" in problem.summary
    assert str(path) in problem.summary
    preferences.set("sampling.top_k", 41)
    preferences.flush()
    assert json.loads(path.read_text(encoding="utf-8"))["sampling.temperature"] == "hot"


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[1, 2]",
        b'{"sampling.temperature": NaN}',
        b"\xff\xfe\x00",
        b"[" * 100_000,
        b" " * 1_000_001,
    ],
    ids=["empty", "cut", "list", "nan", "binary", "deep", "huge"],
)
def test_a_damaged_file_is_kept_aside_and_said(path: Path, content: bytes) -> None:
    path.parent.mkdir()
    path.write_bytes(content)
    preferences = Preferences(path)
    assert preferences.get("sampling.temperature") is None
    (problem,) = preferences.problems
    assert problem.code == "storage.corrupt"
    assert str(path) in problem.summary
    (aside,) = path.parent.iterdir()
    assert aside.name.startswith("settings.damaged-")
    assert aside.name in problem.remedy
    assert aside.read_bytes() == content
    preferences.set("sampling.top_k", 3)
    preferences.flush()
    assert json.loads(path.read_text(encoding="utf-8")) == {"sampling.top_k": 3}
    assert aside.read_bytes() == content


def test_a_second_damaged_file_does_not_replace_the_first(path: Path) -> None:
    path.parent.mkdir()
    for content in (b"one", b"two"):
        path.write_bytes(content)
        Preferences(path)
    assert {entry.read_bytes() for entry in path.parent.iterdir()} == {b"one", b"two"}


def test_a_folder_that_cannot_be_written_is_said_once_and_the_settings_still_hold(
    tmp_path: Path, qtbot: QtBot
) -> None:
    # A file where the folder should be: refused for every user, root included.
    blocked = tmp_path / "blocked"
    blocked.write_text("", encoding="utf-8")
    preferences = Preferences(blocked / "settings.json")
    preferences.problems.clear()
    with qtbot.waitSignal(preferences.problem_found) as caught:
        preferences.set("sampling.top_k", 5)
    (problem,) = caught.args
    assert "not saved" in problem.unharmed
    assert problem.remedy
    assert preferences.get("sampling.top_k") == 5
    preferences.set("sampling.top_k", 6)
    preferences.flush()
    assert preferences.problems == [problem]
    assert preferences.get("sampling.top_k") == 6


def test_a_read_only_folder_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(os, "fsync", refuse)
    preferences = Preferences(tmp_path / "settings.json")
    preferences.set("sampling.top_k", 5)
    preferences.flush()
    (problem,) = preferences.problems
    assert problem.code == "storage.read_only"
    assert str(tmp_path / "settings.json") in problem.summary
    assert list(tmp_path.glob("*")) == [], "no half-written file is left"


def test_a_failed_write_leaves_the_former_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "settings.json"
    file.write(path, {"a": 1})

    def full(*_args: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(Exception, match="is full"):
        file.write(path, {"a": 2})
    assert json.loads(path.read_text(encoding="utf-8")) == {"a": 1}
    assert list(tmp_path.iterdir()) == [path]


def test_half_characters_of_a_file_do_not_stop_the_saving(path: Path) -> None:
    path.parent.mkdir()
    path.write_text('{"of.a.newer.version": "\\udc00"}')
    preferences = Preferences(path)
    preferences.set("sampling.top_k", 5)
    preferences.flush()
    assert preferences.problems == []
    assert Preferences(path).get("sampling.top_k") == 5
