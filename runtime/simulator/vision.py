"""The vision role of Qwen2-VL: patches of one picture in, one embedding a merged patch out.

A *dynamic* artifact takes `[patches (1, n, folded), cosines (1, n, head), sines (1, n, head)]`; a *static*
one was compiled for one grid and takes the pixels rearranged, `(rows, columns, channels)`, with the positions
of that grid inside. Both return `(1, n / 4, hidden)` for the usual merge of 2 x 2 patches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.simulator.artifact import Header
from runtime.simulator.executor import Row, Shape, flat
from runtime.simulator.kv import KvMemory, KvShape
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    Array = NDArray[np.float32]
    Block = Mapping[str, torch.Tensor]

CHANNELS = 3
NORM_EPSILON = 1e-6
ROPE_BASE = 10000.0
ACTIVATIONS = ("quick_gelu", "gelu", "gelu_pytorch_tanh")


@dataclass(frozen=True, slots=True)
class VisionArchitecture:
    """Dimensions of a vision network; the `architecture` of its header."""

    embed: int
    layers: int
    heads: int
    intermediate: int
    hidden: int
    """Of the text model it feeds."""
    patch: int
    temporal_patch: int
    merge: int
    activation: str
    grid_height: int
    """Patches of the compiled picture; 0 for a dynamic artifact."""
    grid_width: int

    def __post_init__(self) -> None:
        for name in (
            "embed",
            "layers",
            "heads",
            "intermediate",
            "hidden",
            "patch",
            "temporal_patch",
            "merge",
        ):
            value = getattr(self, name)
            if not isinstance(value, int) or not 0 < value <= 1 << 20:
                raise ValueError(f"{name} is {value!r}")
        if self.embed % self.heads or self.head_dim % 4:
            raise ValueError(f"{self.embed} channels on {self.heads} heads")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"activation is {self.activation!r}")
        for grid in (self.grid_height, self.grid_width):
            if not isinstance(grid, int) or grid % self.merge or not 0 <= grid <= 1 << 10:
                raise ValueError(f"the grid is {self.grid_height} x {self.grid_width}")

    @property
    def head_dim(self) -> int:
        """Channels of one attention head."""
        return self.embed // self.heads

    @property
    def folded(self) -> int:
        """Values of one patch."""
        return CHANNELS * self.temporal_patch * self.patch**2


class Vision:
    """Patch embedding, full attention over the picture, and the merger, in float32 with torch."""

    def __init__(self, header: Header, weights: Weights) -> None:
        arch = VisionArchitecture(**header.architecture)
        self._arch = arch
        self._patch = as_tensor(weights.take("patch_embed", arch.embed, arch.folded))
        self._blocks = [take_block(weights, arch, number) for number in range(arch.layers)]
        self._merger = take_merger(weights, arch, "merger.", arch.embed)
        self._rope = fixed_rope(arch) if arch.grid_height else None
        self.inputs: Sequence[Shape] = (static_shape(arch),) if self._rope else _dynamic_inputs(arch)
        merged = arch.grid_height * arch.grid_width // arch.merge**2 or -1
        self.outputs: Sequence[Shape] = ((1, merged, arch.hidden),)
        self.weights = weights
        self.kv_shape: KvShape | None = None

    def run(self, inputs: Sequence[Array], _rows: Sequence[Row], _kv: KvMemory | None) -> list[Array]:
        """The embeddings of one picture, (1, merged patches, hidden)."""
        import torch

        if self._rope is None:
            patches, cos, sin = (flat(array) for array in inputs)
        else:
            patches = unfold(self._arch, inputs[0])
            cos, sin = self._rope
        with torch.inference_mode(), torch.device("cpu"):
            x = torch.nn.functional.linear(as_tensor(patches), self._patch)
            rope = (as_tensor(cos)[:, None], as_tensor(sin)[:, None])
            for block in self._blocks:
                x = run_block(block, x, rope, self._arch.heads, self._arch.activation)
            return [merge(self._merger, x)[None].numpy()]


def run_block(
    block: Block, x: torch.Tensor, rope: Sequence[torch.Tensor], heads: int, activation: str
) -> torch.Tensor:
    """One layer on the patches `x` (n, channels): full attention, then the MLP."""
    from torch.nn import functional

    fused = functional.linear(layer_norm(x, block, "norm1"), block["qkv"], block["qkv_bias"])
    query, key, value = fused.reshape(len(x), 3, heads, -1).unbind(1)
    query, key = (turn(part, *rope).transpose(0, 1) for part in (query, key))
    mixed = functional.scaled_dot_product_attention(query[None], key[None], value.transpose(0, 1)[None])
    mixed = mixed[0].transpose(0, 1).reshape(len(x), -1)
    x = x + functional.linear(mixed, block["proj"], block["proj_bias"])
    inner = functional.linear(layer_norm(x, block, "norm2"), block["fc1"], block["fc1_bias"])
    return x + functional.linear(activate(inner, activation), block["fc2"], block["fc2_bias"])


def activate(x: torch.Tensor, name: str) -> torch.Tensor:
    """The activation that configurations call `name`, one of `ACTIVATIONS`."""
    import torch
    from torch.nn import functional

    if name == "quick_gelu":
        return x * torch.sigmoid(1.702 * x)
    return functional.gelu(x, approximate="tanh" if name == "gelu_pytorch_tanh" else "none")


def merge(merger: Block, x: torch.Tensor) -> torch.Tensor:
    """Join each square of patches; the width of the norm says whether it comes before or after."""
    from torch.nn import functional

    joined = merger["first"].shape[1]
    x = layer_norm(x.reshape(-1, merger["norm"].shape[0]), merger, "norm").reshape(-1, joined)
    inner = functional.gelu(functional.linear(x, merger["first"], merger["first_bias"]))
    return functional.linear(inner, merger["second"], merger["second_bias"])


def turn(heads: torch.Tensor, cos: torch.Tensor, sin: torch.Tensor) -> torch.Tensor:
    """Rotate (n, heads, size) by tables of the whole size; the halves are the pairs."""
    import torch

    first, second = heads.chunk(2, dim=-1)
    return heads * cos + torch.cat((-second, first), dim=-1) * sin


def unfold(arch: VisionArchitecture, pixels: Array) -> Array:
    """The rearranged pixels of a static artifact back as patches (n, folded).

    The vendor lays a picture out as (merged patches x patch rows, patches of a merge x patch columns,
    frames x colours), which is a permutation of the processor's patches.
    """
    merge = arch.merge**2
    parts = pixels.reshape(-1, arch.patch, merge, arch.patch, arch.temporal_patch, CHANNELS)
    patches: Array = parts.transpose(0, 2, 5, 4, 1, 3).reshape(-1, arch.folded)
    return patches


def fixed_rope(arch: VisionArchitecture) -> tuple[Array, Array]:
    """Cosines and sines (patches, head size) of the compiled grid, in the processor's order of patches."""
    rows, columns = np.meshgrid(np.arange(arch.grid_height), np.arange(arch.grid_width), indexing="ij")
    merge = arch.merge
    order = (arch.grid_height // merge, merge, arch.grid_width // merge, merge)
    positions = [axis.reshape(order).swapaxes(1, 2).reshape(-1, 1) for axis in (rows, columns)]
    quarter = arch.head_dim // 4
    frequencies = ROPE_BASE ** (-np.arange(quarter, dtype=np.float32) / np.float32(quarter))
    half = np.concatenate([axis * frequencies for axis in positions], axis=1)
    angles = np.concatenate([half, half], axis=1).astype(np.float32)
    return np.cos(angles), np.sin(angles)


def static_shape(arch: VisionArchitecture) -> Shape:
    """The rearranged pixels of the compiled grid."""
    merged = arch.grid_height * arch.grid_width // arch.merge**2
    columns = arch.merge**2 * arch.patch
    return merged * arch.patch, columns, arch.temporal_patch * CHANNELS


def _dynamic_inputs(arch: VisionArchitecture) -> tuple[Shape, ...]:
    return ((1, -1, arch.folded), (1, -1, arch.head_dim), (1, -1, arch.head_dim))


def take_block(weights: Weights, arch: VisionArchitecture, number: int) -> dict[str, Any]:
    """The tensors of one layer."""
    embed, inner = arch.embed, arch.intermediate
    shapes = {
        "norm1": (embed,),
        "norm2": (embed,),
        "qkv": (3 * embed, embed),
        "proj": (embed, embed),
        "fc1": (inner, embed),
        "fc2": (embed, inner),
    }
    return take_with_biases(weights, f"blocks.{number}.", shapes)


def take_merger(weights: Weights, arch: VisionArchitecture, prefix: str, norm: int) -> dict[str, Any]:
    """The tensors of a merger whose norm has the width `norm`."""
    joined = arch.embed * arch.merge**2
    shapes = {"norm": (norm,), "first": (joined, joined), "second": (arch.hidden, joined)}
    return take_with_biases(weights, prefix, shapes)


def take_with_biases(weights: Weights, prefix: str, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Any]:
    """Tensors of these shapes, each with a bias as long as its first dimension."""
    taken = {}
    for name, shape in shapes.items():
        taken[name] = as_tensor(weights.take(prefix + name, *shape))
        taken[f"{name}_bias"] = as_tensor(weights.take(f"{prefix}{name}_bias", shape[0]))
    return taken


def layer_norm(x: torch.Tensor, weights: Block, name: str) -> torch.Tensor:
    """Layer normalisation over the last dimension by the tensors `name`."""
    from torch.nn import functional

    return functional.layer_norm(x, x.shape[-1:], weights[name], weights[f"{name}_bias"], NORM_EPSILON)


def as_tensor(array: Array) -> torch.Tensor:
    """The array as a tensor on the same memory."""
    import torch

    return torch.from_numpy(np.ascontiguousarray(array))
