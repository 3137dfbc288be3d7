"""The text roles of Qwen3-VL: a decoder that adds features of the picture behind its first layers.

Beside the embeddings (1, n, hidden) it takes the three DeepStack features, a row a position and zero where
there is no picture, as one input (3, n, hidden) or as three of (1, n, hidden); and, unless its positions are
counted, the rows of angles of `mrope_decoder`. The order is that of the vendor's compiled layouts:

    split      embeddings, feature, feature, feature[, angles]
    bundled    embeddings, features[, angles]
    bundled, more than one KV slot    embeddings, angles, features
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from runtime.simulator.artifact import Header
from runtime.simulator.decoder import Decoder, Step
from runtime.simulator.deepstack_vision import FEATURES
from runtime.simulator.executor import Row, Shape, flat
from runtime.simulator.kv import KvMemory
from runtime.simulator.mrope_decoder import given_rope, padded
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from runtime.simulator.decoder import Rope

    Array = NDArray[np.float32]


class DeepstackDecoder(Decoder):
    """A decoder with `split` or bundled features, whose angles come in (`dynamic`) or are counted."""

    def __init__(self, header: Header, weights: Weights, *, split: bool, dynamic: bool) -> None:
        super().__init__(header, weights)
        self._split, self._dynamic = split, dynamic
        hidden, self._head_dim = header.architecture["hidden"], header.architecture["head_dim"]
        features: list[Shape] = [(1, -1, hidden)] * FEATURES if split else [(FEATURES, -1, hidden)]
        angles: list[Shape] = [(1, -1, 2 * padded(self._head_dim))] if dynamic else []
        angles_first = header.batch > 1 and not split
        self._angles, self._features = (1, 1 + len(angles)) if angles_first else (-1, 1)
        behind = [*angles, *features] if angles_first else [*features, *angles]
        self.inputs: Sequence[Shape] = ((1, -1, hidden), *behind)

    def run(self, inputs: Sequence[Array], rows: Sequence[Row], kv: KvMemory | None) -> list[Array]:
        """As the decoder's, but of as many dimensions as the inputs: (1, rows, vocab)."""
        return [logits[0] for logits in super().run(inputs, rows, kv)]

    def rope(self, inputs: Sequence[Array], rows: Sequence[Row]) -> Rope:
        """The given angles, or those of counted positions."""
        if not self._dynamic:
            return super().rope(inputs, rows)
        return given_rope(inputs[self._angles], self._head_dim)

    def after_layer(self, number: int, x: Array, step: Step) -> None:
        """Add the layer's feature."""
        if number >= FEATURES:
            return
        if self._split:
            x += flat(step.inputs[self._features + number])
        else:
            x += step.inputs[self._features][number]
