"""A folder of the user's own becomes an installed model: copied when it is compiled, else compiled.

Only data files are taken over; code and pickles in the folder stay where they are.
"""

from __future__ import annotations

import os
import re
import shutil
import tempfile
from pathlib import Path
from typing import Any

from runtime.catalog.entries import DeviceKind
from runtime.catalog.hub import is_data_file
from runtime.catalog.install import BuildOptions, build, put_in_place, read_config
from runtime.catalog.job import Job
from runtime.catalog.kinds import kind_of
from runtime.catalog.library import Library
from runtime.catalog.manifest import Description, Manifest, write_manifest
from runtime.errors import ModelIncompleteError, ModelNotFoundError, storage_error

_CHUNK = 1 << 20
_LONGEST_NAME = 100


def adopt(library: Library, source: Path, job: Job) -> Manifest:
    """Make `source` an installed model under a name of its own; the folder itself is not changed.

    It may hold a compiled artifact (`*.mxq`), a CTranslate2 Whisper model, or a Hugging Face checkpoint,
    which is compiled for the simulated device. Raises a ModelError, a StorageError, a DownloadError (another
    program is busy with the models) or JobCancelled.
    """
    if not source.is_dir():
        raise ModelNotFoundError(f"{source} is not a folder.", remedy="Give the folder of a model.")
    config = read_config(source)
    about = _about(source, config, _free_name(library, source))
    if about is None:
        return build(library, source, _free_name(library, source), BuildOptions(), job)
    try:
        with library.locked():
            return _copy(library, source, about, job)
    except OSError as error:
        raise storage_error(error, str(library.models_dir), unharmed=f"{source} is unchanged.") from error


def _about(source: Path, config: dict[str, Any], name: str) -> Description | None:
    """What the folder holds; None for a checkpoint."""
    model_type = str(config.get("model_type", ""))
    if model_type.startswith("mobilint"):
        device = _device_of(source)
        family = model_type.removeprefix("mobilint-")
        return Description(name, name, kind_of(config), family, device, "as its publisher's", "Added by you.")
    if not model_type and (source / "model.bin").is_file() and "suppress_ids" in config:
        return Description(name, name, "speech", "whisper", "cpu", "as its publisher's", "Added by you.")
    return None


def _device_of(source: Path) -> DeviceKind:
    from runtime.simulator.artifact import is_simulated

    compiled = sorted(source.rglob("*.mxq"))
    if not compiled:
        raise ModelIncompleteError(
            f"{source} has no compiled weights (*.mxq).",
            remedy="Download the model completely, then add it again.",
            unharmed="Nothing was changed.",
        )
    return "simulated" if all(is_simulated(path) for path in compiled) else "npu"


def _copy(library: Library, source: Path, about: Description, job: Job) -> Manifest:
    library.models_dir.mkdir(parents=True, exist_ok=True)
    found = sorted(source.rglob("*"))
    names = [path.relative_to(source) for path in found if _is_wanted(path, about, source)]
    job.begin(f"Copying {source.name}", sum((source / name).stat().st_size for name in names))
    staging = Path(tempfile.mkdtemp(prefix=".new-", dir=library.models_dir))
    try:
        done = 0
        for name in names:
            (staging / name).parent.mkdir(parents=True, exist_ok=True)
            with (source / name).open("rb") as old, (staging / name).open("wb") as new:
                while chunk := old.read(_CHUNK):
                    new.write(chunk)
                    done += len(chunk)
                    job.advance(done)
        manifest = write_manifest(staging, about, job)
        put_in_place(staging, library.folder(about.model_id))
    finally:
        shutil.rmtree(staging, ignore_errors=True)
    return manifest


def _is_wanted(path: Path, about: Description, source: Path) -> bool:
    if not path.is_file() or not _belongs_to(source.resolve(), path.resolve()):
        return False
    # CTranslate2 keeps its arrays in a flat file of that name; anywhere else a .bin is a pickle.
    return is_data_file(path.name) or (about.device == "cpu" and path.name == "model.bin")


def _belongs_to(source: Path, target: Path) -> bool:
    """Whether a file, its links followed, is of the folder, or of the model hub's cache that links to it."""
    return target.is_relative_to(source) or target.is_relative_to(source.parent.parent / "blobs")


def _free_name(library: Library, source: Path) -> str:
    """The folder's name as a model id that is not taken."""
    plain = re.sub(r"[^A-Za-z0-9._+-]+", "-", os.path.basename(os.path.abspath(source)))
    stem = plain.strip("-._+")[:_LONGEST_NAME] or "model"
    name, number = stem, 1
    while library.folder(name).exists() or any(entry.model_id == name for entry in library.entries):
        number += 1
        name = f"{stem}-{number}"
    return name
