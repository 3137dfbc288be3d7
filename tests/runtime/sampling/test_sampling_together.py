"""All sampling values at once, against a second implementation in plain NumPy and transformers' processors.

The second implementation follows vLLM's order step by step in float64 over the whole vocabulary, knows none
of the first one's shortcuts, and is itself compared with transformers where that has the step.
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st
from numpy.typing import NDArray
from transformers.generation.logits_process import (
    LogitsProcessorList,
    MinNewTokensLengthLogitsProcessor,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
    TemperatureLogitsWarper,
    TopKLogitsWarper,
    TopPLogitsWarper,
)

from runtime.sampling.params import SamplingRequest
from runtime.sampling.sampler import Sampler, resolve

END = 0
EDGE = 1e-4
"""Nearer to a limit than this, float32 and float64 may decide differently."""


@dataclass(frozen=True)
class Case:
    """Logits of one step, what was said before it, and the values."""

    logits: tuple[float, ...]
    prompt: tuple[int, ...]
    answer: tuple[int, ...]
    values: SamplingRequest


def penalised(case: Case) -> NDArray[np.float64]:
    """Logits before the temperature: the end barred, then repetition, frequency and presence penalty."""
    scores = np.array(case.logits, np.float32).astype(np.float64)
    values = case.values
    if len(case.answer) < values.min_tokens:
        scores[END] = -math.inf
    if not values.apply_penalties:
        return scores
    for token_id in range(len(scores)):
        if token_id in case.prompt or token_id in case.answer:
            factor = values.repetition_penalty or 1.0
            scores[token_id] *= 1 / factor if scores[token_id] > 0 else factor
        times = case.answer.count(token_id)
        scores[token_id] -= (values.frequency_penalty or 0.0) * times
        scores[token_id] -= (values.presence_penalty or 0.0) * (times > 0)
    return scores


def chances(case: Case) -> tuple[NDArray[np.float64], float]:
    """The chance of each token, and how far the nearest decision was from being another one."""
    scores, values = penalised(case), case.values
    margin = float(np.diff(np.sort(scores[np.isfinite(scores)])).min())
    if values.temperature < 1e-5 or values.top_k == 1:
        return (scores == scores.max()).astype(np.float64), margin
    shares = softmax(scores / values.temperature)
    if values.min_p > 0.0:
        ratios = shares / shares.max()
        margin = min(margin, np.abs(ratios[ratios < 1.0] / values.min_p - 1.0).min())
        shares[ratios < values.min_p] = 0.0
    if values.top_k > 0:
        shares[np.argsort(-shares)[values.top_k :]] = 0.0
    shares /= shares.sum()
    order = np.argsort(-shares)
    before = np.cumsum(shares[order]) - shares[order]
    if values.top_p < 1.0:
        margin = min(margin, np.abs(before - values.top_p).min())
        shares[order[before >= values.top_p]] = 0.0
    return shares / shares.sum(), margin


def softmax(scores: NDArray[np.float64]) -> NDArray[np.float64]:
    weights = np.exp(scores - scores.max())
    return weights / weights.sum()


def draw(case: Case, seed: int) -> int:
    """A draw of a sampler that has been led through the answer so far."""
    sampler = Sampler(resolve(replace(case.values, seed=seed), {}), case.prompt, frozenset({END}))
    for token_id in case.answer:
        led = np.full(len(case.logits), -math.inf, np.float32)
        led[token_id] = 0.0
        assert sampler.draw(led) == token_id
    return sampler.draw(np.array(case.logits, np.float32))


VOCAB = 24
words = st.integers(1, VOCAB - 1)
signed = st.floats(-2, 2).map(lambda value: round(value, 2))
requests = st.builds(
    SamplingRequest,
    temperature=st.one_of(st.sampled_from([0.0, 9e-6, 1.0]), st.floats(0.05, 2.0)),
    top_k=st.integers(-1, VOCAB + 2),
    top_p=st.one_of(st.just(1.0), st.floats(0.05, 1.0)),
    min_p=st.one_of(st.just(0.0), st.floats(0.01, 1.0)),
    repetition_penalty=st.one_of(st.just(1.0), st.floats(0.3, 2.0)),
    presence_penalty=signed,
    frequency_penalty=signed,
    min_tokens=st.integers(0, 6),
    apply_penalties=st.sampled_from([True, True, False]),
)
cases = st.builds(
    Case,
    logits=st.builds(
        lambda seed, spread: tuple(np.random.default_rng(seed).normal(0, spread, VOCAB).tolist()),
        st.integers(0, 2**32),
        st.floats(0.5, 5.0),
    ),
    prompt=st.lists(words, max_size=8).map(tuple),
    answer=st.lists(words, max_size=6).map(tuple),
    values=requests,
)


@given(cases, st.integers(0, 2**32))
def test_no_token_is_drawn_that_the_second_implementation_leaves_out(case: Case, seed: int) -> None:
    expected, margin = chances(case)
    assume(margin > EDGE)
    for number in range(8):
        assert expected[draw(case, seed + number)] > 0


@given(cases)
def test_the_second_implementation_is_transformers_where_that_has_the_step(case: Case) -> None:
    values = replace(case.values, presence_penalty=0.0, frequency_penalty=0.0)
    case = replace(case, prompt=case.prompt or (1,), values=values)
    assume(values.temperature >= 1e-5 and values.top_k != 1)
    expected, margin = chances(case)
    assume(margin > EDGE)
    history = torch.tensor([[*case.prompt, *case.answer]])
    steps = LogitsProcessorList([TemperatureLogitsWarper(values.temperature), MinPLogitsWarper(values.min_p)])
    if values.apply_penalties:
        steps.insert(0, RepetitionPenaltyLogitsProcessor(values.repetition_penalty))
    if values.min_tokens > 0:
        waits = MinNewTokensLengthLogitsProcessor(len(case.prompt), values.min_tokens, [END])
        steps.insert(0, waits)
    if values.top_k > 0:
        steps.append(TopKLogitsWarper(values.top_k))
    if values.top_p < 1.0:
        steps.append(TopPLogitsWarper(values.top_p))
    scores = steps(history, torch.tensor([case.logits], dtype=torch.float32).double())
    np.testing.assert_allclose(torch.softmax(scores[0], -1).numpy(), expected, atol=1e-6)


SPREAD = tuple(float(value) for value in np.random.default_rng(11).normal(0, 2, VOCAB).round(2))
ALL = SamplingRequest(
    temperature=0.9,
    top_k=14,
    top_p=0.93,
    min_p=0.02,
    repetition_penalty=1.3,
    presence_penalty=0.4,
    frequency_penalty=0.3,
    min_tokens=9,
)


@pytest.mark.parametrize(
    "values",
    [
        ALL,
        replace(ALL, apply_penalties=False),
        replace(ALL, top_k=0, top_p=1.0, min_p=0.0),
        replace(ALL, min_p=0.0, top_k=5),
        replace(ALL, top_p=0.5, temperature=1.7, min_tokens=0),
        replace(ALL, repetition_penalty=0.7, presence_penalty=-1.0, frequency_penalty=-0.2),
    ],
)
def test_draws_are_spread_as_the_second_implementation_says(values: SamplingRequest) -> None:
    """Chi-square at about four standard deviations; the seeds are fixed, so it never fails by chance."""
    case = Case(SPREAD, (3, 4, 5, 6), (7, 7, 8, 3), values)
    (expected, _), count = chances(case), 3000
    drawn = Counter(draw(case, seed) for seed in range(count))
    assert all(expected[token_id] > 0 for token_id in drawn)
    ids = np.flatnonzero(expected)
    assert len(ids) > 3
    wanted = expected[ids] * count
    chi = sum((drawn[int(one)] - want) ** 2 / want for one, want in zip(ids, wanted, strict=True))
    freedom = len(ids) - 1
    assert chi < freedom + 4 * math.sqrt(2 * freedom)


def test_tokens_that_the_model_does_not_score_change_nothing() -> None:
    """A prompt's picture, or a configuration, may name tokens beyond the logits."""
    values = replace(ALL, seed=4)
    plain = Sampler(resolve(values, {}), (3, 4), frozenset({END}))
    odd = Sampler(resolve(values, {}), (3, VOCAB, 4, -1, 10**6), frozenset({END, -1, VOCAB + 7}))
    logits = np.array(SPREAD, np.float32)
    logits[-1] = logits.max() + 0.1
    assert [odd.draw(logits) for _ in range(40)] == [plain.draw(logits) for _ in range(40)]
