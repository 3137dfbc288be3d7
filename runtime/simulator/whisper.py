"""The two Whisper roles: the encoder over 30 seconds of sound, and the decoder over text.

The encoder is the reference module on mapped weights. The decoder runs like the text decoder, on the host's
BLAS; what it reads of the sound it computes once per sound and keeps until another one comes.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from runtime.simulator.artifact import Header
from runtime.simulator.blas import set_threads
from runtime.simulator.decoder import attend, linear
from runtime.simulator.executor import Row, Shape, flat
from runtime.simulator.kv import KvMemory, KvShape
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]

_EPSILON = 1e-5


@dataclass(frozen=True, slots=True)
class WhisperArchitecture:
    """Dimensions of one half of a Whisper model; the `architecture` of its header."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    frames: int
    """Positions of the encoder's output: half the frames of its input."""
    mels: int
    """Bands of the encoder's input."""
    vocab: int

    def __post_init__(self) -> None:
        for name, value in asdict(self).items():
            if not isinstance(value, int) or not 0 < value <= 1 << 24:
                raise ValueError(f"{name} is {value!r}")
        if self.hidden % self.heads:
            raise ValueError(f"{self.heads} heads in {self.hidden} channels")


class WhisperEncoder:
    """`(1, 2 * frames, mels)` in, `(1, frames, hidden)` out."""

    def __init__(self, header: Header, weights: Weights) -> None:
        arch = WhisperArchitecture(**header.architecture)
        self._module = _reference_encoder(arch, weights)
        self.inputs: Sequence[Shape] = ((1, 2 * arch.frames, arch.mels),)
        self.outputs: Sequence[Shape] = ((1, arch.frames, arch.hidden),)
        self.weights = weights
        self.kv_shape: KvShape | None = None

    def run(self, inputs: Sequence[Array], rows: Sequence[Row], kv: KvMemory | None) -> list[Array]:
        """One spectrogram."""
        import torch

        with torch.inference_mode(), torch.device("cpu"):
            mels = torch.from_numpy(flat(inputs[0])).T[None]
            return [self._module(mels).last_hidden_state.numpy()]


@dataclass(frozen=True, slots=True)
class _Projection:
    weight: Array
    bias: Array

    def __call__(self, x: Array) -> Array:
        return linear(x, self.weight, self.bias)


@dataclass(frozen=True, slots=True)
class _Norm:
    weight: Array
    bias: Array

    def __call__(self, x: Array) -> Array:
        centred = x - x.mean(axis=-1, keepdims=True)
        variance = np.einsum("ni,ni->n", centred, centred)[:, None] / np.float32(x.shape[-1])
        normalised: Array = centred / np.sqrt(variance + np.float32(_EPSILON)) * self.weight + self.bias
        return normalised


@dataclass(frozen=True, slots=True)
class _Layer:
    self_norm: _Norm
    qkv: _Projection
    self_output: _Projection
    cross_norm: _Norm
    cross_query: _Projection
    cross_key_value: _Projection
    cross_output: _Projection
    mlp_norm: _Norm
    up: _Projection
    down: _Projection


