"""Building an artifact: what is in it, what is refused, and that half of one never appears."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from runtime.errors import (
    ModelDamagedError,
    ModelIncompleteError,
    ModelUnsupportedError,
    SettingError,
    StorageError,
)
from runtime.simulator import artifact, checkpoint
from runtime.simulator.build import build_artifact
from runtime.simulator.weights import open_mapped
from tests.simulator.checkpoints import assert_is_the_same_beside_a_load, make_checkpoint


@pytest.fixture
def source(checkpoints: dict[str, Path], tmp_path: Path) -> Path:
    """A copy of the tiny Llama that a test may change."""
    import shutil

    return Path(shutil.copytree(checkpoints["llama"], tmp_path / "source"))


def configure(folder: Path, **changes: Any) -> None:
    path = folder / "config.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))


def test_what_is_in_the_folder(source: Path, tmp_path: Path) -> None:
    for name in ("tokenizer.json", "tokenizer_config.json", "chat_template.jinja", "LICENSE", "training.py"):
        (source / name).write_text("{}")
    (source / "optimizer.bin").write_bytes(b"\x80pickle")
    configure(source, auto_map={"AutoModel": "modeling.Evil"})
    stages: list[tuple[str, float]] = []
    out = tmp_path / "made" / "llama"
    build_artifact(
        source, out, context_length=64, prefill_chunk=32, progress=lambda *step: stages.append(step)
    )

    assert sorted(path.name for path in out.iterdir()) == [
        "LICENSE",
        "chat_template.jinja",
        "config.json",
        "generation_config.json",
        "llama.mxq",
        "model.safetensors",
        "simulated.safetensors",
        "tokenizer.json",
        "tokenizer_config.json",
    ]
    config = json.loads((out / "config.json").read_text())
    assert config["model_type"] == "mobilint-llama"
    assert config["mxq_path"] == "llama.mxq"
    assert config["target_device"] == "aries-rb"
    assert config["npu_prefill_chunk_size"] == 32
    assert "auto_map" not in config
    assert list(load_file(out / "model.safetensors")) == ["embed_tokens.weight"]
    header = artifact.read_header(out / "llama.mxq")
    assert (header.max_cache_size, header.prefill_width, header.batch) == (64, 32, 1)
    artifact.verify(out / "llama.mxq")
    assert stages[-1] == ("Done", 1.0)
    assert all(0 <= fraction <= 1 for _, fraction in stages)
    assert out.stat().st_mode & 0o777 == 0o755


def test_the_context_is_never_longer_than_the_checkpoint_allows(source: Path, tmp_path: Path) -> None:
    build_artifact(source, tmp_path / "out", context_length=100_000)
    assert artifact.read_header(tmp_path / "out" / "llama.mxq").max_cache_size == 256


def test_several_files_in_and_out(
    source: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, checkpoints: dict[str, Path]
) -> None:
    tensors = load_file(source / "model.safetensors")
    names = sorted(tensors)
    (source / "model.safetensors").unlink()
    for number, part in enumerate((names[::2], names[1::2]), 1):
        save_file(
            {name: tensors[name].to(torch.bfloat16) for name in part},
            source / f"model-0000{number}-of-00002.safetensors",
        )
    monkeypatch.setattr(checkpoint, "SHARD_BYTES", 40_000)
    build_artifact(source, tmp_path / "out")

    header = artifact.read_header(tmp_path / "out" / "llama.mxq")
    assert len(header.weights) > 3
    packed = {
        name: array
        for weight in header.weights
        for name, array in open_mapped(tmp_path / "out" / weight.file).arrays.items()
    }
    down = tensors["model.layers.2.mlp.down_proj.weight"].to(torch.bfloat16).float()
    assert torch.equal(torch.from_numpy(packed["layers.2.down"]), down.T)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"model_type": "gpt2"}, "“gpt2”"),
        ({"model_type": "mobilint-llama"}, "mobilint-llama"),
        ({"hidden_act": "gelu"}, "activation gelu"),
        ({"num_attention_heads": "many"}, "cannot be used"),
        ({"rope_parameters": {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 2.0}}, "“dynamic”"),
        ({"quantization_config": {"quant_method": "gptq"}}, "quantised"),
    ],
)
def test_checkpoints_that_cannot_be_simulated(
    source: Path, tmp_path: Path, changes: dict[str, Any], words: str
) -> None:
    configure(source, **changes)
    with pytest.raises(ModelUnsupportedError, match=words) as error:
        build_artifact(source, tmp_path / "out")
    assert error.value.remedy
    assert not (tmp_path / "out").exists()


def test_a_sliding_window_shorter_than_the_context(tmp_path: Path) -> None:
    source = make_checkpoint(
        tmp_path / "source",
        "qwen3",
        use_sliding_window=True,
        sliding_window=32,
        max_window_layers=1,
    )
    with pytest.raises(ModelUnsupportedError, match="sliding window of 32"):
        build_artifact(source, tmp_path / "out")
    build_artifact(source, tmp_path / "out", context_length=32)


def test_checkpoints_that_are_incomplete_or_damaged(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    weights = source / "model.safetensors"
    tensors = load_file(weights)
    save_file({k: v for k, v in tensors.items() if "layers.1.mlp.up_proj" not in k}, weights)
    with pytest.raises(ModelIncompleteError, match=r"up_proj"):
        build_artifact(source, out)
    weights.write_bytes(weights.read_bytes()[:200])
    with pytest.raises(ModelDamagedError, match=r"model\.safetensors"):
        build_artifact(source, out)
    weights.unlink()
    with pytest.raises(ModelIncompleteError, match="no weights"):
        build_artifact(source, out)
    (source / "config.json").write_text("{")
    with pytest.raises(ModelDamagedError, match=r"config\.json"):
        build_artifact(source, out)
    (source / "config.json").unlink()
    with pytest.raises(ModelIncompleteError, match=r"no config\.json"):
        build_artifact(source, out)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["source"], "nothing half-built stays"


@pytest.mark.parametrize(
    "options",
    [
        {"core_modes": ()},
        {"core_modes": ("warp",)},
        {"core_modes": ("single", "global4"), "target_device": "regulus-rb"},
        {"max_batch_size": 0},
        {"max_batch_size": 257},
        {"max_batch_size": 2, "core_modes": ("global4",)},
        {"context_length": 0},
        {"prefill_chunk": -1},
    ],
)
def test_options_out_of_range(source: Path, tmp_path: Path, options: dict[str, Any]) -> None:
    with pytest.raises(SettingError):
        build_artifact(source, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


def test_an_existing_folder_is_left_alone(source: Path, tmp_path: Path) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / "precious.txt").write_text("mine")
    with pytest.raises(StorageError, match="exists already"):
        build_artifact(source, out)
    (out / "precious.txt").unlink()
    build_artifact(source, out)
    assert (out / "llama.mxq").is_file()


def test_an_artifact_is_the_same_while_another_thread_loads_a_model(source: Path, tmp_path: Path) -> None:
    assert_is_the_same_beside_a_load(source, tmp_path)
