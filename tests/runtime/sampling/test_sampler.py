"""Sampling against hand-computed arrays and against transformers' own processors."""

from __future__ import annotations

import math
from collections import Counter

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.generation.logits_process import (
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from runtime.errors import BadLogitsError, SettingError
from runtime.sampling.params import SamplingRequest
from runtime.sampling.sampler import Sampler, resolve


def sampler(prompt: tuple[int, ...] = (), eos: tuple[int, ...] = (), **values: object) -> Sampler:
    return Sampler(resolve(SamplingRequest(**values), {}), prompt, frozenset(eos))  # type: ignore[arg-type]


def logits(*values: float) -> np.ndarray:
    return np.array(values, dtype=np.float32)


def support(logits_: np.ndarray, draws: int = 400, **values: object) -> set[int]:
    drawing = sampler(seed=7, **values)
    return {drawing.draw(logits_) for _ in range(draws)}


@pytest.mark.parametrize("values", [{"temperature": 0.0}, {"top_k": 1}, {"temperature": 9e-6}])
def test_greedy_takes_the_likeliest(values: dict[str, float]) -> None:
    assert support(logits(0, 3, 2.9), **values) == {1}


def test_greedy_ends_where_vllm_ends_it() -> None:
    near = logits(1, 1 + 5e-6)
    assert support(near, temperature=9.9e-6) == {1}
    assert support(near, temperature=1.1e-5) == {0, 1}


def test_top_k_keeps_the_k_likeliest_and_ties() -> None:
    assert support(logits(1, 1, 0.9, 0.8), top_k=2) == {0, 1}
    assert support(logits(1, 0.9, 0.9, 0.1), top_k=2) == {0, 1, 2}


def test_top_p_keeps_the_smallest_set_that_reaches_p() -> None:
    spread = np.log(logits(0.5, 0.3, 0.15, 0.05))
    assert support(spread, top_p=0.45) == {0}
    assert support(spread, top_p=0.75) == {0, 1}
    assert support(spread, top_p=0.9) == {0, 1, 2}


def test_min_p_is_relative_to_the_likeliest() -> None:
    assert support(np.log(logits(0.5, 0.3, 0.15, 0.05)), min_p=0.4) == {0, 1}


def test_temperature_sharpens_and_flattens() -> None:
    spread = np.log(logits(0.7, 0.3))
    for temperature, expected in (
        (1.0, 0.7),
        (0.5, 0.49 / 0.58),
        (2.0, math.sqrt(0.7) / (math.sqrt(0.7) + math.sqrt(0.3))),
    ):
        drawing = sampler(seed=1, temperature=temperature)
        share = Counter(drawing.draw(spread) for _ in range(4000))[0] / 4000
        assert share == pytest.approx(expected, abs=0.03)


def test_repetition_penalty_sees_prompt_and_answer_and_both_signs() -> None:
    drawing = sampler(prompt=(0, 1), temperature=0.0, repetition_penalty=2.0)
    # 0: 4/2=2, 1: -1*2=-2, 2: 3, 3: 1.9
    assert drawing.draw(logits(4, -1, 3, 1.9)) == 2
    # now 2 is seen as well: 3/2=1.5 < 2 (token 0)
    assert drawing.draw(logits(4, -1, 3, 1.9)) == 0


def test_presence_and_frequency_count_the_answer_only() -> None:
    drawing = sampler(prompt=(0,), temperature=0.0, presence_penalty=1.0)
    assert [drawing.draw(logits(2, 1.5, 0.8)) for _ in range(3)] == [0, 1, 0]
    drawing = sampler(temperature=0.0, frequency_penalty=0.4)
    # 0 falls by 0.4 each time it is drawn: 2, 1.6 (<1.7: 1), then 1.6 against 1.3
    assert [drawing.draw(logits(2, 1.7)) for _ in range(3)] == [0, 1, 0]


def test_the_switch_turns_penalties_off() -> None:
    drawing = sampler(temperature=0.0, frequency_penalty=2.0, apply_penalties=False)
    assert [drawing.draw(logits(2, 1.7)) for _ in range(3)] == [0, 0, 0]


def test_a_seed_repeats_and_no_seed_does_not() -> None:
    flat = np.zeros(1000, np.float32)
    first, again = sampler(seed=5), sampler(seed=5)
    drawn = [first.draw(flat) for _ in range(20)]
    assert drawn == [again.draw(flat) for _ in range(20)]
    other = sampler()
    assert drawn != [other.draw(flat) for _ in range(20)]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_numbers_no_token_can_be_drawn_from(bad: float) -> None:
    with pytest.raises(BadLogitsError):
        sampler().draw(logits(0, bad, 1))
    with pytest.raises(BadLogitsError):
        sampler().draw(np.full(3, -np.inf, np.float32))


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("temperature", -0.1),
        ("temperature", math.nan),
        ("top_p", 0.0),
        ("top_p", 1.1),
        ("min_p", 2.0),
        ("repetition_penalty", 0.0),
        ("repetition_penalty", 1e-37),  # float32 holds no score divided by that
        ("presence_penalty", 3.0),
        ("frequency_penalty", -2.5),
        ("max_tokens", 0),
        ("seed", 1.5),
        ("seed", "seven"),
        ("stop", (1,)),
        ("context_policy", "guess"),
        ("apply_penalties", "no"),
        ("report_candidates", 3),
    ],
)
def test_values_out_of_range_are_named(key: str, value: object) -> None:
    with pytest.raises(SettingError) as caught:
        resolve(SamplingRequest(**{key: value}), {})  # type: ignore[arg-type]
    assert caught.value.setting == f"sampling.{key}"
    assert caught.value.remedy


