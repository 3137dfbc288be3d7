"""The encoder role of LFM2-Audio: a FastConformer over ten seconds of sound, and the adapter behind it.

`[spectrogram (1, frames, mels), bias (1, 1, n), keep (n, 1, 1)]` in, `(1, n, out)` out, where n is an eighth
of the frames: `keep` is 1 for the embeddings that sound reaches and 0 for the others, `bias` is added to the
scores of attention. Where sound ends within an embedding, the last ones differ a little from the reference,
which is told the frame.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from runtime.simulator.artifact import Header
from runtime.simulator.encoder import check_positive, linear, norm
from runtime.simulator.executor import Row, Shape
from runtime.simulator.kv import KvMemory, KvShape
from runtime.simulator.vision import as_tensor, take_with_biases
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    import torch
    from numpy.typing import NDArray

    Array = NDArray[np.float32]
    Layer = Mapping[str, torch.Tensor]

EPSILON = 1e-5
HALVINGS = 3
_NORMS = ("norm1", "norm2", "norm_attention", "norm_convolution", "norm_out")
_TIMESCALE = 10000.0
_HALF = 0.5
"""Of a feed-forward part, which a Conformer has two of in a layer."""


@dataclass(frozen=True, slots=True)
class ConformerArchitecture:
    """Dimensions of the encoder and its adapter; the `architecture` of its header."""

    mels: int
    frames: int
    """Of the compiled window."""
    channels: int
    """Of the convolutions that shorten it."""
    hidden: int
    layers: int
    heads: int
    intermediate: int
    kernel: int
    """Positions that a layer's convolution reads."""
    scale: float
    """Factor on the embeddings before the first layer."""
    wide: int
    """Inner channels of the adapter."""
    out: int
    """Channels of the text model."""

    def __post_init__(self) -> None:
        names = set(self.__dataclass_fields__) - {"scale"}
        check_positive(self, *sorted(names))
        if self.hidden % (2 * self.heads) or not self.kernel % 2:
            raise ValueError(f"{self.heads} heads in {self.hidden} channels, kernel {self.kernel}")

    @property
    def embeddings(self) -> int:
        """Positions of the output."""
        return shortened(self.frames)


def shortened(length: int) -> int:
    """What is left of a length after the convolutions."""
    for _ in range(HALVINGS):
        length = (length + 1) // 2
    return length


class ConformerEncoder:
    """One window, in float32 with torch."""

    def __init__(self, header: Header, weights: Weights) -> None:
        arch = ConformerArchitecture(**header.architecture)
        self._arch = arch
        hidden, count = arch.hidden, arch.embeddings
        self._front = take_with_biases(weights, "front.", _front_shapes(arch))
        self._layers = [_take_layer(weights, arch, number) for number in range(arch.layers)]
        shapes = {"norm": (hidden,), "first": (arch.wide, hidden), "second": (arch.out, arch.wide)}
        self._adapter = take_with_biases(weights, "adapter.", shapes)
        self._positions = relative_positions(count, hidden)
        self.inputs: Sequence[Shape] = ((1, arch.frames, arch.mels), (1, 1, count), (count, 1, 1))
        self.outputs: Sequence[Shape] = ((1, count, arch.out),)
        self.weights = weights
        self.kv_shape: KvShape | None = None

    def run(self, inputs: Sequence[Array], _rows: Sequence[Row], _kv: KvMemory | None) -> list[Array]:
        """The embeddings of one window."""
        import torch
        from torch.nn import functional

        with torch.inference_mode(), torch.device("cpu"):
            bias, keep = as_tensor(inputs[1].reshape(-1)), as_tensor(inputs[2].reshape(-1, 1))
            x = self._shorten(as_tensor(inputs[0])[None]) * self._arch.scale
            for layer in self._layers:
                x = x + _HALF * _feed_forward(x, layer, "1")
                x = x + self._attention(norm(x, layer, "norm_attention", EPSILON), layer, bias)
                x = x + self._convolution(norm(x, layer, "norm_convolution", EPSILON), layer, keep)
                x = x + _HALF * _feed_forward(x, layer, "2")
                x = norm(x, layer, "norm_out", EPSILON)
            x = norm(x, self._adapter, "norm", EPSILON)
            x = linear(functional.gelu(linear(x, self._adapter, "first")), self._adapter, "second")
            return [x[None].numpy()]

    def _shorten(self, sound: torch.Tensor) -> torch.Tensor:
        """(1, 1, frames, mels) as (n, hidden), by convolutions of stride two."""
        from torch.nn import functional

        front, channels = self._front, self._arch.channels
        x = functional.conv2d(sound, front["depth.0"], front["depth.0_bias"], stride=2, padding=1).relu()
        for number in range(1, HALVINGS):
            depth, point = f"depth.{number}", f"point.{number}"
            x = functional.conv2d(
                x, front[depth], front[f"{depth}_bias"], stride=2, padding=1, groups=channels
            )
            x = functional.conv2d(x, front[point], front[f"{point}_bias"]).relu()
        return linear(x[0].transpose(0, 1).flatten(1), front, "out")

    def _attention(self, x: torch.Tensor, layer: Layer, bias: torch.Tensor) -> torch.Tensor:
        """Attention whose scores also depend on how far apart two positions are."""
        from torch.nn import functional

        heads, count = self._arch.heads, len(x)
        query, key, value = linear(x, layer, "qkv").unflatten(-1, (3, heads, -1)).unbind(1)
        query, key, value = (part.transpose(0, 1) for part in (query, key, value))
        far = functional.linear(self._positions, layer["position"]).unflatten(-1, (heads, -1))
        by_distance = (query + layer["bias_position"][:, None]) @ far.permute(1, 2, 0)
        # Row i begins with the distance count-1 and needs the one of i: shift it by reading the table askew.
        askew = functional.pad(by_distance, (1, 0)).reshape(heads, -1, count)[:, 1:]
        shifted = askew.reshape(heads, count, -1)[..., :count]
        scale = query.shape[-1] ** -0.5
        mixed = functional.scaled_dot_product_attention(
            (query + layer["bias_content"][:, None])[None], key[None], value[None], shifted * scale + bias
        )
        return linear(mixed[0].transpose(0, 1).flatten(-2), layer, "proj")

    def _convolution(self, x: torch.Tensor, layer: Layer, keep: torch.Tensor) -> torch.Tensor:
        from torch.nn import functional

        inner = functional.glu(linear(x, layer, "inward"), dim=-1) * keep
        inner = functional.conv1d(
            inner.T[None],
            layer["kernel"],
            layer["kernel_bias"],
            padding=self._arch.kernel // 2,
            groups=self._arch.hidden,
        )[0].T
        return linear(functional.silu(inner), layer, "outward")


