"""The Qwen2-VL roles on the simulated device, against the reference implementation."""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from PIL import Image

from runtime.device.active import activate, vendor_stack
from runtime.errors import SettingError
from runtime.families import mrope
from runtime.simulator import artifact
from runtime.simulator.build import build_artifact
from runtime.simulator.build_vision import vision_architecture
from runtime.simulator.mrope_decoder import padded
from runtime.simulator.roles import make_executor
from runtime.simulator.vision import fixed_rope, unfold
from tests.simulator.headers import assert_refused
from tests.simulator.pictures import ask, counted, noise
from tests.simulator.test_generate import LAYOUTS
from tests.tiny_qwen2_vl import make_checkpoint

SHORT_CHUNK = 16


@dataclass
class Pair:
    """The reference and the simulated artifact made from it."""

    checkpoint: Path
    plain: Any
    dynamic: Path
    static: Path


@pytest.fixture(scope="module")
def pair(tmp_path_factory: pytest.TempPathFactory) -> Pair:
    from transformers import Qwen2VLForConditionalGeneration

    folder = tmp_path_factory.mktemp("qwen2-vl")
    checkpoint = make_checkpoint(folder / "checkpoint")
    build_artifact(checkpoint, folder / "dynamic", prefill_chunk=SHORT_CHUNK)
    build_artifact(checkpoint, folder / "static", prefill_chunk=SHORT_CHUNK, image_side=224)
    plain = Qwen2VLForConditionalGeneration.from_pretrained(checkpoint).eval()
    return Pair(checkpoint, plain, folder / "dynamic", folder / "static")


def load(folder: Path, *, repair: bool = True, **options: Any) -> tuple[Any, Any]:
    """(model, processor) by the vendor's Auto classes."""
    activate("simulated")
    vendor_stack()
    from transformers import AutoModelForImageTextToText, AutoProcessor

    model = AutoModelForImageTextToText.from_pretrained(str(folder), local_files_only=True, **options).eval()
    if repair and model.config.dynamic_vision:
        assert mrope.repair(model.model.language_model._mobilint_rotary_emb)
    return model, AutoProcessor.from_pretrained(str(folder), local_files_only=True)


def generate(model: Any, batch: Any) -> list[int]:
    with torch.inference_mode():
        return model.generate(**batch, max_new_tokens=24, do_sample=False)[0].tolist()


@pytest.mark.parametrize("size", [(224, 224), (84, 196), (308, 56)])
def test_the_dynamic_vision_network_equals_the_reference(pair: Pair, size: tuple[int, int]) -> None:
    model, processor = load(pair.dynamic)
    batch = ask(processor, "", noise(*size))
    with torch.inference_mode():
        ours = model.model.visual(batch["pixel_values"], grid_thw=batch["image_grid_thw"]).pooler_output
        theirs = pair.plain.model.visual(batch["pixel_values"], grid_thw=batch["image_grid_thw"])
    torch.testing.assert_close(ours, theirs.pooler_output, atol=1e-4, rtol=1e-4)


