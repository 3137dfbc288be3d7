"""The decoder role of a text model whose rotary angles come in as an input: Qwen2-VL's.

`[embeddings (1, n, hidden), angles (1, n, 2 * padded)]`, where `padded` is the head size rounded up to 64. A
row of angles holds a 2 x 2 matrix a pair of channels, top rows first: `cos, -sin` of each pair, padding, then
`sin, cos` of each pair, padding. The network multiplies by what it is given, as the hardware does.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from runtime.simulator.artifact import Header
from runtime.simulator.decoder import Decoder
from runtime.simulator.executor import Row, Shape, flat
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from runtime.simulator.decoder import Rope

    Array = NDArray[np.float32]

ALIGNMENT = 64


def padded(head_dim: int) -> int:
    """Values of one half of a row of angles."""
    return -(-head_dim // ALIGNMENT) * ALIGNMENT


def matrices(angles: Array, head_dim: int) -> Rope:
    """Rows of angles (n, 2 * padded) taken apart, each part (n, head size / 2)."""
    table = angles.reshape(-1, 2, padded(head_dim))[:, :, :head_dim]
    top, bottom = table[:, 0], table[:, 1]
    return top[:, 0::2], -top[:, 1::2], bottom[:, 1::2], bottom[:, 0::2]


def given_rope(angles: Array, head_dim: int) -> Rope:
    """The rope of positions whose rows of angles come as an input (…, n, 2 * padded)."""
    cos, sin, cos_second, sin_second = matrices(flat(angles), head_dim)
    return cos[:, None], sin[:, None], cos_second[:, None], sin_second[:, None]


class MropeDecoder(Decoder):
    """A decoder that turns queries and keys by given angles instead of counting positions."""

    def __init__(self, header: Header, weights: Weights) -> None:
        super().__init__(header, weights)
        self._head_dim: int = header.architecture["head_dim"]
        hidden = header.architecture["hidden"]
        self.inputs: Sequence[Shape] = ((1, -1, hidden), (1, -1, 2 * padded(self._head_dim)))

    def rope(self, inputs: Sequence[Array], _rows: Sequence[Row]) -> Rope:
        """The given matrices, a row a position."""
        return given_rope(inputs[1], self._head_dim)
