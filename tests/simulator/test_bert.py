"""BERT through the vendor's classes, against plain transformers."""

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


@pytest.fixture(scope="module", params=[True, False], ids=["tied", "untied"])
def checkpoint(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import BertConfig, BertForMaskedLM

    config = BertConfig(
        vocab_size=61,
        hidden_size=32,
        num_hidden_layers=3,
        num_attention_heads=4,
        intermediate_size=40,
        max_position_embeddings=48,
        initializer_range=0.3,
        tie_word_embeddings=request.param,
    )
    torch.manual_seed(3)
    model = unsettle(BertForMaskedLM(config))
    folder = tmp_path_factory.mktemp("bert") / "checkpoint"
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def artifact(checkpoint: Path) -> Path:
    build_artifact(checkpoint, checkpoint.parent / "artifact")
    return checkpoint.parent / "artifact"


@pytest.fixture(params=LAYOUTS)
def model(request: pytest.FixtureRequest, artifact: Path) -> Iterator[Any]:
    vendor_stack()
    from transformers import AutoModelForMaskedLM

    layout = LAYOUTS[request.param]
    model = AutoModelForMaskedLM.from_pretrained(str(artifact), core_mode=request.param, **layout)
    yield model
    dispose_model(model)


def test_the_predictions_are_those_of_plain_transformers(model: Any, checkpoint: Path) -> None:
    from transformers import BertForMaskedLM

    plain = BertForMaskedLM.from_pretrained(checkpoint).eval()
    assert type(model).__module__.startswith("transformers_mblt.")
    for length in (1, 7, 48):
        ids = torch.arange(length)[None] * 5 % 61
        kinds = (torch.arange(length)[None] > length // 2).long()
        with torch.inference_mode():
            ours = model(input_ids=ids, token_type_ids=kinds).logits
            theirs = plain(input_ids=ids, token_type_ids=kinds).logits
        torch.testing.assert_close(ours, theirs, rtol=1e-3, atol=1e-3)
        assert ours.argmax(-1).tolist() == theirs.argmax(-1).tolist()


def test_several_texts_at_once_are_refused_by_the_vendors_class(model: Any) -> None:
    with pytest.raises(ValueError, match="Input shape is invalid"), torch.inference_mode():
        model(input_ids=torch.ones(2, 5, dtype=torch.long))
