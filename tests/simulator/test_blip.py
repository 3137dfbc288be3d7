"""BLIP captioning through the vendor's classes, against plain transformers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from runtime.device.active import vendor_stack
from runtime.families.vendor import dispose_model
from runtime.simulator.build import build_artifact
from tests.simulator.checkpoints import unsettle
from tests.simulator.test_generate import LAYOUTS

START, STOP = 2, 3


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import BlipConfig, BlipForConditionalGeneration

    config = BlipConfig(
        text_config={
            "vocab_size": 83,
            "hidden_size": 32,
            "intermediate_size": 48,
            "num_hidden_layers": 3,
            "num_attention_heads": 4,
            "max_position_embeddings": 40,
            "encoder_hidden_size": 24,
            "initializer_range": 0.3,
            "bos_token_id": START,
            "sep_token_id": STOP,
            "eos_token_id": STOP,
            "pad_token_id": 0,
        },
        vision_config={
            "hidden_size": 24,
            "intermediate_size": 40,
            "num_hidden_layers": 2,
            "num_attention_heads": 3,
            "image_size": 28,
            "patch_size": 7,
        },
    )
    torch.manual_seed(4)  # Most small models of this kind soon repeat themselves.
    model = unsettle(BlipForConditionalGeneration(config))
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 0.2)
            if "position_embeddings" in name or "word_emb" in name:
                parameter.normal_(0, 1)
    model.tie_weights()
    folder = tmp_path_factory.mktemp("blip") / "checkpoint"
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def plain(checkpoint: Path) -> Any:
    from transformers import BlipForConditionalGeneration

    return BlipForConditionalGeneration.from_pretrained(checkpoint).eval()


@pytest.fixture(scope="module")
def built(checkpoint: Path) -> Path:
    build_artifact(checkpoint, checkpoint.parent / "artifact")
    return checkpoint.parent / "artifact"


@pytest.fixture(params=LAYOUTS)
def model(request: pytest.FixtureRequest, built: Path) -> Iterator[Any]:
    vendor_stack()
    from transformers import AutoModelForImageTextToText

    layout = {
        f"{prefix}{key}": value
        for prefix in ("text_", "vision_")
        for key, value in ({"core_mode": request.param} | LAYOUTS[request.param]).items()
    }
    model = AutoModelForImageTextToText.from_pretrained(str(built), **layout)
    yield model
    dispose_model(model)


def picture(seed: int) -> torch.Tensor:
    return torch.randn(1, 3, 28, 28, generator=torch.Generator().manual_seed(seed))


def caption(model: Any, pixels: torch.Tensor, prompt: list[int] | None = None) -> list[int]:
    given = {} if prompt is None else {"input_ids": torch.tensor([prompt])}
    with torch.inference_mode():
        return model.generate(pixels, max_new_tokens=14, do_sample=False, **given)[0].tolist()


def test_a_picture_becomes_the_same_embeddings(model: Any, plain: Any) -> None:
    with torch.inference_mode():
        ours = model.vision_model(pixel_values=picture(0)).last_hidden_state
        theirs = plain.vision_model(pixel_values=picture(0)).last_hidden_state
    torch.testing.assert_close(ours, theirs, rtol=1e-4, atol=1e-4)


def test_captions_are_those_of_plain_transformers(model: Any, plain: Any) -> None:
    captions = [caption(model, picture(seed)) for seed in (1, 2, 1)]
    assert captions == [caption(plain, picture(seed)) for seed in (1, 2, 1)]
    assert len(set(captions[0])) > 5, "a model that repeats itself proves little"
    assert captions[0] == captions[2] != captions[1], "what was seen of one picture is not kept for another"


def test_captions_that_continue_a_prompt(model: Any, plain: Any) -> None:
    prompt = [START, 17, 40, 41, 5, STOP]
    ours = caption(model, picture(3), prompt)
    assert ours == caption(plain, picture(3), prompt)


def test_the_logits_of_every_position(model: Any, plain: Any) -> None:
    ids = torch.tensor([[START, 60, 9, 33, 21]])
    with torch.inference_mode():
        ours = model(pixel_values=picture(4), input_ids=ids).logits
        theirs = plain(pixel_values=picture(4), input_ids=ids).logits
    torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
