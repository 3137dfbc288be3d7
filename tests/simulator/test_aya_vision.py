"""Aya Vision through the vendor's classes, against plain transformers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from runtime.device.active import vendor_stack
from runtime.errors import ModelDamagedError, ModelUnsupportedError
from runtime.families.vendor import dispose_model
from runtime.simulator import artifact
from runtime.simulator.build import build_artifact
from runtime.simulator.roles import make_executor
from tests.simulator.checkpoints import unsettle
from tests.simulator.test_generate import LAYOUTS

IMAGE, TILE_TOKENS = 9, 4


def configuration(**changes: Any) -> Any:
    from transformers import AyaVisionConfig, Cohere2Config, SiglipVisionConfig

    text = Cohere2Config(
        vocab_size=97,
        hidden_size=48,
        intermediate_size=64,
        num_hidden_layers=3,
        num_attention_heads=6,
        num_key_value_heads=2,
        max_position_embeddings=128,
        sliding_window=10,
        sliding_window_pattern=3,
        initializer_range=0.25,
        logit_scale=0.5,
        bos_token_id=None,
        eos_token_id=None,
        pad_token_id=0,
    )
    vision = SiglipVisionConfig(
        hidden_size=32,
        intermediate_size=40,
        num_hidden_layers=2,
        num_attention_heads=4,
        image_size=28,
        patch_size=7,
        initializer_range=0.25,
    )
    settings = {
        "vision_feature_select_strategy": "full",
        "vision_feature_layer": -1,
        "downsample_factor": 2,
        "image_token_id": IMAGE,
        "alignment_intermediate_size": 56,
    }
    return AyaVisionConfig(vision_config=vision, text_config=text, **settings | changes)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import AyaVisionForConditionalGeneration

    torch.manual_seed(11)
    model = unsettle(AyaVisionForConditionalGeneration(configuration()))
    with torch.no_grad():
        model.model.multi_modal_projector.linear_1.weight.normal_(0, 0.3)
        model.model.multi_modal_projector.linear_2.weight.normal_(0, 0.3)
    folder = tmp_path_factory.mktemp("aya") / "checkpoint"
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def plain(checkpoint: Path) -> Any:
    from transformers import AyaVisionForConditionalGeneration

    return AyaVisionForConditionalGeneration.from_pretrained(checkpoint).eval()


@pytest.fixture(scope="module")
def built(checkpoint: Path) -> Path:
    build_artifact(checkpoint, checkpoint.parent / "artifact", prefill_chunk=8)
    return checkpoint.parent / "artifact"


@pytest.fixture(params=LAYOUTS)
def model(request: pytest.FixtureRequest, built: Path) -> Iterator[Any]:
    vendor_stack()
    from transformers import AutoModelForImageTextToText

    layout = {f"text_{key}": value for key, value in LAYOUTS[request.param].items()}
    model = AutoModelForImageTextToText.from_pretrained(
        str(built), text_core_mode=request.param, vision_core_mode="single", **layout
    )
    yield model
    dispose_model(model)


def pictures(count: int) -> torch.Tensor:
    return torch.randn(count, 3, 28, 28, generator=torch.Generator().manual_seed(count))


def prompt(tiles: int) -> torch.Tensor:
    return torch.tensor([[3, 17, *[IMAGE] * (tiles * TILE_TOKENS), 40, 41, 5, 60, 11, 8, 30]])


def answer(model: Any, ids: torch.Tensor, **kwargs: Any) -> list[int]:
    with torch.inference_mode():
        output = model.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=16,
            do_sample=False,
            pad_token_id=0,
            **kwargs,
        )
    return output[0].tolist()


def test_pictures_become_the_same_embeddings(model: Any, plain: Any) -> None:
    with torch.inference_mode():
        ours = model.get_image_features(pixel_values=pictures(3))
        theirs = plain.model.get_image_features(pixel_values=pictures(3)).pooler_output
    torch.testing.assert_close(ours, torch.as_tensor(theirs).reshape(ours.shape), rtol=1e-4, atol=1e-4)


@pytest.mark.parametrize("tiles", [0, 1, 3])
def test_greedy_answers_are_those_of_plain_transformers(model: Any, plain: Any, tiles: int) -> None:
    given = {"pixel_values": pictures(tiles)} if tiles else {}
    ours = answer(model, prompt(tiles), **given)
    assert ours == answer(plain, prompt(tiles), **given)
    assert len(set(ours[-16:])) > 4, "a model that repeats itself proves little"


def test_a_second_turn_on_the_same_cache(model: Any, plain: Any) -> None:
    cache = model._get_cache("", 1, 0)
    first = answer(model, prompt(1), pixel_values=pictures(1), past_key_values=cache)
    turn = torch.tensor([[*first, 44, 45, 46]])
    assert answer(model, turn, past_key_values=cache) == answer(plain, turn, pixel_values=pictures(1))


def test_what_the_vendors_class_cannot_do_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    import shutil

    folder = Path(shutil.copytree(checkpoint, tmp_path / "source"))
    configuration(vision_feature_layer=-2).save_pretrained(folder)
    with pytest.raises(ModelUnsupportedError, match="the layer -2"):
        build_artifact(folder, tmp_path / "out")


@pytest.mark.parametrize(
    ("key", "value"),
    [("patch", 5), ("square", 3), ("heads", 5), ("activation", "tanh"), ("text", 0), ("wide", 55)],
)
def test_a_damaged_header_is_refused(built: Path, key: str, value: Any) -> None:
    path = built / "vision.mxq"
    header = artifact.read_header(path)
    values = {name: getattr(header, name) for name in header.__dataclass_fields__}
    damaged = artifact.Header(**values | {"architecture": {**header.architecture, key: value}})
    with pytest.raises(ModelDamagedError, match=r"vision\.mxq"):
        make_executor(path, damaged)