def test_model_defaults_fill_what_nobody_set() -> None:
    model = {"temperature": 0.2, "top_p": 0.9, "max_tokens": 64}
    resolved = resolve(SamplingRequest(top_p=0.5), model)
    assert (resolved.temperature, resolved.top_p, resolved.max_tokens) == (0.2, 0.5, 64)
    sources = {one.name: one.source for one in resolved.used}
    assert (sources["temperature"], sources["top_p"], sources["max_tokens"]) == ("model", "you", "model")
    assert resolve(SamplingRequest(max_tokens=9), model).max_tokens == 9
    assert resolve(SamplingRequest(), {}).max_tokens is None
    with pytest.raises(SettingError, match="longest"):
        resolve(SamplingRequest(min_tokens=65), model)


@given(
    st.lists(st.floats(-8, 8, width=32), min_size=3, max_size=40),
    st.floats(0.2, 2.0),
    st.integers(0, 40),
    st.floats(0.1, 1.0),
)
def test_the_kept_set_equals_transformers(
    values: list[float], temperature: float, top_k: int, top_p: float
) -> None:
    """Each token that transformers' warpers leave can be drawn, and no other."""
    scores = torch.tensor([values])
    scores = TemperatureLogitsWarper(temperature)(None, scores)
    if 0 < top_k < len(values):
        scores = TopKLogitsWarper(top_k)(None, scores)
    if top_p < 1.0:
        scores = TopPLogitsWarper(top_p)(None, scores)
    probabilities = torch.softmax(scores, -1)[0].numpy()
    # Equal scores at the edge of top-p are cut by their order, which is not part of the meaning.
    edge = min(p for p in probabilities if p > 0)
    drawing = sampler(seed=3, temperature=temperature, top_k=top_k, top_p=top_p)
    drawn = {drawing.draw(np.array(values, np.float32)) for _ in range(60)}
    assert all(
        probabilities[token] > 0
        or math.isclose(
            np.exp(values[token] / temperature) / np.exp(max(values) / temperature),
            edge / probabilities.max(),
            rel_tol=1e-3,
        )
        for token in drawn
    )


@given(
    st.lists(st.integers(0, 19), max_size=12), st.lists(st.floats(-5, 5, width=32), min_size=20, max_size=20)
)
def test_repetition_penalty_equals_transformers(prompt: list[int], values: list[float]) -> None:
    prompt = prompt or [0]
    expected = RepetitionPenaltyLogitsProcessor(1.3)(torch.tensor([prompt]), torch.tensor([values]))
    drawing = sampler(prompt=tuple(prompt), temperature=0.0, repetition_penalty=1.3)
    drawn = drawing.draw(np.array(values, np.float32))
    assert float(expected[0, drawn]) == pytest.approx(float(expected.max()), rel=1e-5)


def test_a_flat_distribution_beyond_the_head_is_still_exact() -> None:
    flat = np.zeros(5000, np.float32)
    assert len(support(flat, draws=6000, top_p=0.9)) > 3000


@given(st.integers(0, 2**32), st.integers(1, 3000), st.floats(0.3, 2.0))
def test_a_draw_follows_the_running_sum_of_all_weights(seed: int, vocab: int, temperature: float) -> None:
    values = np.random.default_rng(seed).normal(0, 2, vocab).astype(np.float32)
    drawing = sampler(seed=seed, temperature=temperature)
    shares = np.random.Generator(np.random.PCG64(seed))
    weights = np.exp((values - values.max()).astype(np.float64) / temperature)
    running = np.cumsum(weights) / weights.sum()
    for _ in range(5):
        share = shares.random()
        drawn = drawing.draw(values)
        before = running[drawn - 1] if drawn else 0.0
        assert before - 1e-5 <= share <= running[drawn] + 1e-5


@given(st.integers(0, 2**32), st.floats(0.05, 0.999))
def test_the_nucleus_is_the_smallest_set_that_reaches_the_share(seed: int, top_p: float) -> None:
    values = np.random.default_rng(seed).normal(0, 4, 2000).astype(np.float32)
    weights = np.exp(values.astype(np.float64))
    order = np.argsort(-weights)
    count = int(np.searchsorted(np.cumsum(weights[order]) / weights.sum(), top_p)) + 1
    allowed = set(order[: count + 1].tolist())  # one more, for float32's rounding at the edge
    drawing = sampler(seed=seed, top_p=top_p)
    assert {drawing.draw(values) for _ in range(40)} <= allowed


@given(st.integers(0, 2**32), st.integers(1, 400), st.floats(0.1, 5.0))
def test_top_k_keeps_what_sorting_says_however_flat_the_scores(seed: int, top_k: int, spread: float) -> None:
    values = np.random.default_rng(seed).normal(0, spread, 400).astype(np.float32)
    allowed = set(np.argsort(-values)[:top_k].tolist())
    drawing = sampler(seed=seed, top_k=top_k, temperature=1.0)
    assert {drawing.draw(values) for _ in range(40)} <= allowed
