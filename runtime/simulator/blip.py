"""The two BLIP roles: the vision encoder over one picture, and the decoder that describes it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from runtime.simulator.artifact import Header
from runtime.simulator.aya_vision import PatchEmbedding, PictureArchitecture
from runtime.simulator.encoder import Stack, StackArchitecture, check_positive, linear, norm, stack_fields
from runtime.simulator.executor import Row, Shape, flat
from runtime.simulator.kv import KvMemory, KvShape
from runtime.simulator.vision import CHANNELS, activate, as_tensor, take_with_biases
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    Array = NDArray[np.float32]
    Layer = Mapping[str, torch.Tensor]


class BlipVision:
    """`(side, side, 3)` in, `(1, 1 + patches, hidden)` out: the class position first."""

    def __init__(self, header: Header, weights: Weights) -> None:
        fields = header.architecture
        arch = StackArchitecture(**stack_fields(fields))
        picture = PictureArchitecture(fields["side"], fields["patch"])
        positions = 1 + picture.grid**2
        self._epsilon = arch.epsilon
        self._embed = PatchEmbedding(weights, picture, arch.hidden)
        self._class = as_tensor(weights.take("class_embedding", 1, arch.hidden))
        self._positions = as_tensor(weights.take("positions", positions, arch.hidden))
        self._stack = Stack(weights, "layers.", arch)
        self._norm = take_with_biases(weights, "", {"norm": (arch.hidden,)})
        self.inputs: Sequence[Shape] = ((picture.side, picture.side, CHANNELS),)
        self.outputs: Sequence[Shape] = ((1, positions, arch.hidden),)
        self.weights = weights
        self.kv_shape: KvShape | None = None

    def run(self, inputs: Sequence[Array], _rows: Sequence[Row], _kv: KvMemory | None) -> list[Array]:
        """One picture."""
        import torch

        with torch.inference_mode(), torch.device("cpu"):
            x = torch.cat((self._class, self._embed(inputs[0]))) + self._positions
            return [norm(self._stack(x), self._norm, "norm", self._epsilon)[None].numpy()]


@dataclass(frozen=True, slots=True)
class PromptArchitecture:
    """What a BLIP decoder has beside its stack."""

    seen: int
    """Channels of the vision encoder."""
    positions: int
    """Of the vision encoder."""
    vocab: int

    def __post_init__(self) -> None:
        check_positive(self, "seen", "positions", "vocab")


class BlipDecoder:
    """`[(1, n, hidden), (1, positions, seen)]` in, the logits of every position out: (1, 1, n, vocab).

    BERT's layers with attention to the picture in between; the embeddings carry their positions already. One
    sequence at a time, as on the device. What the layers read of a picture is kept until another one comes.
    """

    def __init__(self, header: Header, weights: Weights) -> None:
        fields = header.architecture
        arch = StackArchitecture(**stack_fields(fields))
        prompt = PromptArchitecture(fields["seen"], fields["positions"], fields["vocab"])
        self._arch = arch
        hidden, inner = arch.hidden, arch.intermediate
        shapes = {
            "qkv": (3 * hidden, hidden),
            "proj": (hidden, hidden),
            "norm1": (hidden,),
            "cross_query": (hidden, hidden),
            "cross_key_value": (2 * hidden, prompt.seen),
            "cross_proj": (hidden, hidden),
            "cross_norm": (hidden,),
            "fc1": (inner, hidden),
            "fc2": (hidden, inner),
            "norm2": (hidden,),
        }
        self._layers = [take_with_biases(weights, f"layers.{n}.", shapes) for n in range(arch.layers)]
        ends = {"transform": (hidden, hidden), "norm": (hidden,), "head": (prompt.vocab, hidden)}
        self._ends = take_with_biases(weights, "", ends)
        self._picture: Array | None = None
        self._seen: list[tuple[torch.Tensor, torch.Tensor]] = []
        self.inputs: Sequence[Shape] = ((1, -1, hidden), (1, prompt.positions, prompt.seen))
        self.outputs: Sequence[Shape] = ((1, -1, prompt.vocab),)
        self.weights = weights
        self.kv_shape: KvShape | None = KvShape(arch.layers, arch.heads, hidden // arch.heads)

    def run(self, inputs: Sequence[Array], rows: Sequence[Row], kv: KvMemory | None) -> list[Array]:
        """One step or prefill of one sequence."""
        import torch

        assert kv is not None
        (row,) = rows
        with torch.inference_mode(), torch.device("cpu"):
            self._look(flat(inputs[1]))
            x = as_tensor(flat(inputs[0]))
            for number, layer in enumerate(self._layers):
                x = self._norm(x + self._read_back(layer, x, row, kv.layer(row.slot, number)), layer, "norm1")
                heads = self._split(linear(x, layer, "cross_query"), 1)[0]
                seen = linear(attend(heads, *self._seen[number]), layer, "cross_proj")
                x = self._norm(x + seen, layer, "cross_norm")
                inner = activate(linear(x, layer, "fc1"), self._arch.activation)
                x = self._norm(x + linear(inner, layer, "fc2"), layer, "norm2")
            x = activate(linear(x, self._ends, "transform"), self._arch.activation)
            return [linear(self._norm(x, self._ends, "norm"), self._ends, "head")[None, None].numpy()]

    def _read_back(
        self, layer: Layer, x: torch.Tensor, row: Row, memory: tuple[Array, Array]
    ) -> torch.Tensor:
        import torch

        query, *both = self._split(linear(x, layer, "qkv"), 3)
        for stored, new in zip(memory, both, strict=True):
            stored[:, row.start : row.end] = new.numpy()
        keys, values = (torch.from_numpy(stored[:, : row.end]) for stored in memory)
        allowed = torch.ones(row.length, row.end, dtype=torch.bool).tril(row.start)
        return linear(attend(query, keys, values, allowed), layer, "proj")

    def _look(self, picture: Array) -> None:
        """Compute what every layer reads of the picture, unless it is the one seen last."""
        if self._picture is not None and np.array_equal(self._picture, picture):
            return
        given = as_tensor(picture)
        self._seen = []
        for layer in self._layers:
            keys, values = self._split(linear(given, layer, "cross_key_value"), 2)
            self._seen.append((keys, values))
        self._picture = picture.copy()

    def _split(self, fused: torch.Tensor, parts: int) -> list[torch.Tensor]:
        """(n, parts * hidden) as `parts` of (heads, n, size)."""
        heads = fused.unflatten(-1, (parts, self._arch.heads, -1))
        return [part.transpose(0, 1) for part in heads.unbind(1)]

    def _norm(self, x: torch.Tensor, weights: Layer, name: str) -> torch.Tensor:
        return norm(x, weights, name, self._arch.epsilon)


def attend(
    query: torch.Tensor, keys: torch.Tensor, values: torch.Tensor, allowed: torch.Tensor | None = None
) -> torch.Tensor:
    """(heads, n, size) over (heads, positions, size): (n, heads * size); `allowed` is (n, positions)."""
    from torch.nn import functional

    mixed = functional.scaled_dot_product_attention(query[None], keys[None], values[None], allowed)
    return mixed[0].transpose(0, 1).flatten(-2)
