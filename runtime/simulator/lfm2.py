"""The decoder roles of LFM2-Audio: the backbone, and the depthformer that says one frame of sound.

Both are Llama-like layers; some of the backbone's have, instead of attention, a short convolution over the
last positions. Neither has a head: the residual stream behind the last position goes back to the host.

A convolution needs the last few of its inputs, which it keeps in the KV memory of its layer, a row a position
like keys. So a sequence that is cut off and continued finds them where they were.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.simulator.artifact import Header
from runtime.simulator.blas import set_threads
from runtime.simulator.decoder import (
    AttentionStack,
    DecoderArchitecture,
    Layer,
    Step,
    gated,
    linear,
    take_layer,
)
from runtime.simulator.encoder import check_positive
from runtime.simulator.executor import Row, Shape, flat
from runtime.simulator.kv import KvMemory, KvShape
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class Lfm2Architecture:
    """What an LFM2 has beside a decoder's dimensions."""

    attends: Sequence[bool]
    """Whether a layer has attention; otherwise it has a convolution."""
    kernel: int
    """Positions that a convolution reads, its own included."""

    def check(self, arch: DecoderArchitecture) -> None:
        """Raises ValueError unless the two fit each other."""
        check_positive(self, "kernel")
        if len(self.attends) != arch.layers or any(type(attends) is not bool for attends in self.attends):
            raise ValueError(f"{arch.layers} layers with {self.attends!r:.80}")
        if arch.hidden % arch.kv_heads or arch.hidden // arch.kv_heads < arch.head_dim:
            raise ValueError(f"{arch.hidden} channels on {arch.kv_heads} KV heads of {arch.head_dim}")


@dataclass(frozen=True, slots=True)
class ConvolutionLayer:
    """The weights of a layer without attention."""

    input_norm: Array
    inward: Array
    inward_bias: Array | None
    kernel: Array
    """(positions, channels)"""
    kernel_bias: Array | None
    output: Array
    output_bias: Array | None
    mlp_norm: Array
    gate_up: Array
    down: Array


class Lfm2Decoder(AttentionStack):
    """`(1, n, hidden)` in, each row's last position out: (1, 1, rows, hidden); normed if there is a norm."""

    def __init__(self, header: Header, weights: Weights) -> None:
        plain = dict(header.architecture)
        self._kinds = Lfm2Architecture(plain.pop("attends"), plain.pop("kernel"))
        arch = DecoderArchitecture(**plain)
        self._kinds.check(arch)
        super().__init__(header, weights, arch)
        self._layers = [self._take(weights, number) for number in range(arch.layers)]
        self._norm = weights.take_optional("norm", arch.hidden)
        self.outputs: Sequence[Shape] = ((1, 1, arch.hidden),)
        # Wide enough for what a convolution keeps of a position; attention uses the first channels of a head.
        self.kv_shape: KvShape | None = KvShape(arch.layers, arch.kv_heads, arch.hidden // arch.kv_heads)

    def run(self, inputs: Sequence[Array], rows: Sequence[Row], kv: KvMemory | None) -> list[Array]:
        """One infer over some sequences."""
        assert kv is not None
        set_threads(sum(row.length for row in rows))
        step = Step(inputs, rows, kv, self.rope(inputs, rows))
        x = flat(inputs[0]).astype(np.float32, copy=True)
        for number, layer in enumerate(self._layers):
            normalised = self.normalise(x, layer.input_norm)
            if isinstance(layer, Layer):
                x += self.attention(layer, number, normalised, step)
            else:
                x += self._convolution(layer, number, normalised, step)
            x += linear(gated(self.normalise(x, layer.mlp_norm), layer.gate_up), layer.down)
        last = x[np.cumsum([row.length for row in rows]) - 1]
        if self._norm is not None:
            last = self.normalise(last, self._norm)
        return [last[None, None]]

    def memory(self, number: int, row: Row, step: Step) -> tuple[Array, Array]:
        """The part of a layer's memory that attention uses."""
        keys, values = step.kv.layer(row.slot, number)
        size = self._arch.head_dim
        return keys[..., :size], values[..., :size]

    def _convolution(self, layer: ConvolutionLayer, number: int, x: Array, step: Step) -> Array:
        before, after, inner = np.split(linear(x, layer.inward, layer.inward_bias), 3, axis=-1)
        inner = before * inner
        mixed, offset = np.empty_like(inner), 0
        for row in step.rows:
            span = slice(offset, offset + row.length)
            mixed[span] = self._slide(layer, step.kv.layer(row.slot, number)[0], inner[span], row)
            offset += row.length
        return linear(mixed * after, layer.output, layer.output_bias)

    def _slide(self, layer: ConvolutionLayer, kept: Array, inner: Array, row: Row) -> Array:
        """The convolution over one sequence's new positions (n, hidden) and those before."""
        heads = len(kept)
        kept[:, row.start : row.end] = inner.reshape(row.length, heads, -1).swapaxes(0, 1)
        reach = self._kinds.kernel - 1
        first = max(0, row.start - reach)
        past = kept[:, first : row.end].swapaxes(0, 1).reshape(row.end - first, -1)
        missing = reach - (row.start - first)
        padded = np.concatenate([np.zeros((missing, past.shape[1]), np.float32), past])
        windows = np.lib.stride_tricks.sliding_window_view(padded, self._kinds.kernel, axis=0)
        result: Array = np.einsum("nck,kc->nc", windows, layer.kernel)
        return result if layer.kernel_bias is None else result + layer.kernel_bias

    def _take(self, weights: Weights, number: int) -> Layer | ConvolutionLayer:
        arch, hidden, prefix = self._arch, self._arch.hidden, f"layers.{number}."
        if self._kinds.attends[number]:
            return take_layer(weights, arch, number)
        return ConvolutionLayer(
            input_norm=weights.take(prefix + "input_norm", hidden),
            inward=weights.take(prefix + "inward", hidden, 3 * hidden),
            inward_bias=weights.take_optional(prefix + "inward_bias", 3 * hidden),
            kernel=weights.take(prefix + "kernel", self._kinds.kernel, hidden),
            kernel_bias=weights.take_optional(prefix + "kernel_bias", hidden),
            output=weights.take(prefix + "output", hidden, hidden),
            output_bias=weights.take_optional(prefix + "output_bias", hidden),
            mlp_norm=weights.take(prefix + "mlp_norm", hidden),
            gate_up=weights.take(prefix + "gate_up", hidden, 2 * arch.intermediate),
            down=weights.take(prefix + "down", arch.intermediate, hidden),
        )


def lfm2_fields(arch: DecoderArchitecture, kinds: Lfm2Architecture) -> dict[str, Any]:
    """The `architecture` of such a decoder's header."""
    return asdict(arch) | asdict(kinds)
