"""How many prompt positions go to the device in one call: the artifact's own value, by the vendor's rules.

`npu_prefill_chunk_size` is a number, or a map from core mode to number. A map is read by the loaded core
mode, then by "default", then, in automatic mode, by its only usable entry. A batch model takes 128 at most.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

DEFAULT_CHUNK = 128
LARGEST_BATCH_CHUNK = 128
_TOO_LONG = 10
"""Digits; of some thousands Python makes no number at all."""


def chunk_of(model: Any) -> int:
    """Prompt positions a loaded model takes in one call; of a composite one, `model` is its text network.

    That network's own core mode counts: the picture network beside it may have another.
    """
    config, backend = model.config, model.npu_backend
    # An artifact made for several conversations stays one when it is told to hold a single one.
    rows = max(int(backend.k_per_model), int(getattr(config, "max_batch_size", None) or 1))
    stated = getattr(config, "npu_prefill_chunk_size", None)
    return resolve_chunk(stated, str(backend.core_mode), batch=rows > 1)


def resolve_chunk(stated: object, core_mode: str, *, batch: bool) -> int:
    """The chunk for what config.json states; anything unusable counts as not stated."""
    chunk = _positive(stated)
    if chunk is None and isinstance(stated, Mapping):
        chunk = _from_map(stated, core_mode)
    chunk = chunk or DEFAULT_CHUNK
    return min(chunk, LARGEST_BATCH_CHUNK) if batch else chunk


def _from_map(stated: Mapping[object, object], core_mode: str) -> int | None:
    for key in (core_mode, "default", "DEFAULT"):
        chunk = _positive(stated.get(key))
        if chunk is not None:
            return chunk
    usable = [chunk for value in stated.values() if (chunk := _positive(value)) is not None]
    return usable[0] if core_mode == "auto" and len(usable) == 1 else None


def _positive(value: object) -> int | None:
    if isinstance(value, str):
        digits = value.strip()
        value = int(digits) if digits.isascii() and digits.isdigit() and len(digits) < _TOO_LONG else None
    if isinstance(value, float) and value.is_integer():
        value = int(value)
    usable = isinstance(value, int) and not isinstance(value, bool) and value > 0
    return value if usable else None  # type: ignore[return-value]  # `usable` says it is an int
