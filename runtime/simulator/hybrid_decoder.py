"""Decoders that differ from Llama's by layer or in the order of things: EXAONE 4's and Cohere 2's.

Some of their layers see a window of the last positions only, and some do not turn queries and keys to their
positions. Both lists are in the header, so that a network with one kind of layers is the same role.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.simulator.artifact import Header
from runtime.simulator.decoder import Decoder, DecoderArchitecture, Layer, Step
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]


@dataclass(frozen=True, slots=True)
class LayerKinds:
    """What each layer does about positions."""

    windows: Sequence[int]
    """Positions that the layer sees, its own included; 0 for all."""
    turns: Sequence[bool]
    """Whether the layer turns its queries and keys to their positions."""

    def check(self, layers: int) -> None:
        """Raises ValueError unless there is one of each for every layer."""
        for values, kind in ((self.windows, int), (self.turns, bool)):
            if len(values) != layers or any(type(value) is not kind or value < 0 for value in values):
                raise ValueError(f"{layers} layers with {values!r:.80}")


def hybrid_architecture(arch: DecoderArchitecture, kinds: LayerKinds) -> dict[str, Any]:
    """The `architecture` of a hybrid decoder's header."""
    return asdict(arch) | asdict(kinds)


class HybridDecoder(Decoder):
    """A decoder whose layers are told what to do about positions one by one."""

    def __init__(self, header: Header, weights: Weights) -> None:
        plain = dict(header.architecture)
        self._kinds = LayerKinds(plain.pop("windows"), plain.pop("turns"))
        super().__init__(replace(header, architecture=plain), weights)
        self._kinds.check(self._arch.layers)

    def turns(self, number: int) -> bool:
        """As the header says."""
        return self._kinds.turns[number]

    def window(self, number: int) -> int | None:
        """As the header says."""
        return self._kinds.windows[number] or None


class Exaone4Decoder(HybridDecoder):
    """Normalises what attention and MLP give, not what they get; `input_norm` is the one after attention."""

    def block(self, layer: Layer, number: int, x: Array, step: Step) -> None:
        """Add what one layer finds to the residual stream, in place."""
        x += self.normalise(self.attention(layer, number, x, step), layer.input_norm)
        x += self.normalise(self.mlp(layer, x), layer.mlp_norm)


class Cohere2Decoder(HybridDecoder):
    """Attention and MLP side by side on one centred norm; `mlp_norm` is another name of `input_norm`."""

    def block(self, layer: Layer, number: int, x: Array, step: Step) -> None:
        """Add what one layer finds to the residual stream, in place."""
        normalised = self.normalise(x, layer.input_norm)
        x += self.attention(layer, number, normalised, step)
        x += self.mlp(layer, normalised)

    def normalise(self, x: Array, weight: Array) -> Array:
        """Mean of zero and variance of one along the last axis, times `weight`."""
        return super().normalise(x - x.mean(axis=-1, keepdims=True), weight)
