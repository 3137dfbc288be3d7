"""The simulated `.mxq`: a small file that says what to execute, beside the weights to execute it with.

    8 bytes   magic, b"MBLTSIM\\x01"
    4 bytes   length of the header, little endian
    n bytes   the header: one JSON object, the fields of `Header`

Nothing follows. Weights are safetensors files in the same folder, named by relative file with size and
SHA-256; several `.mxq` files may name the same one. A header is untrusted input: it is bounded, typed and
range-checked here, and what its role needs of `architecture` is checked by that role.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from runtime.errors import ModelDamagedError, ModelIncompleteError, ModelNotFoundError, WrongDeviceError

MAGIC = b"MBLTSIM\x01"
SUFFIX = ".mxq"
MAX_HEADER_BYTES = 1 << 20
CORE_MODES = ("single", "multi", "global4", "global8")

_LENGTH = struct.Struct("<I")
_MAX_BATCH = 256
_MAX_TOKENS = 1 << 20
_MAX_WEIGHT_FILES = 256
_UNHARMED = "Other models and your conversations are unharmed."


@dataclass(frozen=True, slots=True)
class WeightFile:
    """A safetensors file in the artifact's own folder."""

    file: str
    size: int
    sha256: str


@dataclass(frozen=True, slots=True)
class Header:
    """What one simulated `.mxq` was "compiled" for."""

    role: str
    """Names the executor in `roles.ROLES`."""
    architecture: Mapping[str, Any]
    """Dimensions and switches of the network; its keys belong to the role."""
    weights: tuple[WeightFile, ...]
    core_modes: tuple[str, ...] = CORE_MODES
    auto_core_mode: str | None = None
    """What `auto` resolves to; None keeps the vendor's rule: only when exactly one mode is compiled in."""
    devices: tuple[str, ...] = ("aries-rb",)
    """Vendor names of the boards it runs on."""
    batch: int = 1
    """KV slots (K)."""
    max_cache_size: int = 0
    """Positions of one KV slot; 0 for a network without a cache."""
    prefill_width: int = 0
    """Most positions of one row in one infer; 0 when the width is not a number of positions."""
    tensor_names: Mapping[str, str] = field(default_factory=dict)
    """Where a tensor of the network has another name in the weight files (a tied head, for one)."""


def is_simulated(path: Path) -> bool:
    """Whether the file is a simulated artifact; False for every other file and for none."""
    try:
        with path.open("rb") as file:
            return file.read(len(MAGIC)) == MAGIC
    except OSError:
        return False


def refuse_simulated(path: Path) -> None:
    """Raise WrongDeviceError if `path` is a simulated artifact: for the code that loads onto a real board."""
    if is_simulated(path):
        raise WrongDeviceError(
            f"{path.name} is a simulated model: it runs on the simulated device only, not on a board.",
            unharmed=_UNHARMED,
            remedy="Choose a model compiled for your board, or start with --device simulated.",
        )


def read_header(path: Path) -> Header:
    """Read and check a simulated `.mxq` and that its weight files are there.

    Raises ModelNotFoundError without the file, WrongDeviceError for a file made for a real board,
    ModelDamagedError for a header that is not one, ModelIncompleteError when weights are missing.
    """
    header = _parse(path, _read_json(path))
    for weight in header.weights:
        _check_present(path.parent / weight.file, weight)
    return header


def write(path: Path, header: Header) -> None:
    """Write a simulated `.mxq`; the caller has put the weight files beside it."""
    text = json.dumps(asdict(header), sort_keys=True, separators=(",", ":")).encode()
    if len(text) > MAX_HEADER_BYTES:
        raise ValueError(f"the header of {path.name} has {len(text)} bytes; at most {MAX_HEADER_BYTES} fit")
    path.write_bytes(MAGIC + _LENGTH.pack(len(text)) + text)


def describe_weights(path: Path) -> WeightFile:
    """The entry for a finished weight file (reads all of it for its hash)."""
    return WeightFile(path.name, path.stat().st_size, _sha256(path))


def verify(path: Path) -> None:
    """Check the content of every weight file against its hash; raises like `read_header`."""
    for weight in read_header(path).weights:
        if _sha256(path.parent / weight.file) != weight.sha256:
            raise _damaged(path.parent / weight.file, "its content differs from what was written")


def _sha256(path: Path) -> str:
    digest = hashlib.sha256()
    with path.open("rb") as file:
        while block := file.read(1 << 20):
            digest.update(block)
    return digest.hexdigest()


