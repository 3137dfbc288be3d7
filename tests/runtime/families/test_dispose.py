"""Unloading gives every submodel's device memory back, also those inside wrappers that cannot dispose."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runtime import simulator
from runtime.config import RuntimeConfig
from runtime.devices import activate
from runtime.families import load_model
from runtime.layout import LayoutRequest
from runtime.messages import LoadSpeech
from runtime.simulator.build import build_artifact
from runtime.speech.engine import load_engine
from tests import tiny_qwen2_vl


def used() -> int:
    return simulator.usage()[0].memory_used


def silent(_stage: str, _fraction: float | None) -> None:
    pass


@pytest.fixture
def whisper(demo_models: Path) -> Callable[[], Callable[[], None]]:
    """Loads an encoder and a decoder; what it returns unloads them."""
    folder = demo_models / "whisper-tiny.en-sim"
    config = RuntimeConfig(demo_models.parent, "simulated")
    return lambda: load_engine(LoadSpeech("w", str(folder), LayoutRequest()), config, silent).close


@pytest.fixture
def qwen2_vl(tmp_path: Path) -> Callable[[], Callable[[], None]]:
    """Loads a vision and a text model; what it returns unloads them."""
    checkpoint = tiny_qwen2_vl.make_checkpoint(tmp_path / "checkpoint")
    build_artifact(checkpoint, tmp_path / "artifact", prefill_chunk=32)
    return lambda: load_model("v", tmp_path / "artifact", LayoutRequest(), "simulated", silent).dispose


@pytest.mark.parametrize("family", ["whisper", "qwen2_vl"])
def test_both_halves_of_a_composite_model_leave_the_device(
    family: str, request: pytest.FixtureRequest
) -> None:
    activate("simulated")
    load: Callable[[], Callable[[], None]] = request.getfixturevalue(family)
    before = used()
    for _ in range(2):
        unload = load()
        assert used() > before
        unload()
        assert used() == before
