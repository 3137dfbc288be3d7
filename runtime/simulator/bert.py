"""The BERT role: embeddings of one sequence (1, n, hidden) in, what its last layer makes of them out."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from runtime.simulator.artifact import Header
from runtime.simulator.encoder import Stack, StackArchitecture
from runtime.simulator.executor import Row, Shape, flat
from runtime.simulator.kv import KvMemory, KvShape
from runtime.simulator.vision import as_tensor
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Array = NDArray[np.float32]


class BertEncoder:
    """The layers; embeddings, pooler and prediction head stay on the host."""

    def __init__(self, header: Header, weights: Weights) -> None:
        arch = StackArchitecture(**header.architecture)
        self._stack = Stack(weights, "layers.", arch)
        self.inputs: Sequence[Shape] = ((1, -1, arch.hidden),)
        self.outputs: Sequence[Shape] = ((1, -1, arch.hidden),)
        self.weights = weights
        self.kv_shape: KvShape | None = None

    def run(self, inputs: Sequence[Array], _rows: Sequence[Row], _kv: KvMemory | None) -> list[Array]:
        """One sequence, (1, n, hidden)."""
        import torch

        with torch.inference_mode(), torch.device("cpu"):
            return [self._stack(as_tensor(flat(inputs[0])))[None].numpy()]
