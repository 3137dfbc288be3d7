"""Reading a plain Hugging Face checkpoint, and writing the weight files of an artifact made from it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from copy import copy
from pathlib import Path
from typing import TYPE_CHECKING, Any

from runtime.errors import ModelDamagedError, ModelIncompleteError, ModelUnsupportedError
from runtime.simulator.artifact import WeightFile, describe_weights

if TYPE_CHECKING:
    import torch

    Change = Callable[[str, torch.Tensor], torch.Tensor]

Progress = Callable[[str, float], None]

SHARD_BYTES = 1 << 30
_MAX_JSON_BYTES = 64 << 20


class Checkpoint:
    """A folder with config.json and safetensors files; pickled weights are never read."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.config = _read_object(folder / "config.json")
        if "quantization_config" in self.config:
            raise ModelUnsupportedError(
                f"The checkpoint {folder} is quantised; a simulated model is made from float weights.",
                remedy="Download the original checkpoint.",
            )
        files = sorted(folder.glob("*.safetensors"))
        if not files:
            raise ModelIncompleteError(
                f"{folder} has no weights (*.safetensors).",
                remedy="Download the checkpoint completely; pickled weights (.bin, .pt) are never read.",
            )
        self._change: Change = lambda _name, tensor: tensor
        self._where: dict[str, tuple[Path, str]] = {}
        """The file of each tensor, and its name there."""
        for path in files:
            for name in _names(path):
                self._where.setdefault(name, (path, name))

    @property
    def model_type(self) -> str:
        """Its family as the checkpoint calls it, e.g. "llama"; LFM2-Audio is known by its parts."""
        nameless = "lfm2_audio" if {"encoder", "lfm", "depthformer"} <= self.config.keys() else ""
        return str(self.config.get("model_type", nameless))

    def load_config(self) -> Any:
        """The configuration object of the reference implementation, with its defaults filled in."""
        from huggingface_hub.errors import StrictDataclassError
        from transformers import AutoConfig

        try:
            return AutoConfig.from_pretrained(
                str(self.folder), local_files_only=True, trust_remote_code=False
            )
        except (OSError, ValueError, TypeError, KeyError, ArithmeticError, StrictDataclassError) as error:
            raise ModelUnsupportedError(
                f"The configuration {self.folder / 'config.json'} cannot be used.",
                remedy="Check that the checkpoint is complete and of a supported family.",
                detail=f"{type(error).__name__}: {error}",
            ) from error

    def renamed(self, names: Mapping[str, str], change: Change | None = None) -> Checkpoint:
        """The same weights under other names: each of `names` for the tensor of the name it leads to.

        Names that lead to no tensor are left out, so that a family's optional ones may be listed. `change`
        gets each tensor as it is read, with its new name, and returns what to use.
        """
        where = {name: self._where[stored] for name, stored in names.items() if stored in self._where}
        view = copy(self)
        vars(view).update(_where=where, _change=change or self._change)
        return view

    def has(self, name: str) -> bool:
        """Whether there is a tensor of that name."""
        return name in self._where

    def names(self, prefix: str) -> list[str]:
        """Names of the tensors that begin with `prefix`, in order."""
        return sorted(name for name in self._where if name.startswith(prefix))

    def tensor(self, name: str) -> torch.Tensor:
        """A tensor in float32; raises ModelIncompleteError without it."""
        import torch
        from safetensors import SafetensorError, safe_open

        path, stored = self._where.get(name, (None, name))
        if path is None:
            raise ModelIncompleteError(
                f"The checkpoint {self.folder} has no tensor {name}.",
                remedy="Download the checkpoint completely.",
            )
        try:
            with safe_open(path, framework="pt", device="cpu") as file:
                return self._change(name, file.get_tensor(stored).to(torch.float32))
        except (SafetensorError, OSError) as error:
            raise _damaged(path, error) from error

    def stacked(self, names: Iterable[str]) -> torch.Tensor:
        """Several tensors as one, along their first dimension."""
        import torch

        return torch.cat([self.tensor(name) for name in names])


def write_weights(folder: Path, stem: str, tensors: Iterable[tuple[str, torch.Tensor]]) -> list[WeightFile]:
    """Write tensors as they come into one file `stem.safetensors`, or several when they are large."""
    written: list[Path] = []
    held: dict[str, torch.Tensor] = {}
    size = 0
    for name, tensor in tensors:
        if held and size + tensor.nbytes > SHARD_BYTES:
            written.append(_save(folder / f"{stem}-{len(written) + 1:05}.safetensors", held))
            held, size = {}, 0
        held[name] = tensor
        size += tensor.nbytes
    last = f"{stem}-{len(written) + 1:05}.safetensors" if written else f"{stem}.safetensors"
    written.append(_save(folder / last, held))
    return [describe_weights(path) for path in written]


def write_file(path: Path, tensors: dict[str, torch.Tensor]) -> WeightFile:
    """Write one safetensors file."""
    return describe_weights(_save(path, tensors))


def _save(path: Path, tensors: dict[str, torch.Tensor]) -> Path:
    from safetensors.torch import save_file

    save_file({name: tensor.contiguous() for name, tensor in tensors.items()}, path, {"format": "pt"})
    path.chmod(0o644)  # save_file makes it private
    return path


def _names(path: Path) -> list[str]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(path, framework="pt", device="cpu") as file:
            return list(file.keys())
    except (SafetensorError, OSError) as error:
        raise _damaged(path, error) from error


def _read_object(path: Path) -> dict[str, Any]:
    try:
        if path.stat().st_size > _MAX_JSON_BYTES:
            raise ValueError("it is too large")
        value = json.loads(path.read_text(encoding="utf-8"))
    except FileNotFoundError as error:
        raise ModelIncompleteError(
            f"{path.parent} has no {path.name}, so it is not a Hugging Face checkpoint folder.",
            remedy="Give the folder that holds config.json and the safetensors files.",
        ) from error
    except (OSError, ValueError, RecursionError) as error:
        raise _damaged(path, error) from error
    if not isinstance(value, dict):
        raise _damaged(path, TypeError("it is not an object"))
    return value


def _damaged(path: Path, error: Exception) -> ModelDamagedError:
    return ModelDamagedError(
        f"The file {path} of the checkpoint is damaged.",
        remedy="Download the checkpoint again.",
        detail=f"{type(error).__name__}: {error}",
    )
