"""The vision role of Qwen3-VL: Qwen2-VL's, with learned positions and the features of earlier layers.

It returns four arrays (1, n / 4, hidden) in the order of the vendor's releases: the merged patches, then the
DeepStack features of the last, the first and the middle of the three layers that have them.

A *dynamic* artifact takes `[angles (1, n, 2 * padded), positions (1, n, embed), patches (1, n, folded)]`, the
angles as 2 x 2 matrices (see `mrope_decoder`). A *static* one was compiled for one grid, holds both tables
and takes the patches `(1, n, folded)` or, as the first releases, the pixels rearranged as for Qwen2-VL.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from runtime.simulator.artifact import Header
from runtime.simulator.executor import Row, Shape, flat
from runtime.simulator.kv import KvMemory, KvShape
from runtime.simulator.mrope_decoder import matrices, padded
from runtime.simulator.vision import (
    VisionArchitecture,
    as_tensor,
    fixed_rope,
    merge,
    run_block,
    static_shape,
    take_block,
    take_merger,
    unfold,
)
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

FEATURES = 3
"""Layers whose features go into the text model; the vendor's classes know no other number."""
OUTPUT_ORDER = (0, 3, 1, 2)
"""Which of (merged, first, second, third feature) each output is."""


@dataclass(frozen=True, slots=True)
class DeepstackArchitecture(VisionArchitecture):
    """Dimensions of a Qwen3-VL vision network; the `architecture` of its header."""

    features: tuple[int, ...]
    """Layers behind which a feature is taken."""
    rearranged: bool
    """Whether a static artifact takes pixels rearranged instead of patches."""

    def __post_init__(self) -> None:
        VisionArchitecture.__post_init__(self)
        numbers = tuple(self.features)
        if len(numbers) != FEATURES or not all(
            isinstance(number, int) and 0 <= number < self.layers for number in numbers
        ):
            raise ValueError(f"features behind the layers {numbers}")
        if not self.grid_height and len({self.angles, self.embed, self.folded}) < 3:
            raise ValueError("the inputs have equal widths")

    @property
    def angles(self) -> int:
        """Values of one row of angles."""
        return 2 * padded(self.head_dim)

    @property
    def patches(self) -> int:
        """Patches of the compiled picture; -1 for any number."""
        return self.grid_height * self.grid_width or -1


class DeepstackVision:
    """Patch embedding, full attention over one picture or frame, and four mergers, in float32 with torch."""

    def __init__(self, header: Header, weights: Weights) -> None:
        arch = DeepstackArchitecture(**header.architecture)
        self._arch = arch
        self._patch = as_tensor(weights.take("patch_embed", arch.embed, arch.folded))
        self._patch_bias = as_tensor(weights.take("patch_embed_bias", arch.embed))
        self._blocks = [take_block(weights, arch, number) for number in range(arch.layers)]
        self._merger = take_merger(weights, arch, "merger.", arch.embed)
        wide = arch.embed * arch.merge**2
        self._mergers = [
            take_merger(weights, arch, f"feature_mergers.{number}.", wide) for number in range(FEATURES)
        ]
        self._fixed: tuple[Array, Array, Array] | None = None
        self.inputs: Sequence[Shape] = (
            (1, -1, arch.angles),
            (1, -1, arch.embed),
            (1, -1, arch.folded),
        )
        if arch.grid_height:
            self._fixed = (*fixed_rope(arch), weights.take("positions", arch.patches, arch.embed))
            self.inputs = (static_shape(arch) if arch.rearranged else (1, arch.patches, arch.folded),)
        merged = arch.patches // arch.merge**2 if arch.grid_height else -1
        self.outputs: Sequence[Shape] = ((1, merged, arch.hidden),) * (1 + FEATURES)
        self.weights = weights
        self.kv_shape: KvShape | None = None

    def run(self, inputs: Sequence[Array], _rows: Sequence[Row], _kv: KvMemory | None) -> list[Array]:
        """The embeddings and the features of one picture."""
        import torch

        patches, cos, sin, positions = self._unpack(inputs)
        with torch.inference_mode(), torch.device("cpu"):
            x = torch.nn.functional.linear(as_tensor(patches), self._patch, self._patch_bias)
            x = x + as_tensor(positions)
            rope = (as_tensor(cos)[:, None], as_tensor(sin)[:, None])
            features: list[torch.Tensor] = []
            for number, block in enumerate(self._blocks):
                x = run_block(block, x, rope, self._arch.heads, self._arch.activation)
                if number in self._arch.features:
                    features.append(merge(self._mergers[len(features)], x))
            results = (merge(self._merger, x), *features)
            return [results[which][None].numpy() for which in OUTPUT_ORDER]

    def _unpack(self, inputs: Sequence[Array]) -> tuple[Array, Array, Array, Array]:
        """Patches, cosines, sines and positions, a row a patch."""
        if self._fixed is None:
            angles, positions, patches = (flat(array) for array in inputs)
            cos, sin, cos_second, sin_second = matrices(angles, self._arch.head_dim)
            halves = ((cos, cos_second), (sin, sin_second))
            cos, sin = (np.concatenate(pair, axis=-1) for pair in halves)
            return patches, cos, sin, positions
        arch = self._arch
        patches = unfold(arch, inputs[0]) if arch.rearranged else flat(inputs[0])
        return patches, *self._fixed
