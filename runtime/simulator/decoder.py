"""The decoder role: Llama, Qwen2, Qwen3 and their like, in float32 on the host's BLAS.

Each projection of one position is a matrix-vector product, and those are what a decode step is made of. With
the weights stored (in, out) instead of (out, in), OpenBLAS streams them at memory speed from one thread; the
reference modules, whose greedy output the tests compare with token by token, are slower on two.

Weights, beside those of the checkpoint: `layers.N.qkv` and `layers.N.gate_up` are the checkpoint's
projections side by side, and `rope.inverse_frequencies` holds the rotary frequencies after any scaling. A
tied head is the host's embedding, read in place.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.simulator.artifact import Header
from runtime.simulator.blas import set_threads
from runtime.simulator.executor import Row, Shape, flat
from runtime.simulator.kv import KvMemory, KvShape
from runtime.simulator.quantised import prepare
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]
    Rope = tuple[Array, Array, Array, Array]
    """Cosines and sines of each pair's first channel, then of its second, each (n, 1, head size / 2)."""


_FEW = 4
"""Rows up to which a product is taken row by row."""


@dataclass(frozen=True, slots=True)
class DecoderArchitecture:
    """Dimensions of a decoder; the `architecture` of its header."""

    hidden: int
    layers: int
    heads: int
    kv_heads: int
    head_dim: int
    intermediate: int
    vocab: int
    norm_epsilon: float
    rope_scale: float
    """Factor on the rotary tables; 1 unless the scaling asks for another."""

    def __post_init__(self) -> None:
        for name in ("hidden", "layers", "heads", "kv_heads", "head_dim", "intermediate", "vocab"):
            value = getattr(self, name)
            if not isinstance(value, int) or not 0 < value <= 1 << 24:
                raise ValueError(f"{name} is {value!r}")
        if self.heads % self.kv_heads or self.head_dim % 2:
            raise ValueError(f"{self.heads} heads of {self.head_dim} on {self.kv_heads} KV heads")


@dataclass(frozen=True, slots=True)
class Step:
    """One inference on its way through the layers."""

    inputs: Sequence[Array]
    rows: Sequence[Row]
    kv: KvMemory
    rope: Rope
    unseen: Array | None = None
    """(n, positions) with True where a query may not look; None for what comes after it."""
    taken: list[Array] = field(default_factory=list)
    """What `after_layer` keeps of the layers."""


@dataclass(frozen=True, slots=True)
class AttentionLayer:
    """The weights of one layer up to what its MLP reads."""

    input_norm: Array
    qkv: Array
    qkv_bias: Array | None
    query_norm: Array | None
    key_norm: Array | None
    output: Array
    output_bias: Array | None
    mlp_norm: Array


@dataclass(frozen=True, slots=True)
class Layer(AttentionLayer):
    """The weights of one layer."""

    gate_up: Array
    gate_up_bias: Array | None
    down: Array
    down_bias: Array | None


