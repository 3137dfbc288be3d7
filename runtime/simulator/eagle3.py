"""The roles of EAGLE-3, where a small draft proposes a tree of tokens and the base verifies it in one go.

The base takes `[embeddings (1, n, hidden), mask (1, n, positions), angles (1, n, 2 * padded)]`, because the
branches of a tree neither see each other nor stand at the positions they are written to; a mask is not zero
where a query may not look, angles are those of `mrope_decoder`. It returns the residual streams of three
layers and the logits, all (1, 1, n, …).

The draft, of one layer, takes `[embeddings, features (1, n, hidden), mask, angles]`. Its features are either
the base's three, which the fc network has made one, or its own of a step before; it returns the features and
the logits of its own, smaller vocabulary.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from runtime.simulator.artifact import Header
from runtime.simulator.blas import set_threads
from runtime.simulator.decoder import Decoder, DecoderArchitecture, Layer, Step, linear, take_layer
from runtime.simulator.errors import npu_error
from runtime.simulator.executor import Row, Shape, flat
from runtime.simulator.kv import KvMemory, KvShape
from runtime.simulator.mrope_decoder import given_rope, padded
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from runtime.simulator.decoder import Rope

    Array = NDArray[np.float32]

FEATURES = 3
"""Layers of the base that the draft looks at."""


class _TreeDecoder(Decoder):
    """A decoder that is told what each position sees and where it stands."""

    def __init__(self, header: Header, weights: Weights) -> None:
        super().__init__(header, weights)
        arch = self._arch
        stream, angles = (1, -1, arch.hidden), (1, -1, 2 * padded(arch.head_dim))
        self.inputs: Sequence[Shape] = (stream, (1, -1, -1), angles)

    def rope(self, inputs: Sequence[Array], _rows: Sequence[Row]) -> Rope:
        """The given matrices, a row a position."""
        return given_rope(inputs[-1], self._arch.head_dim)

    def step(self, inputs: Sequence[Array], rows: Sequence[Row], kv: KvMemory | None) -> Step:
        """What this inference is about; raises the runtime's error for a mask of other positions."""
        assert kv is not None
        unseen = flat(inputs[-2]) != 0
        (row,) = rows
        if unseen.shape != (row.length, row.end):
            wanted = f"({row.length}, {row.end})"
            raise npu_error("Model_ShapeMismatched", f"A mask {unseen.shape} instead of {wanted}")
        return Step(inputs, rows, kv, self.rope(inputs, rows), unseen)


class Eagle3Base(_TreeDecoder):
    """A Llama, Qwen2 or Qwen3 decoder that returns every position and what three layers read."""

    def __init__(self, header: Header, weights: Weights) -> None:
        plain = dict(header.architecture)
        self._features = tuple(plain.pop("features"))
        super().__init__(replace(header, architecture=plain), weights)
        arch = self._arch
        if len(self._features) != FEATURES or not all(
            isinstance(number, int) and 0 < number < arch.layers for number in self._features
        ):
            raise ValueError(f"features of the layers {self._features}")
        self.outputs: Sequence[Shape] = (*((1, -1, arch.hidden),) * FEATURES, (1, -1, arch.vocab))

    def run(self, inputs: Sequence[Array], rows: Sequence[Row], kv: KvMemory | None) -> list[Array]:
        """Three features and the logits of every position."""
        step = self.step(inputs, rows, kv)
        logits = self.logits(self.stream(inputs[0], step))
        return [array[None, None] for array in (*step.taken, logits)]

    def after_layer(self, number: int, x: Array, step: Step) -> None:
        """Keep what the next layer reads if the draft wants it."""
        step.taken.extend(x.copy() for feature in self._features if feature == number + 1)


class Eagle3Draft(_TreeDecoder):
    """One layer whose attention reads a token's embedding beside the feature of the token before."""

    def __init__(self, header: Header, weights: Weights) -> None:
        super().__init__(header, weights)
        arch = self._arch
        self._feature_norm = weights.take("feature_norm", arch.hidden)
        stream, *rest = self.inputs
        self.inputs = (stream, stream, *rest)
        self.outputs: Sequence[Shape] = ((1, -1, arch.hidden), (1, -1, arch.vocab))
        self.kv_shape: KvShape | None = KvShape(1, arch.kv_heads, arch.head_dim)

    def take_layers(self, weights: Weights, arch: DecoderArchitecture) -> list[Layer]:
        """The only one, which reads twice as many channels."""
        if arch.layers != 1:
            raise ValueError(f"a draft of {arch.layers} layers")
        return [take_layer(weights, arch, 0, 2 * arch.hidden)]

    def run(self, inputs: Sequence[Array], rows: Sequence[Row], kv: KvMemory | None) -> list[Array]:
        """The features and the logits of every position."""
        x = self.stream(inputs[1], self.step(inputs, rows, kv))
        return [x[None, None], self.logits(x)[None, None]]

    def block(self, layer: Layer, number: int, x: Array, step: Step) -> None:
        """The stream starts as the feature; the embedding comes in here."""
        embedded = self.normalise(flat(step.inputs[0]), layer.input_norm)
        seen = np.concatenate([embedded, self.normalise(x, self._feature_norm)], axis=1)
        x += self.attention(layer, number, seen, step)
        x += self.mlp(layer, self.normalise(x, layer.mlp_norm))


class Eagle3Projector:
    """The fc network: three features of the base to one of the draft's."""

    def __init__(self, header: Header, weights: Weights) -> None:
        arch = ProjectorArchitecture(**header.architecture)
        self._weight = weights.take("fc", arch.inputs, arch.outputs)
        self.inputs: Sequence[Shape] = ((1, -1, arch.inputs),)
        self.outputs: Sequence[Shape] = ((1, -1, arch.outputs),)
        self.weights = weights
        self.kv_shape: KvShape | None = None

    def run(self, inputs: Sequence[Array], _rows: Sequence[Row], _kv: KvMemory | None) -> list[Array]:
        """(1, 1, n, outputs)."""
        x = flat(inputs[0])
        set_threads(len(x))
        return [linear(x, self._weight)[None, None]]


@dataclass(frozen=True, slots=True)
class ProjectorArchitecture:
    """Widths of the fc network; the `architecture` of its header."""

    inputs: int
    outputs: int
