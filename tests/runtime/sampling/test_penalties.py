"""Penalties against hand-computed arrays and transformers' own processors; the report of candidates."""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from transformers.generation.logits_process import (
    MinNewTokensLengthLogitsProcessor,
    MinPLogitsWarper,
    RepetitionPenaltyLogitsProcessor,
)

from runtime.sampling.candidates import KEPT_TOKENS, CandidateLog
from runtime.sampling.params import SamplingRequest, UsedValue, ignored_penalties
from runtime.sampling.penalties import Occurrences, after_each
from runtime.sampling.sampler import Sampler, resolve

OFF = {"repetition_penalty": 1.0, "frequency_penalty": 0.0, "presence_penalty": 0.0, "min_tokens": 0}


def penalties(**values: float) -> SimpleNamespace:
    return SimpleNamespace(**(OFF | values))


def array(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def test_each_penalty_by_hand() -> None:
    stages = dict(
        after_each(
            penalties(repetition_penalty=2.0, frequency_penalty=0.5, presence_penalty=0.25),
            array(4, -1, 3, 0),
            np.array([True, True, False, True]),
            array(3, 0, 0, 1),
        )
    )
    assert stages["repetition"].tolist() == [2, -2, 3, 0]
    assert stages["frequency"].tolist() == [0.5, -2, 3, -0.5]
    assert stages["presence"].tolist() == [0.25, -2, 3, -0.75]


def test_a_penalty_that_changes_nothing_is_no_stage() -> None:
    values = array(1, 2)
    assert [name for name, _ in after_each(penalties(), values, np.True_, array(1, 1))] == []
    assert [
        name for name, _ in after_each(penalties(presence_penalty=-1), values, np.True_, array(1, 0))
    ] == ["presence"]


@given(st.lists(st.integers(0, 30), max_size=20), st.lists(st.integers(0, 30), max_size=300))
def test_occurrences_are_what_counting_says(prompt: list[int], answer: list[int]) -> None:
    occurred = Occurrences(prompt)
    for token_id in answer:
        occurred.add(token_id)
    found = dict(zip(occurred.ids.tolist(), occurred.counts.tolist(), strict=True))
    assert found == {one: answer.count(one) for one in {*prompt, *answer}}
    seen, counts = occurred.among([0, 7, 31])
    assert seen.tolist() == [one in {*prompt, *answer} for one in (0, 7, 31)]
    assert counts.tolist() == [answer.count(one) for one in (0, 7, 31)]


@given(
    st.lists(st.integers(0, 19), min_size=1, max_size=12),
    st.lists(st.floats(-5, 5, width=32), min_size=20, max_size=20),
    st.floats(0.5, 2.0),
)
def test_the_repetition_penalty_equals_transformers(
    prompt: list[int], values: list[float], penalty: float
) -> None:
    expected = RepetitionPenaltyLogitsProcessor(penalty)(torch.tensor([prompt]), torch.tensor([values]))
    seen, counts = Occurrences(prompt).among(range(20))
    stages = dict(after_each(penalties(repetition_penalty=penalty), array(*values), seen, counts))
    np.testing.assert_allclose(stages.get("repetition", array(*values)), expected[0].numpy(), rtol=1e-6)


@given(st.lists(st.floats(-6, 6, width=32), min_size=3, max_size=30), st.floats(0.01, 0.9))
def test_min_p_equals_transformers(values: list[float], min_p: float) -> None:
    kept = MinPLogitsWarper(min_p)(None, torch.tensor([values]))[0]
    share = torch.softmax(torch.tensor(values, dtype=torch.float64), -1)
    edge = float(share.max()) * min_p
    sampler = Sampler(resolve(SamplingRequest(min_p=min_p, seed=3), {}), ())
    for token_id in {sampler.draw(array(*values)) for _ in range(40)}:
        assert torch.isfinite(kept[token_id]) or float(share[token_id]) == pytest.approx(edge, rel=1e-4)


def test_the_shortest_answer_equals_transformers() -> None:
    values = array(5, 1, 4, 2)
    processor = MinNewTokensLengthLogitsProcessor(1, 2, [0, 2])
    sampler = Sampler(resolve(SamplingRequest(temperature=0.0, min_tokens=2), {}), (1,), frozenset({0, 2}))
    for produced in range(4):
        ids = torch.ones((1, 1 + produced), dtype=torch.long)
        expected = int(processor(ids, torch.tensor(values[None]).clone()).argmax())
        assert sampler.draw(values) == expected
    assert values.tolist() == [5, 1, 4, 2]  # the model's own array is left alone


def test_ignored_penalties_are_those_set_while_the_switch_is_off() -> None:
    off = UsedValue("apply_penalties", False, "you")
    repetition = UsedValue("repetition_penalty", 1.1, "model")
    presence = UsedValue("presence_penalty", 0.0, "default")
    assert ignored_penalties((off, repetition, presence)) == (repetition,)
    assert ignored_penalties((UsedValue("apply_penalties", True, "default"), repetition)) == ()
    assert ignored_penalties(()) == ()


def test_the_report_has_the_model_s_likeliest_and_the_drawn_token_and_is_bounded() -> None:
    log = CandidateLog(penalties(presence_penalty=9.0))
    occurred = Occurrences([])
    occurred.add(7)
    values = np.arange(8, dtype=np.float32)
    for _ in range(KEPT_TOKENS + 3):
        log.add(values, 0, occurred)
    report = log.report("r", lambda token_id: f"<{token_id}>")
    assert len(report.tokens) == KEPT_TOKENS
    last = report.tokens[-1]
    assert (last.index, last.token_id, last.text) == (KEPT_TOKENS + 2, 0, "<0>")
    assert [one.token_id for one in last.candidates] == [7, 6, 5, 4, 3, 0]
    assert last.candidates[0].logits == (7.0, -2.0)
    assert last.candidates[1].logits == (6.0, 6.0)


def test_the_report_says_why_the_likeliest_token_had_to_wait() -> None:
    values = array(3, 2, 1)
    asked = SamplingRequest(temperature=0.0, min_tokens=1, presence_penalty=0.5, report_candidates=True)
    sampler = Sampler(resolve(asked, {}), (), frozenset({0}))
    assert [sampler.draw(values), sampler.draw(values)] == [1, 0]
    assert sampler.log is not None
    report = sampler.log.report("r", str)
    assert report.stages == ("model", "min_tokens", "presence")
    first, second = ({one.text: one.logits for one in token.candidates} for token in report.tokens)
    assert first == {"0": (3.0, -np.inf, -np.inf), "1": (2.0, 2.0, 2.0), "2": (1.0, 1.0, 1.0)}
    assert second == {"0": (3.0, 3.0, 3.0), "1": (2.0, 2.0, 1.5), "2": (1.0, 1.0, 1.0)}


def test_a_vocabulary_smaller_than_the_report_is_no_trouble() -> None:
    log = CandidateLog(penalties())
    log.add(array(1, 2), 1, None)
    assert [one.token_id for one in log.report("r", str).tokens[0].candidates] == [1, 0]