def test_the_static_vision_network_equals_the_reference_on_its_picture(pair: Pair) -> None:
    model, processor = load(pair.static)
    assert not model.config.dynamic_vision
    picture = noise(500, 300)
    ours = ask(processor, "", picture)
    with torch.inference_mode():
        features = model.model.visual(ours["pixel_values"], grid_thw=ours["image_grid_thw"]).pooler_output
        plain = ask(processor, "", picture.resize((224, 224)))
        reference = pair.plain.model.visual(plain["pixel_values"], grid_thw=plain["image_grid_thw"])
    torch.testing.assert_close(features, reference.pooler_output, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize(
    "pictures",
    [(), (noise(224, 224),), (noise(84, 196),), (noise(112, 112), noise(56, 140, 1))],
    ids=["text", "square", "tall", "two"],
)
def test_greedy_answers_equal_plain_transformers(pair: Pair, pictures: tuple[Image.Image, ...]) -> None:
    model, processor = load(pair.dynamic)
    batch = ask(processor, "What is this?", *pictures)
    assert batch["input_ids"].shape[1] > SHORT_CHUNK, "the prompt must take several prefill chunks"
    assert generate(model, batch) == generate(pair.plain, batch)


@pytest.mark.parametrize("core_mode", LAYOUTS)
def test_every_core_mode_answers_the_same(pair: Pair, core_mode: str) -> None:
    layout = LAYOUTS[core_mode] | {"core_mode": core_mode}
    options = {f"{half}_{name}": value for half in ("vision", "text") for name, value in layout.items()}
    model, processor = load(pair.dynamic, **options)
    batch = ask(processor, "What is this?", noise(84, 112))
    assert generate(model, batch) == generate(pair.plain, batch)


def test_a_second_turn_on_the_same_cache_is_that_of_a_fresh_run(pair: Pair) -> None:
    model, processor = load(pair.dynamic)
    cache = model._get_cache("", 1, 0)
    batch = ask(processor, "What is this?", noise(84, 112))
    with torch.inference_mode():
        first = model.generate(**batch, max_new_tokens=8, do_sample=False, past_key_values=cache)
    turn = torch.cat([first, torch.tensor([[44, 45, 46]])], dim=1)
    said = {"input_ids": turn, "attention_mask": torch.ones_like(turn)}
    added = turn.shape[1] - batch["input_ids"].shape[1]
    kinds = torch.nn.functional.pad(batch["mm_token_type_ids"], (0, added))
    with torch.inference_mode():
        ours = model.generate(**said, max_new_tokens=8, do_sample=False, past_key_values=cache)
    fresh = {**batch, **said, "mm_token_type_ids": kinds}
    assert ours[0, : turn.shape[1] + 8].tolist() == generate(pair.plain, fresh)[: turn.shape[1] + 8]


def test_the_vendors_rotary_rows_need_the_repair(pair: Pair) -> None:
    """When this fails, the vendor has mended its table and `mrope.repair` has nothing left to do."""
    model, processor = load(pair.dynamic, repair=False)
    rotary = model.model.language_model._mobilint_rotary_emb
    assert not mrope.agrees(rotary, rotary.mrope_section)
    text, picture = ask(processor, "What is this?"), ask(processor, "What is this?", noise(224, 224))
    assert generate(model, text) == generate(pair.plain, text), "text alone has equal axes"
    assert generate(model, picture) != generate(pair.plain, picture)


def test_repair_leaves_a_right_table_alone_and_gives_up_on_odd_sections(pair: Pair) -> None:
    rotary = load(pair.dynamic)[0].model.language_model._mobilint_rotary_emb
    right = rotary.mrope_section
    assert mrope.agrees(rotary, [2, 4, 2])
    rotary.mrope_section = [3, 3, 2]
    assert not mrope.repair(rotary)
    assert rotary.mrope_section == [3, 3, 2]
    rotary.mrope_section = None
    assert mrope.repair(rotary), "one axis needs no sections"
    rotary.mrope_section = right


def test_a_static_decoder_counts_positions_one_by_one(pair: Pair) -> None:
    """What a text artifact without a rotary input can know; the reference is told the same positions."""
    model, processor = load(pair.static)
    batch = ask(processor, "What is this?", noise(224, 224))
    expected = counted(pair.plain, batch, 12)
    assert generate(model, batch)[: len(expected)] == expected


def test_a_tied_head_is_read_from_the_embedding(tmp_path: Path) -> None:
    from transformers import Qwen2VLForConditionalGeneration

    checkpoint = make_checkpoint(tmp_path / "tied", tied=True)
    build_artifact(checkpoint, tmp_path / "out")
    model, processor = load(tmp_path / "out")
    batch = ask(processor, "What is this?", noise(112, 84))
    plain = Qwen2VLForConditionalGeneration.from_pretrained(checkpoint).eval()
    assert generate(model, batch) == generate(plain, batch)


def test_the_artifact_names_the_vendors_classes_and_both_networks(pair: Pair) -> None:
    config = json.loads((pair.static / "config.json").read_text())
    assert config["model_type"] == "mobilint-qwen2_vl"
    assert {config["vision_mxq_path"], config["text_mxq_path"]} == {"vision.mxq", "text.mxq"}
    assert config["dynamic_vision"] is False
    roles = [artifact.read_header(path).role for path in sorted(pair.dynamic.glob("*.mxq"))]
    assert roles == ["mrope decoder", "vision"]


def test_another_static_size_is_refused(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="448"):
        build_artifact(pair.checkpoint, tmp_path / "out", image_side=448)
    assert not (tmp_path / "out").exists()


def test_several_conversations_with_pictures_of_any_size_are_refused(pair: Pair, tmp_path: Path) -> None:
    with pytest.raises(SettingError, match="any size answers one conversation at a time") as refused:
        build_artifact(pair.checkpoint, tmp_path / "out", max_batch_size=2)
    assert "image_side 224" in refused.value.info.remedy
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("key", "value"),
    [("embed", 0), ("heads", 3), ("grid_height", 15), ("activation", "tanh"), ("layers", 3), ("hidden", 65)],
)
def test_a_damaged_header_is_refused(pair: Pair, key: str, value: int | str) -> None:
    assert_refused(pair.dynamic / "vision.mxq", key, value)


def test_the_fixed_grid_has_the_references_positions(pair: Pair) -> None:
    from transformers.vision_utils import get_vision_position_ids

    arch = vision_architecture(pair.plain.config.vision_config, 224)
    grid = torch.tensor([[1, arch.grid_height, arch.grid_width]])
    positions = get_vision_position_ids(grid, arch.merge)
    cos, sin = pair.plain.model.visual.rotary_pos_emb(torch.zeros(1), positions)
    np.testing.assert_allclose(fixed_rope(arch)[0], cos.numpy(), atol=1e-5)
    np.testing.assert_allclose(fixed_rope(arch)[1], sin.numpy(), atol=1e-5)


def test_unfolding_undoes_the_vendors_rearrangement(pair: Pair) -> None:
    model, _ = load(pair.static)
    arch = vision_architecture(pair.plain.config.vision_config, 224)
    patches = torch.arange(256 * arch.folded, dtype=torch.float32).reshape(256, arch.folded)
    laid_out = model.model.visual._preprocess_image_tokens(patches, torch.tensor([1, 16, 16]))
    assert tuple(laid_out.shape) == tuple(make_executor_inputs(pair.static)[0])
    np.testing.assert_array_equal(unfold(arch, laid_out.numpy()), patches.numpy())


def make_executor_inputs(folder: Path) -> Any:
    path = folder / "vision.mxq"
    return make_executor(path, artifact.read_header(path)).inputs


@settings(max_examples=50, deadline=None)
@given(head_dim=st.integers(1, 300))
def test_rows_of_angles_are_padded_to_whole_blocks(head_dim: int) -> None:
    assert padded(head_dim) % 64 == 0
    assert head_dim <= padded(head_dim) < head_dim + 64


def test_the_architecture_survives_its_header(pair: Pair) -> None:
    arch = vision_architecture(pair.plain.config.vision_config, None)
    assert artifact.read_header(pair.dynamic / "vision.mxq").architecture == asdict(arch)
