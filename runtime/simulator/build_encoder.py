"""Packing the layers of an encoder checkpoint for `encoder.Stack`."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from runtime.errors import ModelUnsupportedError
from runtime.simulator.checkpoint import Checkpoint
from runtime.simulator.encoder import ACTIVATIONS

if TYPE_CHECKING:
    import torch

    Named = tuple[str, torch.Tensor]

Names = Mapping[str, Sequence[str]]
"""For each of our names the checkpoint's, without `.weight`; several are stacked along their outputs."""


def renamed(checkpoint: Checkpoint, names: Names, ours: str = "", theirs: str = "") -> Iterator[Named]:
    """Weights and biases under our names; `ours` and `theirs` go before the names of each side."""
    for name, parts in names.items():
        yield ours + name, checkpoint.stacked(f"{theirs}{part}.weight" for part in parts)
        yield f"{ours}{name}_bias", checkpoint.stacked(f"{theirs}{part}.bias" for part in parts)


def layers(checkpoint: Checkpoint, names: Names, ours: str, theirs: str, count: int) -> Iterator[Named]:
    """`renamed` for `count` numbered layers."""
    for number in range(count):
        yield from renamed(checkpoint, names, f"{ours}{number}.", f"{theirs}{number}.")


def prefix_of(checkpoint: Checkpoint, tensor: str, *prefixes: str) -> str:
    """The one of `prefixes` under which the checkpoint has `tensor`; the first when it has it under none.

    Checkpoints on the hub and those written by a later transformers differ in how deep a part lies.
    """
    return next((prefix for prefix in prefixes if checkpoint.has(prefix + tensor)), prefixes[0])


def check_activation(checkpoint: Checkpoint, activation: str) -> None:
    """Raises ModelUnsupportedError for one that is not simulated."""
    if activation not in ACTIVATIONS:
        raise ModelUnsupportedError(
            f"The checkpoint {checkpoint.folder} cannot be simulated: its activation {activation} is not "
            "supported.",
            remedy="Choose another checkpoint.",
        )
