"""KV of conversations on the disk: written whole or not at all, and checked before anybody uses it. No torch.

    kv/<model>/<conversation>/manifest.json     what it stands for, which data, and the hash of every file
                              data-<number>/    as the vendor's runtime wrote it

Both names are digests. Every write makes a data folder of its own and then replaces the manifest, so that a
crash, or another program at the same conversation, leaves one whole state and never a mixture; what is torn
all the same does not pass the hashes. Nobody but the user may look inside.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
import shutil
import time
import uuid
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.kv.reuse import Said, TurnMark
from runtime.storage import bytes_below

FORMAT = 2
_MANIFEST = "manifest.json"
_LONGEST_MANIFEST = 64 << 20
"""Bytes."""
_DATA = re.compile(r"data-[0-9a-f]{32}")
_STALE_SECONDS = 3600
"""What has no manifest and is older was left by a crash; before, somebody may just be writing it."""
_PIECE = 1 << 20


class KvRejectedError(Exception):
    """What the disk holds cannot be used; the message says why. The KV is computed again."""


@dataclass(frozen=True, slots=True)
class ModelKey:
    """Which model, laid out how, some KV belongs to."""

    model_id: str
    layout: str
    digest: str
    """Of everything that must be equal: the artifact's files, the layout, the shapes of the KV."""


@dataclass(frozen=True, slots=True)
class Record:
    """A conversation's KV on the disk."""

    folder: Path
    data: str
    """The name of the folder with the files."""
    key: ModelKey
    identity: tuple[Hashable, ...]
    """What each position stands for."""
    said: Said
    files: dict[str, tuple[int, str]]
    """Size and SHA-256 by name, which is a path below the data folder."""

    @property
    def nbytes(self) -> int:
        """Bytes to load."""
        return sum(size for size, _ in self.files.values())

    def checked(self) -> Path:
        """The folder of the data, every byte compared with its hash. Raises KvRejectedError."""
        data = self.folder / self.data
        if set(self.files) != set(_files(data)):
            raise KvRejectedError(f"{data} does not hold the files that were written")
        for name, (size, digest) in self.files.items():
            path = data / name
            try:
                good = path.stat().st_size == size and _sha256(path) == digest
            except OSError as error:
                raise KvRejectedError(f"{path} cannot be read: {error.strerror}") from error
            if not good:
                raise KvRejectedError(f"{path} is damaged")
        with suppress(OSError):
            os.utime(self.folder / _MANIFEST)  # used now
        return data


class KvStore:
    """The folder of all kept KV."""

    def __init__(self, root: Path) -> None:
        self._root = root

    def find(self, key: ModelKey, conversation_id: str) -> Record | None:
        """What is kept for that model, else for another one of which it cannot be used, else None.

        Raises KvRejectedError when the manifest is damaged.
        """
        name = _name(conversation_id)
        exact = self._root / key.digest / name
        if (exact / _MANIFEST).exists():
            return _read(exact)
        others = [
            folder for folder in self._folders() if folder.name == name and (folder / _MANIFEST).exists()
        ]
        return _read(others[0]) if others else None

    def save(
        self,
        key: ModelKey,
        conversation_id: str,
        identity: Sequence[Hashable],
        said: Said,
        dump: Callable[[str], None],
    ) -> None:
        """Keep a conversation's KV, in place of what was kept of it for that model.

        `dump` writes the files into the folder it is given. Raises OSError when the disk refuses.
        """
        folder = self._root / key.digest / _name(conversation_id)
        data = folder / f"data-{uuid.uuid4().hex}"
        draft = folder / f"{data.name}.json"
        self._make_private(data)
        try:
            dump(str(data))
            draft.write_text(sealed(_manifest(data, key, identity, said)), encoding="utf-8")
            former = _data_of(folder)
            draft.replace(folder / _MANIFEST)
        except Exception:
            shutil.rmtree(data, ignore_errors=True)
            with suppress(OSError):
                draft.unlink(missing_ok=True)
                folder.rmdir()  # only if nothing else is in it
            raise
        for other in _entries(folder):
            unnamed = other.name not in (_MANIFEST, data.name)
            if unnamed and (other.name == former or _is_stale(other)):
                _remove(other)

    def forget(self, conversation_id: str) -> None:
        """Delete what is kept of the conversation, for whatever model."""
        name = _name(conversation_id)
        for folder in self._folders():
            if folder.name == name:
                _remove(folder)

    def trim(self, most_bytes: int) -> None:
        """Delete what a crash left unfinished, and what was used longest ago beyond so many bytes."""
        known: list[tuple[float, int, Path]] = []
        for folder in self._folders():
            with suppress(OSError):  # gone meanwhile
                manifest = folder / _MANIFEST
                if manifest.exists():
                    known.append((manifest.stat().st_mtime, bytes_below(folder), folder))
                elif _is_stale(folder):
                    _remove(folder)
        total = 0
        for _, size, folder in sorted(known, reverse=True):
            total += size
            if total > most_bytes:
                _remove(folder)

    def _folders(self) -> list[Path]:
        return [folder for model in _entries(self._root) for folder in _entries(model)]

    def _make_private(self, folder: Path) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root.chmod(0o700)
        folder.mkdir(parents=True)