def _read_json(path: Path) -> dict[str, Any]:
    prefix = len(MAGIC) + _LENGTH.size
    try:
        with path.open("rb") as file:
            start = file.read(prefix)
            if start[: len(MAGIC)] != MAGIC:
                raise _not_simulated(path)
            if len(start) < prefix:
                raise _damaged(path, "it ends in the middle of its header")
            (length,) = _LENGTH.unpack(start[len(MAGIC) :])
            if length > MAX_HEADER_BYTES:
                raise _damaged(path, "its header claims an impossible length")
            text = file.read(length + 1)
    except FileNotFoundError as error:
        raise ModelNotFoundError(
            f"There is no file {path}.",
            remedy="Fetch or build the model again.",
            unharmed=_UNHARMED,
        ) from error
    except OSError as error:
        raise _damaged(path, f"it cannot be read ({error.strerror})") from error
    if len(text) != length:
        raise _damaged(path, "its length is not what its header says")
    try:
        header = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise _damaged(path, "its header is not JSON") from error
    if not isinstance(header, dict):
        raise _damaged(path, "its header is not an object")
    return header


def _parse(path: Path, raw: dict[str, Any]) -> Header:
    expected = set(Header.__dataclass_fields__)
    if set(raw) != expected:
        raise _damaged(path, f"its header has the wrong fields: {sorted(set(raw) ^ expected)}")
    try:
        header = Header(
            role=_text(raw["role"]),
            architecture=_mapping(raw["architecture"]),
            weights=tuple(_weight(item) for item in _list(raw["weights"], _MAX_WEIGHT_FILES)),
            core_modes=tuple(_one_of(mode, CORE_MODES) for mode in _list(raw["core_modes"], len(CORE_MODES))),
            auto_core_mode=None
            if raw["auto_core_mode"] is None
            else _one_of(raw["auto_core_mode"], raw["core_modes"]),
            devices=tuple(_text(name) for name in _list(raw["devices"], 16)),
            batch=_number(raw["batch"], 1, _MAX_BATCH),
            max_cache_size=_number(raw["max_cache_size"], 0, _MAX_TOKENS),
            prefill_width=_number(raw["prefill_width"], 0, _MAX_TOKENS),
            tensor_names={_text(key): _text(name) for key, name in _mapping(raw["tensor_names"]).items()},
        )
    except (TypeError, ValueError, KeyError) as error:
        raise _damaged(path, f"its header is wrong: {error}") from error
    if not header.core_modes or not header.devices or not header.weights:
        raise _damaged(path, "its header names no core mode, no device or no weights")
    return header


def _weight(item: object) -> WeightFile:
    raw = _mapping(item)
    name = _text(raw["file"])
    # A bare name: an artifact reads nothing outside its folder.
    if name in (".", "..") or Path(name).name != name or "\\" in name or "\0" in name:
        raise ValueError(f"a weight file may not be {name!r}")
    return WeightFile(name, _number(raw["size"], 0, 1 << 50), _text(raw["sha256"]))


def _check_present(path: Path, weight: WeightFile) -> None:
    # A link could name a file outside the folder.
    if path.is_symlink() or not path.is_file():
        raise ModelIncompleteError(
            f"The weights {path} are missing.",
            remedy="Fetch or build the model again.",
            unharmed=_UNHARMED,
        )
    size = path.stat().st_size
    if size != weight.size:
        raise _damaged(path, f"it has {size} bytes instead of {weight.size}")


def _not_simulated(path: Path) -> WrongDeviceError:
    return WrongDeviceError(
        f"{path.name} is not a simulated model: it was compiled for a real Mobilint board, or is damaged.",
        unharmed=_UNHARMED,
        remedy="Use it on a computer with a board (--device npu), or choose or build a simulated model.",
    )


def _damaged(path: Path, why: str) -> ModelDamagedError:
    return ModelDamagedError(
        f"The file {path.name} is damaged: {why}.",
        remedy="Fetch or build the model again.",
        unharmed=_UNHARMED,
        detail=str(path),
    )


def _text(value: object) -> str:
    if not isinstance(value, str) or not 0 < len(value) <= 1024:
        raise TypeError(f"expected a short text, got {value!r:.80}")
    return value


def _number(value: object, low: int, high: int) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or not low <= value <= high:
        raise ValueError(f"expected a number in {low}..{high}, got {value!r:.80}")
    return value


def _list(value: object, most: int) -> list[Any]:
    if not isinstance(value, list) or len(value) > most:
        raise TypeError(f"expected a list of at most {most}, got {value!r:.80}")
    return value


def _mapping(value: object) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise TypeError(f"expected an object, got {value!r:.80}")
    return value


def _one_of(value: object, choices: Any) -> str:
    text = _text(value)
    if text not in choices:
        raise ValueError(f"expected one of {choices}, got {text!r}")
    return text