class WhisperDecoder:
    """`[(1, n, hidden), (1, frames, hidden)]` in, the logits of every position out: (n, vocab).

    The embeddings carry their positions already. One sequence at a time, as on the device.
    """

    def __init__(self, header: Header, weights: Weights) -> None:
        arch = WhisperArchitecture(**header.architecture)
        self._arch = arch
        self._size = arch.hidden // arch.heads
        self._layers = [_take_layer(weights, arch, number) for number in range(arch.layers)]
        self._norm = _take_norm(weights, "decoder.norm", arch.hidden)
        self._head = weights.take("embedding", arch.vocab, arch.hidden).T
        self._sound: Array | None = None
        self._heard: list[tuple[Array, Array]] = []
        self.inputs: Sequence[Shape] = ((1, -1, arch.hidden), (1, arch.frames, arch.hidden))
        self.outputs: Sequence[Shape] = ((1, -1, arch.vocab),)
        self.weights = weights
        self.kv_shape: KvShape | None = KvShape(arch.layers, arch.heads, self._size)

    def run(self, inputs: Sequence[Array], rows: Sequence[Row], kv: KvMemory | None) -> list[Array]:
        """One step or prefill of one sequence."""
        assert kv is not None
        (row,) = rows
        set_threads(row.length)
        self._listen(flat(inputs[1]))
        # A copy, because the residual stream is summed in place.
        x = flat(inputs[0]).astype(np.float32, copy=True)
        for number, layer in enumerate(self._layers):
            x += self._read_back(layer, x, row, kv.layer(row.slot, number))
            query = layer.cross_query(layer.cross_norm(x)).reshape(row.length, -1, self._size)
            x += layer.cross_output(attend(query, *self._heard[number], None))
            x += layer.down(_gelu(layer.up(layer.mlp_norm(x))))
        return [linear(self._norm(x), self._head)]

    def _read_back(self, layer: _Layer, x: Array, row: Row, memory: tuple[Array, Array]) -> Array:
        heads = layer.qkv(layer.self_norm(x)).reshape(row.length, 3, self._arch.heads, self._size)
        keys, values = memory
        keys[:, row.start : row.end] = heads[:, 1].swapaxes(0, 1)
        values[:, row.start : row.end] = heads[:, 2].swapaxes(0, 1)
        return layer.self_output(attend(heads[:, 0], keys[:, : row.end], values[:, : row.end], row.start))

    def _listen(self, sound: Array) -> None:
        """Compute what every layer reads of the sound, unless it is the one heard last."""
        if self._sound is not None and np.array_equal(self._sound, sound):
            return
        self._heard = []
        for layer in self._layers:
            both = layer.cross_key_value(sound).reshape(len(sound), 2, self._arch.heads, self._size)
            keys, values = np.ascontiguousarray(both.transpose(1, 2, 0, 3))
            self._heard.append((keys, values))
        self._sound = sound.copy()


def _gelu(x: Array) -> Array:
    import torch

    activated: Array = torch.nn.functional.gelu(torch.from_numpy(x)).numpy()
    return activated


def _reference_encoder(arch: WhisperArchitecture, weights: Weights) -> Any:
    import torch
    from transformers import WhisperConfig
    from transformers.models.whisper.modeling_whisper import WhisperEncoder as Reference

    config = WhisperConfig(
        num_mel_bins=arch.mels,
        d_model=arch.hidden,
        encoder_layers=arch.layers,
        encoder_attention_heads=arch.heads,
        encoder_ffn_dim=arch.intermediate,
        max_source_positions=arch.frames,
        attn_implementation="sdpa",
    )
    with torch.device("meta"):
        module = Reference(config)
    state = {
        name: torch.from_numpy(weights.take(f"encoder.{name}", *tensor.shape))
        for name, tensor in module.state_dict().items()
    }
    module.load_state_dict(state, assign=True)
    return module.eval()


def _take_layer(weights: Weights, arch: WhisperArchitecture, number: int) -> _Layer:
    hidden, wide = arch.hidden, arch.intermediate

    def projection(name: str, outputs: int, inputs: int) -> _Projection:
        full = f"decoder.layers.{number}.{name}"
        return _Projection(weights.take(full, inputs, outputs), weights.take(f"{full}_bias", outputs))

    def norm(name: str) -> _Norm:
        return _take_norm(weights, f"decoder.layers.{number}.{name}", hidden)

    return _Layer(
        self_norm=norm("self_norm"),
        qkv=projection("qkv", 3 * hidden, hidden),
        self_output=projection("self_output", hidden, hidden),
        cross_norm=norm("cross_norm"),
        cross_query=projection("cross_query", hidden, hidden),
        cross_key_value=projection("cross_key_value", 2 * hidden, hidden),
        cross_output=projection("cross_output", hidden, hidden),
        mlp_norm=norm("mlp_norm"),
        up=projection("up", wide, hidden),
        down=projection("down", hidden, wide),
    )


def _take_norm(weights: Weights, name: str, width: int) -> _Norm:
    return _Norm(weights.take(name, width), weights.take(f"{name}_bias", width))
