"""8-bit projections: close to the float weights, shared between models, refused in words when misnamed."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.catalog.entries import DEMO_CHAT
from runtime.errors import SettingError
from runtime.families import load_model
from runtime.families.base import FamilyModel, PromptChunk
from runtime.layout.request import LayoutRequest
from runtime.messages import TextPart, Turn
from runtime.simulator import quantised

PROMPTS = (
    "What is the capital of France?",
    "Write a Python function that adds two numbers.",
    "Why is the sky blue?",
    "안녕하세요?",
)


@pytest.fixture
def int8(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(quantised.ENVIRONMENT, "int8")


@settings(max_examples=30)
@given(st.integers(0, 2**32), st.integers(1, 20), st.sampled_from([16, 48, 256]), st.integers(1, 70))
def test_levels_and_scales_give_the_weights_back(seed: int, rows: int, inputs: int, outputs: int) -> None:
    weight = np.random.default_rng(seed).normal(0, 0.1, (inputs, outputs)).astype(np.float32)
    levels, scales = quantised.quantise(weight)
    back = ((levels.astype(np.int32) - 128) * scales[..., None]).reshape(outputs, inputs).T
    # Half a level is the most a weight can be off.
    worst = np.repeat(scales, levels.shape[-1], axis=-1).T / 2
    assert (np.abs(back - weight) <= worst * 1.001 + 1e-12).all()


@pytest.mark.usefixtures("int8")
@pytest.mark.parametrize("rows", [1, 3, 40])
def test_a_product_is_that_of_the_float_weights_but_for_rounding(rows: int) -> None:
    rng = np.random.default_rng(rows)
    weight = rng.normal(0, 0.1, (512, 384)).astype(np.float32)
    x = rng.normal(0, 1, (rows, 512)).astype(np.float32)
    product, exact = x @ quantised.prepare(weight), x @ weight
    assert product.shape == exact.shape
    assert np.abs(product - exact).max() < 0.02 * np.abs(exact).max()
    one = x[0] @ quantised.prepare(weight)
    assert one.shape == (384,)
    assert np.allclose(one, product[0], atol=1e-4)


@pytest.mark.usefixtures("int8")
def test_one_matrix_serves_every_model_and_goes_with_the_last() -> None:
    weight = np.ones((512, 384), np.float32)
    first, second = quantised.prepare(weight), quantised.prepare(weight)
    assert first is second
    assert quantised.prepare(np.ones((512, 384), np.float32)) is not first
    before = len(quantised._MADE)
    del first, second
    assert len(quantised._MADE) == before - 1


@pytest.mark.usefixtures("int8")
@pytest.mark.parametrize("shape", [(64, 64), (500, 400)])
def test_small_and_odd_matrices_stay_as_they_are(shape: tuple[int, int]) -> None:
    weight = np.ones(shape, np.float32)
    assert quantised.prepare(weight) is weight


def test_float32_leaves_every_weight_as_it_is() -> None:
    weight = np.ones((512, 384), np.float32)
    assert quantised.prepare(weight) is weight


def test_a_precision_that_does_not_exist_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(quantised.ENVIRONMENT, "int3")
    with pytest.raises(SettingError) as caught:
        quantised.precision()
    assert "int3" in caught.value.summary
    assert "float32" in caught.value.remedy


def last_logits(model: FamilyModel, prompt: str) -> np.ndarray:
    turns = (Turn("user", (TextPart(prompt),)),)
    tokens = model.tokenise(model.render(turns), turns)
    return model.prefill([PromptChunk(tokens, model.new_cache(), 0, len(tokens.token_ids))])[0].copy()


def load(models: Path) -> Any:
    return load_model(DEMO_CHAT, models / DEMO_CHAT, LayoutRequest(), "simulated", lambda *_: None)


@pytest.mark.slow
def test_the_demo_model_says_nearly_the_same(demo_models: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    exact_model = load(demo_models)
    exact = [last_logits(exact_model, prompt) for prompt in PROMPTS]
    exact_model.dispose()
    monkeypatch.setenv(quantised.ENVIRONMENT, "int8")
    model = load(demo_models)
    for prompt, wanted in zip(PROMPTS, exact, strict=True):
        got = last_logits(model, prompt)
        p, q = (np.exp(x - x.max()) / np.exp(x - x.max()).sum() for x in (wanted, got))
        divergence = float((p * (np.log(p + 1e-12) - np.log(q + 1e-12))).sum())
        assert divergence < 0.03, prompt
    model.dispose()
