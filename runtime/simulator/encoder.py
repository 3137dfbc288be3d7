"""A stack of transformer layers in which every position sees every other: pictures, sound, masked text.

The weights of layer n, each with a bias: `norm1`, `qkv`, `proj`, `norm2`, `fc1`, `fc2`, stored (out, in).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass
from typing import TYPE_CHECKING, Any

from runtime.simulator.vision import activate, take_with_biases
from runtime.simulator.weights import Weights

if TYPE_CHECKING:
    import torch

ACTIVATIONS = ("gelu", "quick_gelu", "gelu_pytorch_tanh")
MOST = 1 << 20


@dataclass(frozen=True, slots=True)
class StackArchitecture:
    """Dimensions of a stack."""

    hidden: int
    layers: int
    heads: int
    intermediate: int
    activation: str
    epsilon: float
    """Of the layer norms."""
    norm_last: bool = False
    """Normalise the residual stream after each half of a layer, as BERT, instead of what the half gets."""

    def __post_init__(self) -> None:
        check_positive(self, "hidden", "layers", "heads", "intermediate")
        if self.hidden % self.heads:
            raise ValueError(f"{self.heads} heads in {self.hidden} channels")
        if self.activation not in ACTIVATIONS:
            raise ValueError(f"the activation is {self.activation!r:.80}")


def check_positive(arch: Any, *names: str) -> None:
    """Raises ValueError unless these fields of a header's dataclass are positive numbers of a sane size."""
    for name in names:
        value = getattr(arch, name)
        if not isinstance(value, int) or isinstance(value, bool) or not 0 < value <= MOST:
            raise ValueError(f"{name} is {value!r:.80}")


class Stack:
    """The layers; called with (..., n, hidden), returns the same."""

    def __init__(self, weights: Weights, prefix: str, arch: StackArchitecture) -> None:
        self._arch = arch
        hidden, inner = arch.hidden, arch.intermediate
        shapes = {
            "norm1": (hidden,),
            "qkv": (3 * hidden, hidden),
            "proj": (hidden, hidden),
            "norm2": (hidden,),
            "fc1": (inner, hidden),
            "fc2": (hidden, inner),
        }
        self._layers = [take_with_biases(weights, f"{prefix}{n}.", shapes) for n in range(arch.layers)]

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        """Run every layer."""
        for layer in self._layers:
            if self._arch.norm_last:
                x = self._norm(x + self._attention(x, layer), layer, "norm1")
                x = self._norm(x + self._mlp(x, layer), layer, "norm2")
            else:
                x = x + self._attention(self._norm(x, layer, "norm1"), layer)
                x = x + self._mlp(self._norm(x, layer, "norm2"), layer)
        return x

    def _attention(self, x: torch.Tensor, layer: Mapping[str, torch.Tensor]) -> torch.Tensor:
        from torch.nn import functional

        fused = linear(x, layer, "qkv").unflatten(-1, (3, self._arch.heads, -1))
        query, key, value = (part.transpose(-2, -3) for part in fused.unbind(-3))
        mixed = functional.scaled_dot_product_attention(query, key, value)
        return linear(mixed.transpose(-2, -3).flatten(-2), layer, "proj")

    def _mlp(self, x: torch.Tensor, layer: Mapping[str, torch.Tensor]) -> torch.Tensor:
        return linear(activate(linear(x, layer, "fc1"), self._arch.activation), layer, "fc2")

    def _norm(self, x: torch.Tensor, layer: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
        return norm(x, layer, name, self._arch.epsilon)


def linear(x: torch.Tensor, weights: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    """`x` through the projection `name` and its bias."""
    from torch.nn import functional

    return functional.linear(x, weights[name], weights[f"{name}_bias"])


def norm(x: torch.Tensor, weights: Mapping[str, torch.Tensor], name: str, epsilon: float) -> torch.Tensor:
    """Layer normalisation by the tensors `name`."""
    from torch.nn import functional

    return functional.layer_norm(x, x.shape[-1:], weights[name], weights[f"{name}_bias"], epsilon)


def stack_fields(arch: Mapping[str, Any]) -> dict[str, Any]:
    """Those fields of a header that describe its stack."""
    return {name: arch[name] for name in StackArchitecture.__dataclass_fields__ if name in arch}


def as_fields(stack: StackArchitecture, **others: Any) -> dict[str, Any]:
    """The `architecture` of a network around a stack."""
    return asdict(stack) | others
