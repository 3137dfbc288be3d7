"""The models on this machine's disk: list, verify, remove, and the checks every path goes through."""

from __future__ import annotations

import fcntl
import os
import re
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from runtime.catalog.entries import DEMO_ENTRIES, DeviceKind, Entry, WheelSource
from runtime.catalog.job import Job
from runtime.catalog.kinds import why_unused
from runtime.catalog.manifest import Manifest, damaged_files, missing_files, read_manifest
from runtime.config import RuntimeConfig
from runtime.errors import (
    DownloadError,
    ModelDamagedError,
    ModelError,
    ModelIncompleteError,
    ModelNotFoundError,
    storage_error,
)
from runtime.messages import CatalogRow
from runtime.storage import bytes_below

_MODEL_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]{0,127}")
_UNHARMED = "Your other models are unharmed."


class Library:
    """The model folders below one data folder; every method may be called from any one thread at a time."""

    def __init__(self, config: RuntimeConfig, entries: tuple[Entry, ...] = DEMO_ENTRIES) -> None:
        self.models_dir = config.models_dir
        self.downloads_dir = config.downloads_dir
        self.entries = entries

    def entry(self, model_id: str) -> Entry:
        """The catalogue's entry of that name. Raises ModelNotFoundError."""
        for entry in self.entries:
            if entry.model_id == model_id:
                return entry
        known = ", ".join(entry.model_id for entry in self.entries)
        raise ModelNotFoundError(
            f"There is no model {model_id!r} in the catalogue.", remedy=f"Choose one of: {known}."
        )

    def folder(self, model_id: str) -> Path:
        """Where the model is, or will be. Raises ModelNotFoundError for a name that is no plain name."""
        if not _MODEL_ID.fullmatch(model_id):
            raise ModelNotFoundError(
                f"{model_id!r} is not the name of a model.",
                remedy="Names have letters, digits, dots, dashes and underscores only.",
            )
        return self.models_dir / model_id

    def installed(self, model_id: str) -> Manifest | None:
        """The manifest of a completely installed model (sizes checked, nothing hashed), else None."""
        folder = self.folder(model_id)
        try:
            manifest = read_manifest(folder)
        except ModelError:
            return None
        return None if missing_files(folder, manifest) else manifest

    def rows(self) -> tuple[CatalogRow, ...]:
        """Installed models first as the folders have them, then what the catalogue offers."""
        known = {entry.model_id for entry in self.entries}
        own = [self._own_row(name) for name in self._folders() if name not in known]
        return tuple(self._entry_row(entry) for entry in self.entries) + tuple(own)

    def verify(self, model_id: str, job: Job) -> Manifest:
        """Read every file of the model and compare it with what was installed.

        Raises ModelNotFoundError, ModelIncompleteError or ModelDamagedError, naming the files.
        """
        folder = self.folder(model_id)
        if not folder.is_dir():
            raise self._not_installed(model_id)
        manifest = read_manifest(folder)
        if missing := missing_files(folder, manifest):
            raise ModelIncompleteError(
                f"{manifest.about.title} misses {_named(missing)}.",
                unharmed=_UNHARMED,
                remedy="Fetch the model again.",
                detail="\n".join(missing),
            )
        try:
            damaged = damaged_files(folder, manifest, job)
        except OSError as error:
            raise storage_error(error, str(folder), unharmed=_UNHARMED) from error
        if damaged:
            raise ModelDamagedError(
                f"{manifest.about.title} has changed on the disk: {_named(damaged)}.",
                unharmed=_UNHARMED,
                remedy="Fetch the model again.",
                detail="\n".join(damaged),
            )
        return manifest

    def remove(self, model_id: str) -> int:
        """Delete the model and what is left of its download; returns the bytes that were freed.

        The folder is renamed first: a removal that is cut short never leaves half a model in the list.
        """
        folder = self.folder(model_id)
        leftovers = self._leftovers(model_id)
        if not folder.is_dir() and not leftovers:
            raise self._not_installed(model_id)
        try:
            with self.locked():
                freed = sum(bytes_below(path) for path in (folder, *leftovers) if path.exists())
                if folder.is_symlink():
                    folder.unlink()
                elif folder.is_dir():
                    doomed = Path(tempfile.mkdtemp(prefix=".removed-", dir=self.models_dir))
                    os.replace(folder, doomed / "model")
                    leftovers.append(doomed)
                for path in leftovers:
                    shutil.rmtree(path) if path.is_dir() else path.unlink()
        except OSError as error:
            raise storage_error(error, str(folder), unharmed=_UNHARMED) from error
        return freed

    @contextmanager
    def locked(self) -> Iterator[None]:
        """Keep other windows and commands from changing the models meanwhile; OSError passes through."""
        self.downloads_dir.mkdir(parents=True, exist_ok=True)
        with (self.downloads_dir / "library.lock").open("w") as file:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError as error:
                raise DownloadError(
                    "Another window or command is just now installing or removing models.",
                    unharmed="Nothing was changed.",
                    remedy="Wait until it is done, then try again.",
                ) from error
            yield

    def staging(self, model_id: str) -> Path:
        """The folder in which the model is put together; may be left over from a job that was cut."""
        return self.models_dir / f".new-{self.folder(model_id).name}"

    def _folders(self) -> list[str]:
        try:
            names = [path.name for path in self.models_dir.iterdir() if path.is_dir()]
        except OSError:
            return []
        return sorted(name for name in names if _MODEL_ID.fullmatch(name))

    def _leftovers(self, model_id: str) -> list[Path]:
        """What an unfinished fetch of the model left, unless another unfinished one shares it."""
        found = [self.staging(model_id)]
        entry = next((item for item in self.entries if item.model_id == model_id), None)
        if entry is not None and isinstance(entry.source, WheelSource):
            name = entry.source.file_name
            found += [self.downloads_dir / name, self.downloads_dir / f"{name}.part"]
        else:
            found.append(self.downloads_dir / model_id)
        return [path for path in found if path.exists()]

    def _entry_row(self, entry: Entry) -> CatalogRow:
        folder = self.folder(entry.model_id)
        manifest = self.installed(entry.model_id)
        partial = folder.is_dir() or bool(self._leftovers(entry.model_id))
        return CatalogRow(
            model_id=entry.model_id,
            title=entry.title,
            kind=entry.kind,
            family=entry.family,
            device=entry.device,
            state="installed" if manifest else "partial" if partial else "available",
            folder=str(folder),
            download_bytes=entry.download_bytes,
            disk_bytes=manifest.bytes if manifest else entry.disk_bytes,
            licence=entry.licence,
            note=entry.note,
        )

    def _own_row(self, name: str) -> CatalogRow:
        """A folder that the catalogue does not know: built by the user, or put there by hand."""
        folder = self.folder(name)
        try:
            manifest = read_manifest(folder)
            missing = missing_files(folder, manifest)
        except ModelError as error:
            return _broken_row(folder, error.summary)
        about = manifest.about
        unused = why_unused(about.family)
        return CatalogRow(
            model_id=name,
            title=about.title,
            kind="other" if unused else about.kind,  # before there was that kind, it was written as chat
            family=about.family,
            device=about.device,
            state="partial" if missing else "installed",
            folder=str(folder),
            download_bytes=0,
            disk_bytes=manifest.bytes,
            licence=about.licence,
            note=f"Misses {_named(missing)}." if missing else unused or about.note,
        )

    def _not_installed(self, model_id: str) -> ModelNotFoundError:
        return ModelNotFoundError(
            f"{model_id} is not installed.", remedy="`mblt-desktop models list` shows what is."
        )


def _broken_row(folder: Path, reason: str) -> CatalogRow:
    device: DeviceKind = "npu"
    return CatalogRow(
        model_id=folder.name,
        title=folder.name,
        kind="chat",
        family="",
        device=device,
        state="partial",
        folder=str(folder),
        download_bytes=0,
        disk_bytes=bytes_below(folder),
        licence="unknown",
        note=reason,
    )


def _named(paths: list[str]) -> str:
    """At most three names, then how many more."""
    shown = ", ".join(paths[:3])
    return shown if len(paths) <= 3 else f"{shown} and {len(paths) - 3} more"
