"""The manifest: written last, read with suspicion."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import pytest

from runtime.catalog.job import Job
from runtime.catalog.manifest import (
    MANIFEST,
    Description,
    damaged_files,
    missing_files,
    read_manifest,
    write_manifest,
)
from runtime.errors import ModelDamagedError, ModelIncompleteError

ABOUT = Description("m", "M", "chat", "llama", "simulated", "MIT", "A note.")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A model folder with a file in a subfolder."""
    (tmp_path / "sub").mkdir()
    (tmp_path / "config.json").write_bytes(b"{}")
    (tmp_path / "sub" / "weights.bin").write_bytes(b"abc")
    return tmp_path


def test_it_lists_every_file_with_size_and_hash(folder: Path, job: Job) -> None:
    written = write_manifest(folder, ABOUT, job)
    assert read_manifest(folder) == written
    assert written.about == ABOUT
    assert {(item.path, item.bytes, item.sha256) for item in written.files} == {
        ("config.json", 2, hashlib.sha256(b"{}").hexdigest()),
        ("sub/weights.bin", 3, hashlib.sha256(b"abc").hexdigest()),
    }
    assert written.bytes == 5
    assert missing_files(folder, written) == []
    assert damaged_files(folder, written, job) == []


def test_missing_short_and_changed_files_are_named(folder: Path, job: Job) -> None:
    manifest = write_manifest(folder, ABOUT, job)
    (folder / "sub" / "weights.bin").write_bytes(b"xyz")
    assert missing_files(folder, manifest) == []
    assert damaged_files(folder, manifest, job) == ["sub/weights.bin"]
    (folder / "sub" / "weights.bin").write_bytes(b"ab")
    assert missing_files(folder, manifest) == ["sub/weights.bin"]
    (folder / "config.json").unlink()
    (folder / "config.json").mkdir()
    assert missing_files(folder, manifest) == ["config.json", "sub/weights.bin"]


def test_a_folder_without_one_is_incomplete(folder: Path) -> None:
    with pytest.raises(ModelIncompleteError, match="was not installed completely"):
        read_manifest(folder)


def _document(**changes: object) -> dict[str, object]:
    document: dict[str, object] = {
        "format": 1,
        "model_id": "m",
        "title": "M",
        "kind": "chat",
        "family": "llama",
        "device": "cpu",
        "licence": "MIT",
        "note": "",
        "files": [],
    }
    return document | changes


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "null",
        "{",
        "\x00",
        json.dumps(_document(format=2)),
        json.dumps(_document(kind="dance")),
        json.dumps(_document(device="toaster")),
        json.dumps(_document(title=3)),
        json.dumps(_document(files=[{"path": "a"}])),
        json.dumps(_document(files=[{"path": "../../etc/passwd", "bytes": 1, "sha256": "0"}])),
        json.dumps(_document(files=[{"path": "/etc/passwd", "bytes": 1, "sha256": "0"}])),
        json.dumps(_document(files=[{"path": "a", "bytes": "many", "sha256": "0"}])),
        json.dumps(_document(files=5)),
    ],
)
def test_nonsense_is_refused_in_one_sentence(folder: Path, text: str) -> None:
    (folder / MANIFEST).write_text(text)
    with pytest.raises(ModelDamagedError, match=f"{MANIFEST} of {folder.name} cannot be read"):
        read_manifest(folder)


def test_a_huge_one_is_not_read(folder: Path) -> None:
    with (folder / MANIFEST).open("wb") as file:
        file.truncate(1 << 40)
    with pytest.raises(ModelDamagedError):
        read_manifest(folder)