class AttentionStack:
    """What every decoder shares: positions, a KV cache, and attention that reads it."""

    def __init__(self, header: Header, weights: Weights, arch: DecoderArchitecture) -> None:
        self._arch = arch
        frequencies = weights.take("rope.inverse_frequencies", arch.head_dim // 2)
        angles = np.arange(header.max_cache_size, dtype=np.float32)[:, None] * frequencies
        self._cos = np.cos(angles) * np.float32(arch.rope_scale)
        self._sin = np.sin(angles) * np.float32(arch.rope_scale)
        self.inputs: Sequence[Shape] = ((1, -1, arch.hidden),)
        self.weights = weights
        self.kv_shape: KvShape | None = KvShape(arch.layers, arch.kv_heads, arch.head_dim)

    def rope(self, _inputs: Sequence[Array], rows: Sequence[Row]) -> Rope:
        """The angles of every position of this infer."""
        positions = np.concatenate([np.arange(row.start, row.end) for row in rows])
        cos, sin = self._cos[positions, None], self._sin[positions, None]
        return cos, sin, cos, sin

    def turns(self, _number: int) -> bool:
        """Whether a layer turns its queries and keys to their positions."""
        return True

    def window(self, _number: int) -> int | None:
        """How many positions back, its own included, a layer sees; None for all."""
        return None

    def memory(self, number: int, row: Row, step: Step) -> tuple[Array, Array]:
        """Writable views of a layer's keys and values (KV heads, positions, head size)."""
        return step.kv.layer(row.slot, number)

    def attention(self, layer: AttentionLayer, number: int, x: Array, step: Step) -> Array:
        """What a layer's attention makes of its normalised input."""
        arch = self._arch
        turned = arch.heads + arch.kv_heads
        qkv = linear(x, layer.qkv, layer.qkv_bias)
        heads = qkv.reshape(len(x), turned + arch.kv_heads, arch.head_dim)
        if layer.query_norm is not None and layer.key_norm is not None:
            heads[:, : arch.heads] = self.normalise(heads[:, : arch.heads], layer.query_norm)
            heads[:, arch.heads : turned] = self.normalise(heads[:, arch.heads : turned], layer.key_norm)
        if self.turns(number):
            rotate(heads[:, :turned], *step.rope)
        mixed = np.empty((len(x), arch.heads * arch.head_dim), dtype=np.float32)
        window, offset = self.window(number), 0
        for row in step.rows:
            span = slice(offset, offset + row.length)
            keys, values = self.memory(number, row, step)
            keys[:, row.start : row.end] = heads[span, arch.heads : turned].swapaxes(0, 1)
            values[:, row.start : row.end] = heads[span, turned:].swapaxes(0, 1)
            first = 0 if window is None else max(0, row.start + 1 - window)
            mixed[span] = attend(
                heads[span, : arch.heads],
                keys[:, first : row.end],
                values[:, first : row.end],
                row.start - first,
                window,
                step.unseen,
            )
            offset += row.length
        return linear(mixed, layer.output, layer.output_bias)

    def normalise(self, x: Array, weight: Array) -> Array:
        """Root mean square of one along the last axis, times `weight`."""
        return rms_norm(x, weight, self._arch.norm_epsilon)


class Decoder(AttentionStack):
    """A decoder-only transformer with grouped-query attention, rotary positions and a gated SiLU MLP."""

    def __init__(self, header: Header, weights: Weights) -> None:
        arch = DecoderArchitecture(**header.architecture)
        super().__init__(header, weights, arch)
        self._layers = self.take_layers(weights, arch)
        self._norm = weights.take("norm", arch.hidden)
        head = weights.take_optional("lm_head", arch.hidden, arch.vocab)
        self._head = prepare(weights.take("embedding", arch.vocab, arch.hidden).T if head is None else head)
        self.outputs: Sequence[Shape] = ((1, 1, arch.vocab),)

    def take_layers(self, weights: Weights, arch: DecoderArchitecture) -> list[Layer]:
        """The weights of every layer."""
        return [take_layer(weights, arch, number) for number in range(arch.layers)]

    def run(self, inputs: Sequence[Array], rows: Sequence[Row], kv: KvMemory | None) -> list[Array]:
        """Embeddings in, the logits after each row's last position out: (1, 1, rows, vocab)."""
        assert kv is not None
        x = self.stream(inputs[0], Step(inputs, rows, kv, self.rope(inputs, rows)))
        last = np.cumsum([row.length for row in rows]) - 1
        return [self.logits(x[last])[None, None]]

    def stream(self, first: Array, step: Step) -> Array:
        """The residual stream (n, hidden) behind the last layer; `first` is what goes into the first."""
        set_threads(sum(row.length for row in step.rows))
        # A copy, because it is summed in place.
        x = flat(first).astype(np.float32, copy=True)
        for number, layer in enumerate(self._layers):
            self.block(layer, number, x, step)
            self.after_layer(number, x, step)
        return x

    def logits(self, x: Array) -> Array:
        """The head's (n, vocab) for some of the residual stream."""
        return linear(self.normalise(x, self._norm), self._head)

    def block(self, layer: Layer, number: int, x: Array, step: Step) -> None:
        """Add what one layer finds to the residual stream `x` (n, hidden), in place."""
        x += self.attention(layer, number, self.normalise(x, layer.input_norm), step)
        x += self.mlp(layer, self.normalise(x, layer.mlp_norm))

    def after_layer(self, number: int, x: Array, step: Step) -> None:
        """For a network that takes or adds something behind a layer: `x` (n, hidden), to change in place."""

    def mlp(self, layer: Layer, x: Array) -> Array:
        """What a layer's gated MLP makes of its normalised input."""
        return linear(gated(x, layer.gate_up, layer.gate_up_bias), layer.down, layer.down_bias)


def rms_norm(x: Array, weight: Array, epsilon: float) -> Array:
    """Root mean square of one along the last axis, times `weight`."""
    mean_square = np.einsum("...i,...i->...", x, x)[..., None] / np.float32(x.shape[-1])
    scaled: Array = x * (1 / np.sqrt(mean_square + np.float32(epsilon)))
    scaled *= weight
    return scaled


def gated(x: Array, gate_up: Array, bias: Array | None = None) -> Array:
    """The inner half of a gated SiLU MLP: x (n, hidden) to (n, intermediate)."""
    gate, up = np.split(linear(x, gate_up, bias), 2, axis=-1)
    with np.errstate(over="ignore"):  # exp(-x) of a very negative gate is infinite, and the gate then 0
        up *= gate / (1 + np.exp(-gate))
    return up


def linear(x: Array, weight: Array, bias: Array | None = None) -> Array:
    """x (n, in) through weight (in, out): (n, out)."""
    # For a matrix BLAS packs the whole weight first, which costs more than to read it for a few vectors.
    few = len(x) <= _FEW and isinstance(weight, np.ndarray)
    y: Array = np.stack([row @ weight for row in x]) if few else x @ weight
    if bias is not None:
        y += bias
    return y


def rotate(heads: Array, cos: Array, sin: Array, cos_second: Array, sin_second: Array) -> None:
    """Turn queries and keys (n, heads, size) to their positions, in place; the halves are the pairs."""
    first, second = np.split(heads, 2, axis=-1)
    turned = first * cos - second * sin
    second *= cos_second
    second += first * sin_second
    first[...] = turned


def attend(
    queries: Array,
    keys: Array,
    values: Array,
    start: int | None,
    window: int | None = None,
    unseen: Array | None = None,
) -> Array:
    """Queries (n, heads, size) over keys and values (KV heads, positions, size): (n, heads · size).

    Causal when the queries stand at the last n positions, from `start` on; None lets each see everything. A
    `window` lets each see so many positions only, its own being the last; instead of all that, `unseen`
    (n, positions) says where each may not look.
    """
    count, heads, size = queries.shape
    groups = len(keys)
    # Every head of a group reads the same keys: one product per group, over its heads and positions.
    grouped = queries.reshape(count, groups, heads // groups, size).transpose(1, 2, 0, 3)
    grouped = grouped.reshape(groups, -1, size) * np.float32(size**-0.5)
    if count == 1:
        # BLAS would repack the keys to put them second; as the first factor it reads them where they lie.
        scores = np.ascontiguousarray(np.matmul(keys, grouped.swapaxes(1, 2)).swapaxes(1, 2))
    else:
        scores = np.matmul(grouped, keys.swapaxes(1, 2))
    if unseen is not None:
        scores.reshape(groups, -1, *unseen.shape)[:, :, unseen] = -np.inf
    elif start is not None and count > 1:
        future = np.triu(np.full((count, count), -np.inf, dtype=np.float32), 1)
        by_query = scores.reshape(groups, -1, count, start + count)
        by_query[..., start:] += future
        if window is not None and start + count > window:
            # The first query sees from 0 on at the earliest; each later one loses a position.
            past = np.tril(np.full((count, start + count), -np.inf, dtype=np.float32), start - window)
            by_query += past
    scores -= scores.max(axis=-1, keepdims=True)
    np.exp(scores, out=scores)
    scores /= scores.sum(axis=-1, keepdims=True)
    mixed = np.matmul(scores, values).reshape(groups, heads // groups, count, size)
    joined: Array = mixed.transpose(2, 0, 1, 3).reshape(count, heads * size)
    return joined


def take_layer(weights: Weights, arch: DecoderArchitecture, number: int, width: int | None = None) -> Layer:
    """The weights of one layer, whose attention reads `width` channels: the hidden size unless told."""
    prefix = f"layers.{number}."
    return Layer(
        **take_attention(weights, arch, number, width),
        gate_up=prepare(weights.take(prefix + "gate_up", arch.hidden, 2 * arch.intermediate)),
        gate_up_bias=weights.take_optional(prefix + "gate_up_bias", 2 * arch.intermediate),
        down=prepare(weights.take(prefix + "down", arch.intermediate, arch.hidden)),
        down_bias=weights.take_optional(prefix + "down_bias", arch.hidden),
    )


def take_attention(
    weights: Weights, arch: DecoderArchitecture, number: int, width: int | None = None
) -> dict[str, Any]:
    """The fields of an `AttentionLayer`."""
    hidden, size = arch.hidden, arch.head_dim
    fused = (arch.heads + 2 * arch.kv_heads) * size
    prefix = f"layers.{number}."
    return {
        "input_norm": weights.take(prefix + "input_norm", hidden),
        "qkv": prepare(weights.take(prefix + "qkv", width or hidden, fused)),
        "qkv_bias": weights.take_optional(prefix + "qkv_bias", fused),
        "query_norm": weights.take_optional(prefix + "query_norm", size),
        "key_norm": weights.take_optional(prefix + "key_norm", size),
        "output": prepare(weights.take(prefix + "output", arch.heads * size, hidden)),
        "output_bias": weights.take_optional(prefix + "output_bias", hidden),
        "mlp_norm": weights.take(prefix + "mlp_norm", hidden),
    }
