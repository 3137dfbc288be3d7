"""What a role must offer to be run on the simulated device."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from runtime.simulator.kv import KvMemory, KvShape
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

Shape = tuple[int, int, int]
"""(height, width, channels); -1 is a dimension of any length."""


@dataclass(frozen=True, slots=True)
class Row:
    """The part of one infer that belongs to one sequence: `length` positions from `start` on, in `slot`."""

    slot: int
    start: int
    length: int

    @property
    def end(self) -> int:
        """The first position after it."""
        return self.start + self.length


class Executor(Protocol):
    """The network of one simulated `.mxq`, on the CPU."""

    inputs: Sequence[Shape]
    outputs: Sequence[Shape]
    weights: Weights
    """Kept, so that the files stay mapped for the next model that uses them."""
    kv_shape: KvShape | None
    """None for a network without a cache; then `run` gets no memory and no rows."""

    def run(self, inputs: Sequence[Array], rows: Sequence[Row], kv: KvMemory | None) -> list[Array]:
        """One inference. The inputs have the declared shapes, with or without a leading 1; a row's positions
        follow each other along the width of the first input, the rows in order."""


def flat(array: Array) -> Array:
    """An input as (positions, channels)."""
    return array.reshape(-1, array.shape[-1])
