"""The encoder role of Qwen3-ASR: one second of sound in, thirteen embeddings for the text model out.

`(mels, 100, 1)` in, `(1, 13, out)` out; the vendor gives and takes channels first. Each second stands alone
for the compiled encoder, where the reference lets the seconds of a longer window see each other.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from runtime.simulator.artifact import Header
from runtime.simulator.encoder import Stack, StackArchitecture, check_positive, linear, norm, stack_fields
from runtime.simulator.executor import Row, Shape
from runtime.simulator.kv import KvMemory, KvShape
from runtime.simulator.vision import activate, as_tensor, take_with_biases
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    import numpy as np
    import torch
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

FRAMES = 100
"""Of a spectrogram in one second: what the vendor's class cuts sound into."""
CONVOLUTIONS = 3
_TIMESCALE = 10000.0


def halved(length: int) -> int:
    """What is left of a length after the convolutions."""
    for _ in range(CONVOLUTIONS):
        length = (length + 1) // 2
    return length


@dataclass(frozen=True, slots=True)
class SoundArchitecture:
    """What surrounds the stack."""

    mels: int
    channels: int
    """Of the convolutions."""
    out: int
    """Channels of the text model."""

    def __post_init__(self) -> None:
        check_positive(self, "mels", "channels", "out")


class Qwen3AsrEncoder:
    """Three convolutions, the layers, and the projection to the text model, in float32 with torch."""

    def __init__(self, header: Header, weights: Weights) -> None:
        fields = header.architecture
        arch = StackArchitecture(**stack_fields(fields))
        sound = SoundArchitecture(fields["mels"], fields["channels"], fields["out"])
        self._arch = arch
        self._tokens, hidden = halved(FRAMES), arch.hidden
        shapes: dict[str, tuple[int, ...]] = {"ends.norm": (hidden,), "ends.first": (hidden, hidden)}
        shapes["ends.second"] = (sound.out, hidden)
        for number in range(CONVOLUTIONS):
            shapes[f"convolution.{number}"] = (sound.channels, sound.channels if number else 1, 3, 3)
        self._weights = take_with_biases(weights, "", shapes)
        self._conv_out = as_tensor(weights.take("conv_out", hidden, sound.channels * halved(sound.mels)))
        self._stack = Stack(weights, "layers.", arch)
        self._positions = sinusoids(self._tokens, hidden)
        self.inputs: Sequence[Shape] = ((sound.mels, FRAMES, 1),)
        self.outputs: Sequence[Shape] = ((1, self._tokens, sound.out),)
        self.weights = weights
        self.kv_shape: KvShape | None = None

    def run(self, inputs: Sequence[Array], _rows: Sequence[Row], _kv: KvMemory | None) -> list[Array]:
        """One second."""
        import torch
        from torch.nn import functional

        with torch.inference_mode(), torch.device("cpu"):
            x = as_tensor(inputs[0]).permute(2, 0, 1)[None]
            for number in range(CONVOLUTIONS):
                name = f"convolution.{number}"
                kernel, bias = self._weights[name], self._weights[f"{name}_bias"]
                x = functional.gelu(functional.conv2d(x, kernel, bias, stride=2, padding=1))
            # (1, channels, mels, tokens) as (tokens, channels * mels)
            x = functional.linear(x[0].permute(2, 0, 1).flatten(1), self._conv_out) + self._positions
            x = norm(self._stack(x), self._weights, "ends.norm", self._arch.epsilon)
            x = activate(linear(x, self._weights, "ends.first"), self._arch.activation)
            return [linear(x, self._weights, "ends.second")[None].numpy()]


def sinusoids(length: int, channels: int) -> torch.Tensor:
    """Sines, then cosines, of each position (length, channels)."""
    import torch

    with torch.device("cpu"):
        half = channels // 2
        step = torch.log(torch.tensor(_TIMESCALE, dtype=torch.float64)) / (half - 1)
        scales = torch.exp(-step.float() * torch.arange(half, dtype=torch.float32))
        angles = torch.arange(length)[:, None] * scales
        return torch.cat([angles.sin(), angles.cos()], dim=1)
