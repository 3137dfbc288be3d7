"""Load or recompute: the rule, as properties and as the cases that are easy to check by hand."""

from __future__ import annotations

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from runtime.kv.costs import CostModel, calibration_sizes, settled, size_class

SECONDS = st.floats(1e-6, 100)
TOKENS = st.integers(1, 100_000)
BYTES = st.integers(1, 2**33)


@given(TOKENS, BYTES)
def test_what_is_not_known_is_loaded(tokens: int, nbytes: int) -> None:
    costs = CostModel()
    assert costs.should_load(tokens, nbytes)
    costs.observe_load(nbytes, 1e9)
    assert costs.should_load(tokens, nbytes)
    assert not costs.should_load(0, nbytes)


@given(TOKENS, BYTES, SECONDS, SECONDS, st.floats(0.01, 5))
def test_loading_must_beat_the_margin(
    tokens: int, nbytes: int, load: float, prefill: float, margin: float
) -> None:
    assume(abs(load - prefill * margin) > 1e-9 * load)
    costs = CostModel(margin=margin)
    costs.observe_load(nbytes, load)
    costs.observe_prefill(tokens, prefill)
    assert costs.should_load(tokens, nbytes) == (load < prefill * margin)


@pytest.mark.parametrize(("load", "wins"), [(0.49, True), (0.5, False), (0.51, False)])
def test_the_margin_itself_is_not_enough(load: float, wins: bool) -> None:
    costs = CostModel(margin=0.5)
    costs.observe_load(1000, load)
    costs.observe_prefill(128, 1.0)
    assert costs.should_load(128, 1000) == wins


def test_nothing_teaches_nothing_and_takes_no_time() -> None:
    costs = CostModel()
    costs.observe_load(0, 1.0)
    costs.observe_prefill(0, 1.0)
    assert (costs.load_seconds(1), costs.prefill_seconds(1)) == (None, None)
    costs.observe_load(1, 1.0)
    costs.observe_prefill(1, 1.0)
    assert (costs.load_seconds(0), costs.prefill_seconds(0)) == (0.0, 0.0)


@given(TOKENS, st.integers(0, 100_000))
def test_a_shorter_hit_than_allowed_is_never_loaded(tokens: int, minimum: int) -> None:
    costs = CostModel(minimum_hit=minimum)
    assert costs.should_load(tokens, 1) == (tokens >= minimum)


@given(TOKENS, st.lists(SECONDS, min_size=1, max_size=8), st.floats(0.01, 1))
def test_measurements_are_averaged_by_weight(tokens: int, samples: list[float], weight: float) -> None:
    costs = CostModel(weight=weight)
    expected = samples[0]
    for sample in samples:
        costs.observe_prefill(tokens, sample)
        expected = (1 - weight) * expected + weight * sample
    # The first sample is averaged with itself above, which changes nothing.
    assert costs.prefill_seconds(tokens) == pytest.approx(expected)
    assert min(samples) * 0.999 <= costs.prefill_seconds(tokens) <= max(samples) * 1.001  # type: ignore[operator]


@given(st.dictionaries(TOKENS, SECONDS, min_size=1, max_size=5), st.integers(1, 10), st.data())
def test_within_a_size_class_more_takes_longer(
    times: dict[int, float], blocks: int, data: st.DataObject
) -> None:
    one = data.draw(st.integers(64 * 2**blocks + 1, 128 * 2**blocks - 1))
    other = data.draw(st.integers(one + 1, 128 * 2**blocks))
    assert size_class(one) == size_class(other)
    costs = CostModel()
    for tokens, seconds in times.items():
        costs.observe_prefill(tokens, seconds)
    assert costs.prefill_seconds(one) < costs.prefill_seconds(other)  # type: ignore[operator]


@given(st.integers(1, 2**40))
def test_a_size_class_is_the_next_power_of_two_of_blocks(amount: int) -> None:
    size = size_class(amount)
    assert size >= amount
    assert size == 128 or size < 2 * amount
    assert (size // 128) & (size // 128 - 1) == 0


def test_a_longer_prompt_is_scaled_from_the_longest_known() -> None:
    costs = CostModel()
    costs.observe_prefill(128, 0.1)
    costs.observe_prefill(512, 0.8)
    assert costs.prefill_seconds(64) == pytest.approx(0.05)
    assert costs.prefill_seconds(256) == pytest.approx(0.4)
    assert costs.prefill_seconds(1024) == pytest.approx(1.6)


def test_other_settings_keep_what_was_measured() -> None:
    costs = CostModel(margin=0.9)
    costs.observe_prefill(128, 1.0)
    costs.observe_load(1000, 0.8)
    assert costs.should_load(128, 1000)
    costs.set_rule(margin=0.5, weight=0.3, minimum_hit=0)
    assert not costs.should_load(128, 1000)


def test_a_slow_disk_says_nothing_about_memory() -> None:
    costs = CostModel()
    costs.observe_prefill(128, 1.0)
    costs.observe_load(1000, 5.0, "disk")
    assert not costs.should_load(128, 1000, "disk")
    assert costs.should_load(128, 1000)


@pytest.mark.parametrize(
    ("context", "block", "blocks", "sizes"),
    [
        (4096, 128, (1, 2, 4, 8), (128, 256, 512, 1024)),
        (1024, 128, (1, 2, 4, 8), (128, 256, 512)),
        (300, 128, (1, 2, 4, 8), (128, 256)),
        (96, 128, (1, 2, 4, 8), ()),
        (4096, 100, (9, 3, 3), (300, 900)),
        (4096, 128, (), ()),
    ],
)
def test_only_what_the_context_holds_is_measured(
    context: int, block: int, blocks: tuple[int, ...], sizes: tuple[int, ...]
) -> None:
    assert calibration_sizes(context, block, blocks) == sizes


def test_times_are_kept_by_blocks_of_the_size_that_is_set() -> None:
    costs = CostModel(block=100)
    costs.observe_prefill(100, 1.0)
    costs.observe_prefill(101, 4.04)
    assert costs.prefill_seconds(50) == pytest.approx(0.5)
    assert costs.prefill_seconds(200) == pytest.approx(8.0)
    costs.observe_load(100, 1.0)
    costs.observe_load(101, 4.04)
    assert costs.load_seconds(50) == pytest.approx(0.5)
    assert costs.load_seconds(200) == pytest.approx(8.0)


def test_the_first_run_does_not_count() -> None:
    assert settled([9.0, 1.0, 2.0]) == 1.5
    assert settled([9.0]) == 9.0
