"""What the simulated device may not do: copy KV in a step, or map a file twice."""

from __future__ import annotations

import tracemalloc
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qbruntime

from runtime.simulator.build import build_artifact
from runtime.simulator.weights import open_mapped

CONTEXT = 4096
HELD = 4000


@pytest.fixture
def model(checkpoints: dict[str, Path], tmp_path: Path) -> Any:
    from tests.simulator.checkpoints import make_checkpoint

    long = make_checkpoint(tmp_path / "long", "llama", max_position_embeddings=CONTEXT, head_dim=32)
    build_artifact(long, tmp_path / "artifact", context_length=CONTEXT, prefill_chunk=500)
    model = qbruntime.Model(str(tmp_path / "artifact" / "llama.mxq"))
    model.launch(qbruntime.Accelerator())
    prompt = np.random.default_rng(0).normal(size=(1, 1, 500, 48)).astype(np.float32)
    for start in range(0, HELD, 500):
        model.infer([prompt], None, start)
    return model


def test_a_decode_step_allocates_less_than_one_layers_keys(model: Any) -> None:
    """numpy reports every array to tracemalloc, so a copy of the KV in use could not hide."""
    step = np.ones((1, 1, 1, 48), np.float32)
    memory = model._model._kv._memory
    address = memory.__array_interface__["data"]
    before = memory[0, 0, 0, :, :HELD].copy()
    keys_in_use = before.nbytes
    model.infer([step], None, HELD)

    tracemalloc.start()
    try:
        for offset in range(1, 20):
            model.infer([step], None, HELD + offset)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()

    assert peak < keys_in_use / 2, f"{peak} bytes at once, with {keys_in_use} bytes of keys in a layer"
    assert memory is model._model._kv._memory
    assert memory.__array_interface__["data"] == address
    np.testing.assert_array_equal(memory[0, 0, 0, :, :HELD], before)


def test_untouched_kv_memory_is_not_resident(checkpoints: dict[str, Path], tmp_path: Path) -> None:
    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    build_artifact(checkpoints["llama"], tmp_path / "big", max_batch_size=256, context_length=CONTEXT)
    model = qbruntime.Model(str(tmp_path / "big" / "llama.mxq"))
    before = resident()
    model.launch(qbruntime.Accelerator())
    claimed = sum(info.size * info.num_batches for info in model.get_cache_infos())
    assert claimed > 20_000_000
    assert resident() - before < claimed / 4


def test_weights_are_mapped_once_and_from_the_file(
    artifacts: dict[str, Path], load: Callable[..., Any]
) -> None:
    folder = artifacts["llama"]
    models = [load(folder, core_mode="single", target_cores=[f"0:0:{core}"]) for core in range(3)]
    models.append(load(folder, core_mode="single", max_batch_size=2))
    layers = [
        native._model._executor._layers[1] for model in models for native in model.npu_backend.mxq_models
    ]
    assert len(layers) == 5
    assert len({layer.qkv.__array_interface__["data"] for layer in layers}) == 1

    path = folder / "simulated.safetensors"
    assert open_mapped(path) is open_mapped(path)
    assert str(path) in Path("/proc/self/maps").read_text()
    assert path.stat().st_size > sum(array.nbytes for array in open_mapped(path).arrays.values())


def test_a_tied_head_is_the_hosts_embedding(artifacts: dict[str, Path]) -> None:
    header_bytes = (artifacts["llama"] / "llama.mxq").read_bytes()
    assert b"model.safetensors" in header_bytes
    mapped = open_mapped(artifacts["llama"] / "simulated.safetensors")
    assert not {"lm_head", "embedding"} & set(mapped.arrays)
    untied = open_mapped(artifacts["qwen2"] / "simulated.safetensors")
    assert untied.arrays["lm_head"].shape == (48, 131)
