"""The settings file: one JSON object of setting keys, read at start and replaced as a whole on a change."""

from __future__ import annotations

import contextlib
import json
import os
import time
from collections.abc import Mapping
from pathlib import Path

from runtime.errors import CorruptStoreError, ErrorInfo, StorageError, storage_error

_LARGEST = 1_000_000
_UNHARMED = "Your conversations, transcripts and recordings are unharmed."


def read(path: Path) -> tuple[dict[str, object], list[ErrorInfo]]:
    """The stored values, and what was wrong with the file; a damaged one is kept aside."""
    try:
        with path.open("rb") as stream:
            data = stream.read(_LARGEST + 1)
    except FileNotFoundError:
        return {}, []
    except OSError as error:
        return {}, [
            storage_error(error, str(path), unharmed=f"The default settings are used. {_UNHARMED}").info
        ]
    try:
        if len(data) > _LARGEST:
            raise ValueError(f"more than {_LARGEST} bytes")
        values = json.loads(data.decode("utf-8"), parse_constant=_refuse_constant)
        if not isinstance(values, dict):
            raise ValueError(f"a JSON {type(values).__name__} instead of an object")
    except (ValueError, RecursionError) as error:
        return {}, [_kept_aside(path, error)]
    return values, []


def write(path: Path, values: Mapping[str, object]) -> None:
    """Replace the file in one step; raises StorageError, leaving the former file as it was."""
    text = json.dumps(values, indent=2, sort_keys=True, ensure_ascii=False) + "\n"
    temporary = path.with_name(f".{path.name}.{os.getpid()}.tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        try:
            with temporary.open("w", encoding="utf-8", errors="replace") as stream:
                stream.write(text)
                stream.flush()
                os.fsync(stream.fileno())
            temporary.replace(path)
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink(missing_ok=True)
    except OSError as error:
        raise _not_saved(error, path) from error


def _refuse_constant(name: str) -> object:
    raise ValueError(f"{name} is not JSON")


def _kept_aside(path: Path, error: Exception) -> ErrorInfo:
    stamp = time.strftime("%Y-%m-%d-%H%M%S")
    aside = path.with_name(f"{path.stem}.damaged-{stamp}{path.suffix}")
    count = 1
    while aside.exists():
        count += 1
        aside = path.with_name(f"{path.stem}.damaged-{stamp}-{count}{path.suffix}")
    try:
        path.rename(aside)
        kept = f"It was kept as {aside.name} in the same folder."
    except OSError as problem:
        kept = f"It could not be moved aside ({problem.strerror or problem})."
    return CorruptStoreError(
        f"The settings file {path} is damaged.",
        unharmed=f"The default settings are used. {_UNHARMED}",
        remedy=f"{kept} Set again what you had changed.",
        detail=f"{type(error).__name__}: {error}",
    ).info


def _not_saved(error: OSError, path: Path) -> StorageError:
    return storage_error(
        error,
        str(path),
        unharmed=f"Your settings hold until the program ends, but are not saved. {_UNHARMED}",
    )
