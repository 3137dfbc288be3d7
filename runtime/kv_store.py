"""KV of conversations on the disk: written whole or not at all, and checked before anybody uses it. No torch.

    kv/<model>/<conversation>/manifest.json     what it stands for, and the hash of every file
                              data/             as the vendor's runtime wrote it

Both names are digests. A folder is written beside its place and moved there, so that a crash leaves the old
one or none; what it tears all the same does not pass the hashes. Nobody but the user may look inside.
"""

from __future__ import annotations

import hashlib
import json
import os
import shutil
import time
from collections.abc import Callable, Hashable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.reuse import Said, TurnMark

FORMAT = 1
_MANIFEST = "manifest.json"
_DATA = "data"
_UNFINISHED = ".unfinished"
_STALE_SECONDS = 3600
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
    key: ModelKey
    identity: tuple[Hashable, ...]
    """What each position stands for."""
    said: Said
    files: dict[str, tuple[int, str]]
    """Size and SHA-256 by name."""

    @property
    def nbytes(self) -> int:
        """Bytes to load."""
        return sum(size for size, _ in self.files.values())

    def checked(self) -> Path:
        """The folder of the data, every byte compared with its hash. Raises KvRejectedError."""
        data = self.folder / _DATA
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
        if exact.is_dir():
            return _read(exact)
        others = [folder for folder in self._folders() if folder.name == name]
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
        target = self._root / key.digest / _name(conversation_id)
        partial = target.with_name(target.name + _UNFINISHED)
        shutil.rmtree(partial, ignore_errors=True)
        self._make_private(partial / _DATA)
        try:
            dump(str(partial / _DATA))
            _write(partial, key, identity, said)
            shutil.rmtree(target, ignore_errors=True)
            partial.rename(target)
        finally:
            shutil.rmtree(partial, ignore_errors=True)

    def forget(self, conversation_id: str) -> None:
        """Delete what is kept of the conversation, for whatever model."""
        name = _name(conversation_id)
        for folder in self._folders():
            if folder.name.removesuffix(_UNFINISHED) == name:
                shutil.rmtree(folder, ignore_errors=True)

    def trim(self, most_bytes: int) -> None:
        """Delete what a crash left unfinished, and what was used longest ago beyond so many bytes."""
        known: list[tuple[float, int, Path]] = []
        for folder in self._folders():
            try:
                used = (folder / _MANIFEST).stat().st_mtime
                size = sum(path.stat().st_size for path in folder.rglob("*") if path.is_file())
            except OSError:
                used, size = 0.0, 0
            if not folder.name.endswith(_UNFINISHED):
                known.append((used, size, folder))
            elif _age(folder) > _STALE_SECONDS:  # else another model may just be writing it
                shutil.rmtree(folder, ignore_errors=True)
        total = 0
        for _, size, folder in sorted(known, reverse=True):
            total += size
            if total > most_bytes:
                shutil.rmtree(folder, ignore_errors=True)

    def _folders(self) -> list[Path]:
        try:
            return [folder for model in self._root.iterdir() if model.is_dir() for folder in model.iterdir()]
        except OSError:
            return []

    def _make_private(self, folder: Path) -> None:
        self._root.mkdir(mode=0o700, parents=True, exist_ok=True)
        self._root.chmod(0o700)
        folder.mkdir(mode=0o700, parents=True)


def _write(folder: Path, key: ModelKey, identity: Sequence[Hashable], said: Said) -> None:
    data = folder / _DATA
    manifest = {
        "format": FORMAT,
        "model": [key.model_id, key.layout, key.digest],
        "identity": list(identity),
        "turns": [[mark.role, mark.text, mark.pictures] for mark in said.marks()],
        "left_out": said.left_out,
        "files": {path.name: [path.stat().st_size, _sha256(path)] for path in sorted(data.iterdir())},
    }
    (folder / _MANIFEST).write_text(json.dumps(manifest), encoding="utf-8")


def _read(folder: Path) -> Record:
    path = folder / _MANIFEST
    try:
        manifest = json.loads(path.read_text(encoding="utf-8"))
        return _record(folder, manifest)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, RecursionError) as error:
        raise KvRejectedError(f"{path} is damaged") from error


def _record(folder: Path, manifest: dict[str, Any]) -> Record:
    """Raises ValueError, KeyError, TypeError or AttributeError unless everything is as `_write` writes it."""
    if manifest["format"] != FORMAT:
        raise ValueError("another version's")
    model_id, layout, digest = (str(part) for part in manifest["model"])
    files = {str(name): (int(size), str(sha)) for name, (size, sha) in manifest["files"].items()}
    if any(Path(name).name != name for name in files):
        raise ValueError("a name that leads out of the folder")
    return Record(
        folder=folder,
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


def _age(folder: Path) -> float:
    try:
        return time.time() - folder.stat().st_mtime
    except OSError:
        return 0.0


def _name(conversation_id: str) -> str:
    return hashlib.sha256(conversation_id.encode("utf-8", "surrogatepass")).hexdigest()[:32]


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while piece := file.read(_PIECE):
            digest.update(piece)
    return digest.hexdigest()