def relative_positions(count: int, channels: int) -> torch.Tensor:
    """Sines and cosines by turns of the distances count-1 … 1-count, (2 count - 1, channels)."""
    import torch

    with torch.device("cpu"):
        scales = _TIMESCALE ** (-torch.arange(0, channels, 2, dtype=torch.float32) / channels)
        angles = torch.arange(count - 1, -count, -1, dtype=torch.float32)[:, None] * scales
        return torch.stack([angles.sin(), angles.cos()], dim=-1).flatten(1)


def _feed_forward(x: torch.Tensor, layer: Layer, which: str) -> torch.Tensor:
    from torch.nn import functional

    inner = functional.silu(linear(norm(x, layer, f"norm{which}", EPSILON), layer, f"up{which}"))
    return linear(inner, layer, f"down{which}")


def _front_shapes(arch: ConformerArchitecture) -> dict[str, tuple[int, ...]]:
    channels = arch.channels
    shapes: dict[str, tuple[int, ...]] = {"depth.0": (channels, 1, 3, 3)}
    for number in range(1, HALVINGS):
        shapes[f"depth.{number}"] = (channels, 1, 3, 3)
        shapes[f"point.{number}"] = (channels, channels, 1, 1)
    shapes["out"] = (arch.hidden, channels * shortened(arch.mels))
    return shapes


def _take_layer(weights: Weights, arch: ConformerArchitecture, number: int) -> dict[str, torch.Tensor]:
    hidden, inner = arch.hidden, arch.intermediate
    shapes: dict[str, tuple[int, ...]] = dict.fromkeys(_NORMS, (hidden,))
    for which in "12":
        shapes[f"up{which}"], shapes[f"down{which}"] = (inner, hidden), (hidden, inner)
    shapes |= {
        "qkv": (3 * hidden, hidden),
        "proj": (hidden, hidden),
        "inward": (2 * hidden, hidden),
        # The norm behind it is part of it: with fixed statistics it is one factor and one summand a channel.
        "kernel": (hidden, 1, arch.kernel),
        "outward": (hidden, hidden),
    }
    prefix = f"layers.{number}."
    taken = take_with_biases(weights, prefix, shapes)
    size = hidden // arch.heads
    for name, shape in (
        ("position", (hidden, hidden)),
        ("bias_content", (arch.heads, size)),
        ("bias_position", (arch.heads, size)),
    ):
        taken[name] = as_tensor(weights.take(prefix + name, *shape))
    return taken
