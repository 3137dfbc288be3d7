"""What tests of the runtime have in common."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.families.opening import Opening
from runtime.simulator.model import NativeModel

Networks = Callable[[], dict[str, tuple[str, list[str]]]]
Calls = list[Callable[[], None]]


@pytest.fixture
def calls(monkeypatch: pytest.MonkeyPatch) -> Calls:
    """Functions put into it are called in the middle of each call of the device that computes."""
    inside: Calls = []
    real = NativeModel._infer

    def infer(self: NativeModel, *args: Any) -> Any:
        for function in inside:
            function()
        return real(self, *args)

    monkeypatch.setattr(NativeModel, "_infer", infer)
    return inside


@pytest.fixture
def networks(monkeypatch: pytest.MonkeyPatch) -> Networks:
    """For each compiled file of the model loaded last: its core mode and the cores it was launched on.

    Asked of the vendor's own objects, so that it does not matter what the program believes.
    """
    loaded: list[Any] = []
    vendors = Opening.load

    def load(self: Opening, *args: Any) -> Any:
        loaded.append(vendors(self, *args))
        return loaded[-1]

    monkeypatch.setattr(Opening, "load", load)

    def found() -> dict[str, tuple[str, list[str]]]:
        seen: dict[str, tuple[str, list[str]]] = {}
        for module in loaded[-1].modules():
            backend = getattr(module, "npu_backend", None)
            if hasattr(backend, "role_backends"):
                seen["shared"] = _placed([layer.shared for layer in backend.layers])
                seen["expert"] = _placed([one for layer in backend.layers for one in layer.experts])
                seen["lm_head"] = _placed([backend.lm_head])
            elif backend is not None:
                seen[Path(backend.mxq_path).stem] = _placed(backend.mxq_models)
        return seen

    return found


def _placed(models: list[Any]) -> tuple[str, list[str]]:
    (mode,) = {model.get_core_mode().name for model in models}
    cores = {
        f"{core.cluster.name[-1]}:{core.core.name[-1]}"
        for model in models
        for core in model.get_target_cores()
    }
    return mode, sorted(cores)
