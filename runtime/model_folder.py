"""A model folder as untrusted input: what is read from it, and what the libraries that read it may raise."""

from __future__ import annotations

import json
import stat
import traceback
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runtime.errors import MbltError, ModelDamagedError, ModelIncompleteError, ModelNotFoundError

_LARGEST_JSON = 256 << 20
_UNHARMED = "Other models and your conversations are unharmed."


def read_object(path: Path) -> dict[str, Any]:
    """The JSON object that a file holds. Raises OSError or ValueError, whatever the file is or holds."""
    status = path.stat()
    if not stat.S_ISREG(status.st_mode) or status.st_size > _LARGEST_JSON:
        raise ValueError(f"{path.name} is no file of JSON")
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except RecursionError as error:
        raise ValueError(f"{path.name} is nested too deeply") from error
    if not isinstance(value, dict):
        raise ValueError(f"{path.name} holds a {type(value).__name__} instead of an object")
    return value


def read_config(folder: Path) -> dict[str, Any]:
    """What the model folder's config.json holds.

    Raises ModelNotFoundError, ModelIncompleteError or ModelDamagedError.
    """
    if not folder.is_dir():
        raise ModelNotFoundError(
            f"There is no model folder {folder}.",
            remedy="Fetch the model in the Models pane, or check the path.",
        )
    path = folder / "config.json"
    try:
        return read_object(path)
    except FileNotFoundError:
        raise ModelIncompleteError(
            f"The model folder {folder} has no config.json.",
            remedy="Fetch the model again, or choose the folder that holds config.json and the .mxq files.",
        ) from None
    except (OSError, ValueError) as error:
        raise ModelDamagedError(
            f"{path} cannot be read.", remedy="Fetch the model again.", detail=str(error)
        ) from error


def family_of(config: Mapping[str, Any]) -> str:
    """The family that a config.json names, e.g. "llama" for `mobilint-llama`; empty without one."""
    return str(config.get("model_type", "")).removeprefix("mobilint-")


def require_plain_files(folder: Path, config: Mapping[str, Any]) -> None:
    """Raise ModelDamagedError for what a library would wait for, or read outside the folder.

    That is a pipe or device among the folder's files, and a compiled model that `config` places elsewhere.
    """
    for path in folder.iterdir():
        try:
            mode = path.stat().st_mode
        except OSError:  # a link to nothing: missed by name where it is needed
            continue
        if not (stat.S_ISREG(mode) or stat.S_ISDIR(mode)):
            raise _damaged(folder, f"{path.name} is neither a file nor a folder")
    for key, name in _compiled_models(config):
        if not _is_inside(name):
            raise _damaged(folder, f"{key} in config.json names {name}, which is not in the folder")


@contextmanager
def loading(folder: Path, files: str) -> Iterator[None]:
    """The block gives the named files to a library; whatever that raises becomes a ModelDamagedError."""
    try:
        yield
    except (MbltError, MemoryError):
        raise
    except Exception as error:  # what these libraries raise for a bad file has no class in common
        detail = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        raise _damaged(folder, f"{files} cannot be used", detail) from error


@contextmanager
def stated_in(folder: Path) -> Iterator[None]:
    """The block uses what the folder's files state; a value of a wrong kind becomes a ModelDamagedError."""
    try:
        yield
    except (TypeError, ValueError, AttributeError, LookupError, OverflowError) as error:
        detail = "".join(traceback.format_exception(type(error), error, error.__traceback__))
        raise _damaged(folder, "a value in config.json or generation_config.json is wrong", detail) from error


def _compiled_models(config: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Key and value of all that names one, in the configurations of submodels too."""
    waiting: list[Mapping[str, Any]] = [config]
    while waiting:
        for key, value in waiting.pop().items():
            if isinstance(value, Mapping):
                waiting.append(value)
            elif str(key).endswith("mxq_path"):
                names = value if isinstance(value, list) else [value]
                yield from ((key, name) for name in names if isinstance(name, str))


def _is_inside(name: str) -> bool:
    path = Path(name)
    return not path.is_absolute() and ".." not in path.parts


def _damaged(folder: Path, why: str, detail: str = "") -> ModelDamagedError:
    return ModelDamagedError(
        f"The model folder {folder} is damaged: {why}.",
        remedy="Verify the model in the Models pane, or fetch it again.",
        unharmed=_UNHARMED,
        detail=detail,
    )
