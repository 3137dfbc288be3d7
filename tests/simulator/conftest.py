"""The simulated device with the vendor's classes on top, and small random checkpoints to run on it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.device.active import activate, vendor_stack
from runtime.simulator.build import build_artifact
from runtime.simulator.device import BOARDS, Device, Fleet, NativeAccelerator
from runtime.simulator.events import TRACE
from runtime.simulator.faults import FAULTS
from tests.simulator.checkpoints import FAMILIES, make_checkpoint

CONTEXT = 96
CHUNK = 16


@pytest.fixture(autouse=True)
def _simulated() -> Iterator[None]:
    activate("simulated")
    yield
    FAULTS.clear()
    TRACE.stop()


@pytest.fixture
def boards(monkeypatch: pytest.MonkeyPatch) -> Callable[..., list[Device]]:
    """Replace the simulated boards for one test."""

    def replace(count: int = 1, board: str = "aries-rb", memory_bytes: int | None = None) -> list[Device]:
        fleet = Fleet(BOARDS[board], count, memory_bytes)
        monkeypatch.setattr(NativeAccelerator, "fleet", fleet)
        return fleet.devices

    return replace


@pytest.fixture(scope="session")
def checkpoints(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A plain Hugging Face folder per family."""
    folder = tmp_path_factory.mktemp("checkpoints")
    return {name: make_checkpoint(folder / name, name) for name in FAMILIES}


@pytest.fixture(scope="session")
def artifacts(checkpoints: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """The same, built for the simulated device."""
    folder = tmp_path_factory.mktemp("artifacts")
    for name, checkpoint in checkpoints.items():
        build_artifact(checkpoint, folder / name, context_length=CONTEXT, prefill_chunk=CHUNK)
    return {name: folder / name for name in checkpoints}


@pytest.fixture
def load() -> Iterator[Callable[..., Any]]:
    """Load an artifact with the vendor's Auto class; everything is disposed of at the end."""
    vendor_stack()
    from transformers import AutoModelForCausalLM

    loaded: list[Any] = []

    def load_model(folder: Path, **kwargs: Any) -> Any:
        model = AutoModelForCausalLM.from_pretrained(str(folder), local_files_only=True, **kwargs)
        loaded.append(model)
        return model

    yield load_model
    for model in loaded:
        model.dispose()


@pytest.fixture
def llama(load: Callable[..., Any], artifacts: dict[str, Path]) -> Any:
    """The first tiny Llama, loaded on one core."""
    return load(artifacts["llama"], core_mode="single", target_cores=["0:0:0"])
