"""The vision role of Aya Vision: a SigLIP encoder and the projector behind it, for one square picture.

`(side, side, 3)` in; `(squares, squares, hidden)` out, a square of patches an embedding. The vendor gives and
takes channels first, and several pictures (the tiles of one) in one call.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from runtime.simulator.artifact import Header
from runtime.simulator.encoder import Stack, StackArchitecture, check_positive, linear, norm, stack_fields
from runtime.simulator.executor import Row, Shape
from runtime.simulator.kv import KvMemory, KvShape
from runtime.simulator.vision import CHANNELS, as_tensor, take_with_biases
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class PictureArchitecture:
    """What surrounds the stack of a vision network for pictures of one size."""

    side: int
    """Pixels of the square picture."""
    patch: int

    def __post_init__(self) -> None:
        check_positive(self, "side", "patch")
        if self.side % self.patch:
            raise ValueError(f"patches of {self.patch} in {self.side} pixels")

    @property
    def grid(self) -> int:
        """Patches in a row."""
        return self.side // self.patch


@dataclass(frozen=True, slots=True)
class ProjectorArchitecture:
    """From the patches to the text model's embeddings."""

    square: int
    """Patches in a row of those that become one embedding."""
    wide: int
    text: int
    """Channels of the text model."""
    projector_epsilon: float

    def __post_init__(self) -> None:
        check_positive(self, "square", "wide", "text")


class PatchEmbedding:
    """The patches of one picture through a convolution of their own size."""

    def __init__(self, weights: Weights, arch: PictureArchitecture, hidden: int) -> None:
        self._arch = arch
        folded = CHANNELS * arch.patch**2
        self._weights = take_with_biases(weights, "", {"patch_embed": (hidden, folded)})

    def __call__(self, picture: Array) -> torch.Tensor:
        """(side, side, 3) as (patches, hidden), row by row."""
        grid, patch = self._arch.grid, self._arch.patch
        parts = picture.reshape(grid, patch, grid, patch, CHANNELS).transpose(0, 2, 4, 1, 3)
        folded = np.ascontiguousarray(parts).reshape(grid * grid, -1)
        return linear(as_tensor(folded), self._weights, "patch_embed")


class AyaVision:
    """One tile at a time, in float32 with torch."""

    def __init__(self, header: Header, weights: Weights) -> None:
        fields = header.architecture
        arch = StackArchitecture(**stack_fields(fields))
        picture = PictureArchitecture(fields["side"], fields["patch"])
        self._projector = ProjectorArchitecture(
            fields["square"], fields["wide"], fields["text"], fields["projector_epsilon"]
        )
        self._grid, square = picture.grid, self._projector.square
        if self._grid % square:
            raise ValueError(f"squares of {square} in {self._grid} patches")
        self._embed = PatchEmbedding(weights, picture, arch.hidden)
        self._positions = as_tensor(weights.take("positions", self._grid**2, arch.hidden))
        self._stack = Stack(weights, "layers.", arch)
        joined, wide = arch.hidden * square**2, self._projector.wide
        shapes = {
            "norm": (joined,),
            "first": (wide, joined),
            "second": (self._projector.text, wide // 2),
        }
        self._weights = take_with_biases(weights, "projector.", shapes)
        squares = self._grid // square
        self.inputs: Sequence[Shape] = ((picture.side, picture.side, CHANNELS),)
        self.outputs: Sequence[Shape] = ((squares, squares, self._projector.text),)
        self.weights = weights
        self.kv_shape: KvShape | None = None

    def run(self, inputs: Sequence[Array], _rows: Sequence[Row], _kv: KvMemory | None) -> list[Array]:
        """The embeddings of one tile."""
        import torch
        from torch.nn import functional

        with torch.inference_mode(), torch.device("cpu"):
            x = self._stack(self._embed(inputs[0]) + self._positions)
            x = norm(self._join(x), self._weights, "norm", self._projector.projector_epsilon)
            value, gate = linear(x, self._weights, "first").chunk(2, dim=-1)
            return [linear(functional.silu(gate) * value, self._weights, "second").numpy()]

    def _join(self, x: torch.Tensor) -> torch.Tensor:
        """Each square of patches as one position: (squares, squares, channels of all its patches)."""
        square = self._projector.square
        squares = self._grid // square
        parts = x.reshape(squares, square, squares, square, -1)
        return parts.transpose(1, 2).reshape(squares, squares, -1)
