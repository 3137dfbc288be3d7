"""The roles of a mixture of experts, which the host puts together: per layer one network for attention and
router and one for every expert, and one for the head. The host chooses the experts and adds up what they say.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

import numpy as np

from runtime.simulator.artifact import Header
from runtime.simulator.blas import set_threads
from runtime.simulator.decoder import (
    AttentionLayer,
    AttentionStack,
    DecoderArchitecture,
    Step,
    gated,
    linear,
    rms_norm,
    take_attention,
)
from runtime.simulator.executor import Row, Shape, flat
from runtime.simulator.kv import KvMemory, KvShape
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]


class MoeShared(AttentionStack):
    """One layer's attention: (1, n, hidden) to the residual stream, what the experts read, and the router."""

    def __init__(self, header: Header, weights: Weights) -> None:
        plain = dict(header.architecture)
        experts = plain.pop("experts")
        arch = DecoderArchitecture(**plain)
        if arch.layers != 1 or not isinstance(experts, int) or experts < 1:
            raise ValueError(f"{arch.layers} layers with {experts} experts")
        super().__init__(replace(header, architecture=plain), weights, arch)
        self._layer = AttentionLayer(**take_attention(weights, arch, 0))
        self._router = weights.take("layers.0.router", arch.hidden, experts)
        self.outputs: Sequence[Shape] = ((1, -1, arch.hidden), (1, -1, arch.hidden), (1, -1, experts))

    def run(self, inputs: Sequence[Array], rows: Sequence[Row], kv: KvMemory | None) -> list[Array]:
        """(1, n, …) each: residual, expert input, router."""
        assert kv is not None
        set_threads(sum(row.length for row in rows))
        x = flat(inputs[0])
        step = Step(inputs, rows, kv, self.rope(inputs, rows))
        residual = x + self.attention(self._layer, 0, self.normalise(x, self._layer.input_norm), step)
        read = self.normalise(residual, self._layer.mlp_norm)
        return [residual[None], read[None], linear(read, self._router)[None]]


@dataclass(frozen=True, slots=True)
class ExpertArchitecture:
    """Dimensions of one expert; the `architecture` of its header."""

    hidden: int
    intermediate: int


class MoeExpert:
    """One expert: a gated SiLU MLP, (1, n, hidden) to (1, n, hidden)."""

    def __init__(self, header: Header, weights: Weights) -> None:
        arch = ExpertArchitecture(**header.architecture)
        self._gate_up = weights.take("gate_up", arch.hidden, 2 * arch.intermediate)
        self._down = weights.take("down", arch.intermediate, arch.hidden)
        self.inputs: Sequence[Shape] = ((1, -1, arch.hidden),)
        self.outputs: Sequence[Shape] = ((1, -1, arch.hidden),)
        self.weights = weights
        self.kv_shape: KvShape | None = None

    def run(self, inputs: Sequence[Array], _rows: Sequence[Row], _kv: KvMemory | None) -> list[Array]:
        """What the expert says about each position."""
        x = flat(inputs[0])
        set_threads(len(x))
        return [linear(gated(x, self._gate_up), self._down)[None]]


@dataclass(frozen=True, slots=True)
class HeadArchitecture:
    """Dimensions of the head; the `architecture` of its header."""

    hidden: int
    vocab: int
    norm_epsilon: float


class MoeHead:
    """The last norm and the head, for one position: (1, 1, hidden) to (1, 1, vocab)."""

    def __init__(self, header: Header, weights: Weights) -> None:
        arch = HeadArchitecture(**header.architecture)
        self._epsilon = arch.norm_epsilon
        self._norm = weights.take("norm", arch.hidden)
        head = weights.take_optional("lm_head", arch.hidden, arch.vocab)
        self._head = weights.take("embedding", arch.vocab, arch.hidden).T if head is None else head
        self.inputs: Sequence[Shape] = ((1, 1, arch.hidden),)
        self.outputs: Sequence[Shape] = ((1, 1, arch.vocab),)
        self.weights = weights
        self.kv_shape: KvShape | None = None

    def run(self, inputs: Sequence[Array], _rows: Sequence[Row], _kv: KvMemory | None) -> list[Array]:
        """The logits."""
        set_threads(1)
        return [linear(rms_norm(flat(inputs[0]), self._norm, self._epsilon), self._head)[None]]
