"""Weights on disk as arrays in memory: mapped once per file, whatever number of models uses them."""

from __future__ import annotations

import threading
import weakref
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from runtime.errors import ModelDamagedError
from runtime.simulator.artifact import Header

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

_LOCK = threading.Lock()
_OPEN: weakref.WeakValueDictionary[tuple[int, int, int, int], MappedFile] = weakref.WeakValueDictionary()


class MappedFile:
    """The float32 tensors of one safetensors file; pages are read from disk as they are touched.

    The host's own file may hold others, which no network asks for.
    """

    def __init__(self, path: Path) -> None:
        import torch
        from safetensors import SafetensorError, safe_open

        self.arrays: dict[str, Array] = {}
        self.others: set[str] = set()
        try:
            # Models are made while `from_pretrained` has "meta" as the default device.
            with torch.device("cpu"), safe_open(path, framework="pt", device="cpu") as file:
                for name in file.keys():  # noqa: SIM118 - not a mapping
                    tensor = file.get_tensor(name)
                    if tensor.dtype == torch.float32:
                        self.arrays[name] = tensor.numpy()
                    else:
                        self.others.add(name)
        except (SafetensorError, OSError) as error:
            raise _damaged(path, "it is not a safetensors file") from error


class Weights:
    """The tensors of one artifact by the names its role uses."""

    def __init__(self, path: Path, header: Header) -> None:
        self._path = path
        self._files = [open_mapped(path.parent / weight.file) for weight in header.weights]
        self._names: Mapping[str, str] = header.tensor_names
        self._taken: dict[str, int] = {}

    @property
    def nbytes(self) -> int:
        """Bytes of the tensors taken so far, each counted once."""
        return sum(self._taken.values())

    def take(self, name: str, *shape: int) -> Array:
        """A tensor of exactly this shape; raises ModelDamagedError without one."""
        array = self._find(name)
        if any(self._names.get(name, name) in file.others for file in self._files):
            raise _damaged(self._path, f"its tensor {name} is not float32")
        if array is None:
            raise _damaged(self._path, f"its weights have no tensor {name}")
        if array.shape != shape:
            raise _damaged(self._path, f"its tensor {name} has shape {array.shape} instead of {shape}")
        self._taken[self._names.get(name, name)] = array.nbytes
        return array

    def take_optional(self, name: str, *shape: int) -> Array | None:
        """Like `take`, but None when the network has no such tensor."""
        return self.take(name, *shape) if self._find(name) is not None else None

    def _find(self, name: str) -> Array | None:
        stored = self._names.get(name, name)
        return next((file.arrays[stored] for file in self._files if stored in file.arrays), None)


def open_mapped(path: Path) -> MappedFile:
    """The mapping of a file; the same one while somebody holds it and the file is unchanged."""
    stat = path.stat()
    key = (stat.st_dev, stat.st_ino, stat.st_size, stat.st_mtime_ns)
    with _LOCK:
        mapped = _OPEN.get(key)
        if mapped is None:
            mapped = _OPEN[key] = MappedFile(path)
        return mapped


def _damaged(path: Path, why: str) -> ModelDamagedError:
    return ModelDamagedError(
        f"The file {path.name} is damaged: {why}.",
        remedy="Fetch or build the model again.",
        unharmed="Other models and your conversations are unharmed.",
        detail=str(path),
    )