def _manifest(data: Path, key: ModelKey, identity: Sequence[Hashable], said: Said) -> dict[str, object]:
    return {
        "format": FORMAT,
        "model": [key.model_id, key.layout, key.digest],
        "identity": list(identity),
        "turns": [[mark.role, mark.text, mark.pictures] for mark in said.marks()],
        "left_out": said.left_out,
        "data": data.name,
        "files": {name: [(data / name).stat().st_size, _sha256(data / name)] for name in _files(data)},
    }


def sealed(manifest: dict[str, object]) -> str:
    """The text of a manifest: its JSON on one line, and the SHA-256 of that line on the next."""
    text = json.dumps(manifest)
    return f"{text}\n{hashlib.sha256(text.encode()).hexdigest()}\n"


def _unsealed(text: str) -> dict[str, Any]:
    """Raises ValueError when it is not what `sealed` has made, whole."""
    manifest: dict[str, Any] = json.loads(text.partition("\n")[0])
    if sealed(manifest) != text:
        raise ValueError("not as it was written")
    return manifest


def _read(folder: Path) -> Record:
    path = folder / _MANIFEST
    try:
        if path.stat().st_size > _LONGEST_MANIFEST:
            raise ValueError("longer than any that was written")
        return _record(folder, _unsealed(path.read_text(encoding="utf-8")))
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise KvRejectedError(f"{path} is damaged") from error


def _record(folder: Path, manifest: dict[str, Any]) -> Record:
    """Raises ValueError, KeyError, TypeError or AttributeError unless everything is as `save` writes it."""
    if manifest["format"] != FORMAT:
        raise ValueError("another version's")
    model_id, layout, digest = (str(part) for part in manifest["model"])
    files = {str(name): (int(size), str(sha)) for name, (size, sha) in manifest["files"].items()}
    if not _DATA.fullmatch(manifest["data"]):
        raise ValueError("a name that may lead out of the folder")
    return Record(
        folder=folder,
        data=manifest["data"],
        key=ModelKey(model_id, layout, digest),
        identity=tuple(_item(item) for item in manifest["identity"]),
        said=Said(
            tuple(
                TurnMark(str(role), str(text), str(pictures)) for role, text, pictures in manifest["turns"]
            ),
            int(manifest["left_out"]),
        ),
        files=files,
    )


def _item(item: object) -> Hashable:
    """A token, or a token and the digest of the picture it stands for."""
    if isinstance(item, list):
        token, digest = item
        return int(token), str(digest)
    if type(item) is not int:
        raise TypeError("no token")
    return item


def _files(data: Path) -> list[str]:
    """What lies below the folder, as paths from it."""
    return sorted(path.relative_to(data).as_posix() for path in data.rglob("*") if not path.is_dir())


def _entries(folder: Path) -> list[Path]:
    """What lies in the folder; nothing if it is none."""
    try:
        return list(folder.iterdir())
    except OSError:
        return []


def _data_of(folder: Path) -> str:
    """The name of the data that the manifest names; empty if there is none or it is damaged."""
    try:
        return _read(folder).data
    except KvRejectedError:
        return ""


def _is_stale(path: Path) -> bool:
    try:
        return time.time() - path.stat().st_mtime > _STALE_SECONDS
    except OSError:  # another program has removed it
        return False


def _remove(path: Path) -> None:
    """Delete a file, or a folder with what is in it."""
    if path.is_dir() and not path.is_symlink():
        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            path.unlink()


def _name(conversation_id: str) -> str:
    return hashlib.sha256(conversation_id.encode()).hexdigest()[:32]


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
