"""Inputs and outputs whose channels come first: (c, h, w), or several of them (n, c, h, w).

The networks themselves know height, width, channels only. A leading dimension of the inputs, be it 1, comes
back on the outputs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from runtime.simulator.errors import npu_error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]


def split(inputs: Sequence[Array]) -> list[list[Array]]:
    """The inputs of each sample, as (h, w, c); raises the vendor's error for other ranks."""
    count = len(inputs[0]) if inputs and inputs[0].ndim == 4 else 1
    samples: list[list[Array]] = [[] for _ in range(count)]
    for array in inputs:
        several = array if array.ndim == 4 else array[None]
        if several.ndim != 4 or len(several) != count:
            raise npu_error("Model_ShapeMismatched", f"Input shape {array.shape} is not channel-first")
        for sample, part in zip(samples, several, strict=True):
            sample.append(np.ascontiguousarray(part.transpose(1, 2, 0)))
    return samples


def join(results: Sequence[Sequence[Array]], inputs: Sequence[Array]) -> list[Array]:
    """The outputs of all samples, channels first, with a leading dimension if the inputs have one."""
    joined = []
    for parts in zip(*results, strict=True):
        several = np.stack([part.reshape(part.shape[-3:]).transpose(2, 0, 1) for part in parts])
        joined.append(several if inputs[0].ndim == 4 else several[0])
    return joined
