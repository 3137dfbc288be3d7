"""`mblt-model.json`: what an installed model folder holds, with the size and hash of every file.

It is written last, so a folder that has it and all the files it lists is complete.
"""

from __future__ import annotations

import json
import os
import stat
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from pathlib import Path, PurePosixPath
from typing import Any, cast, get_args

from runtime.catalog.download import hash_files
from runtime.catalog.entries import DeviceKind
from runtime.catalog.job import Job
from runtime.errors import ModelDamagedError, ModelIncompleteError
from runtime.messages import ModelKind
from runtime.model_folder import read_object

MANIFEST = "mblt-model.json"
_FORMAT = 1
_MAX_BYTES = 4 << 20


@dataclass(frozen=True, slots=True)
class FileRecord:
    """One file of the model, `path` relative to the folder with forward slashes."""

    path: str
    bytes: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Description:
    """What a person wants to know about a model before loading it."""

    model_id: str
    title: str
    kind: ModelKind
    family: str
    device: DeviceKind
    licence: str
    note: str = ""


@dataclass(frozen=True, slots=True)
class Manifest:
    """The description of an installed model and its files."""

    about: Description
    files: tuple[FileRecord, ...]

    @property
    def bytes(self) -> int:
        """What the model's files take on the disk."""
        return sum(item.bytes for item in self.files)


def write_manifest(folder: Path, about: Description, job: Job) -> Manifest:
    """Hash every file below `folder` and write the manifest last."""
    paths = sorted(path for path in folder.rglob("*") if path.is_file() and path.name != MANIFEST)
    hashes = hash_files(paths, job, "Recording the files")
    records = tuple(
        FileRecord(path.relative_to(folder).as_posix(), path.stat().st_size, sha256)
        for path, sha256 in zip(paths, hashes, strict=True)
    )
    document = {"format": _FORMAT, **asdict(about), "files": [asdict(item) for item in records]}
    unfinished = folder / (MANIFEST + ".new")
    unfinished.write_text(json.dumps(document, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")
    os.replace(unfinished, folder / MANIFEST)
    return Manifest(about, records)


def read_manifest(folder: Path) -> Manifest:
    """The folder's manifest, every field checked.

    Raises ModelIncompleteError when there is none, ModelDamagedError when it cannot be understood.
    """
    path = folder / MANIFEST
    try:
        if path.stat().st_size > _MAX_BYTES:
            raise ValueError("too large")
        return _parsed(read_object(path))
    except FileNotFoundError as error:
        raise ModelIncompleteError(
            f"{folder.name} has no {MANIFEST}, so it was not installed completely.",
            remedy="Fetch the model again, or remove the folder.",
        ) from error
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise ModelDamagedError(
            f"{MANIFEST} of {folder.name} cannot be read.",
            remedy="Fetch the model again.",
            detail=f"{type(error).__name__}: {error}",
        ) from error


def missing_files(folder: Path, manifest: Manifest) -> list[str]:
    """Files that are not there, or not of their size; quick, no hashing."""
    return [item.path for item in manifest.files if not _has_size(folder / item.path, item.bytes)]


def damaged_files(folder: Path, manifest: Manifest, job: Job) -> list[str]:
    """Files whose content is not what was installed; reads everything."""
    hashes = hash_files([folder / item.path for item in manifest.files], job, "Checking the files")
    return [item.path for item, sha256 in zip(manifest.files, hashes, strict=True) if item.sha256 != sha256]


def _has_size(path: Path, size: int) -> bool:
    try:
        status = path.stat()
    except OSError:
        return False
    return stat.S_ISREG(status.st_mode) and status.st_size == size


def _parsed(document: Mapping[str, Any]) -> Manifest:
    if document["format"] != _FORMAT:
        raise ValueError(f"format {document['format']}")
    words = {
        name: _text(document[name])
        for name in ("model_id", "title", "kind", "family", "device", "licence", "note")
    }
    if words["kind"] not in get_args(ModelKind) or words["device"] not in get_args(DeviceKind):
        raise ValueError(f"kind {words['kind']}, device {words['device']}")
    files = tuple(
        FileRecord(_inside(item["path"]), int(item["bytes"]), _text(item["sha256"]))
        for item in document["files"]
    )
    kind, device = cast("ModelKind", words.pop("kind")), cast("DeviceKind", words.pop("device"))
    return Manifest(Description(kind=kind, device=device, **words), files)


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError(f"{value!r} is not a text")
    return value


def _inside(value: object) -> str:
    """A relative path that stays inside the folder."""
    path = PurePosixPath(_text(value))
    if path.is_absolute() or ".." in path.parts or "\\" in str(path):
        raise ValueError(f"{path} leads out of the folder")
    return str(path)
