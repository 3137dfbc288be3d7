"""Samples as numbers: what a decoded frame holds, mixed to one channel of float32 in -1..1."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

SAMPLE_RATE = 16_000
"""What every speech model here takes, in Hz."""

Samples = NDArray[np.float32]
"""One channel of sound at SAMPLE_RATE, shape (n,), values in -1..1."""

_SIDE_WEIGHT = 0.5
_FRONT_WEIGHT = 0.7071
# Speech sits in the front channels of surround sound; the bass channel holds none.
_WEIGHTS = {"FC": 1.0, "FL": _FRONT_WEIGHT, "FR": _FRONT_WEIGHT, "LFE": 0.0}


def to_float(raw: NDArray[Any]) -> Samples:
    """Integer or float samples of any width as float32 in -1..1; what is not a number becomes silence."""
    if raw.dtype.kind == "u":
        middle = float(1 << (raw.dtype.itemsize * 8 - 1))
        scaled = (raw.astype(np.float32) - middle) / middle
    elif raw.dtype.kind == "i":
        scaled = raw.astype(np.float64) / float(1 << (raw.dtype.itemsize * 8 - 1))
    else:
        scaled = np.clip(np.nan_to_num(raw, nan=0.0, posinf=0.0, neginf=0.0), -1.0, 1.0)
    return np.asarray(scaled, np.float32)


def to_mono(channels: Samples, names: tuple[str, ...]) -> Samples:
    """Mix (channels, n) to (n,); `names` are FFmpeg's channel names, such as FL, FC, LFE."""
    if channels.shape[0] == 1:
        return channels.reshape(-1)
    weights = np.array([_WEIGHTS.get(name, _SIDE_WEIGHT) for name in names], dtype=np.float32)
    if len(weights) != channels.shape[0] or not weights.any():
        weights = np.ones(channels.shape[0], dtype=np.float32)
    return np.asarray((weights / weights.sum()) @ channels, np.float32)
