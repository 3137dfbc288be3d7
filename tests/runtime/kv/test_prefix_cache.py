"""The prefix cache's promises, as properties."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from runtime.kv.prefix_cache import PrefixCache, common_prefix
from tests.runtime.answering.scripted import ScriptedCache

PLENTY = 2**40
PROMPTS = st.lists(
    st.tuples(st.sampled_from("abc"), st.lists(st.integers(0, 2), min_size=1, max_size=8)), max_size=30
)


@given(PROMPTS)
def test_what_is_kept_is_what_was_computed(prompts: list[tuple[str, list[int]]]) -> None:
    caches = PrefixCache(ScriptedCache, 100, PLENTY)
    truth: dict[str, list[int]] = {}
    for conversation, prompt in prompts:
        cache, kept = caches.take(conversation, prompt, lambda length: length)
        assert cache.get_seq_length() == kept < len(prompt)
        assert truth.get(conversation, [])[:kept] == prompt[:kept]
        assert kept == common_prefix(truth.get(conversation, []), prompt[:-1])
        cache.length = len(prompt)
        caches.extend(conversation, prompt[kept:])
        truth[conversation] = prompt


@given(PROMPTS, st.integers(1, 3))
def test_never_more_entries_than_allowed(prompts: list[tuple[str, list[int]]], limit: int) -> None:
    made: list[ScriptedCache] = []

    def make() -> ScriptedCache:
        made.append(ScriptedCache())
        return made[-1]

    caches = PrefixCache(make, limit, PLENTY)
    for conversation, prompt in prompts:
        cache, _ = caches.take(conversation, prompt, lambda length: length)
        assert not cache.discarded
        caches.let_go(conversation)
        assert sum(not cache.discarded for cache in made) <= limit


def test_a_cache_that_lost_positions_is_not_trusted_for_them() -> None:
    caches = PrefixCache(ScriptedCache, 100, PLENTY)
    cache, _ = caches.take("c", [1, 2, 3, 4], lambda length: length)
    caches.extend("c", [1, 2, 3, 4])
    cache.length = 2  # the device only holds two
    _, kept = caches.take("c", [1, 2, 3, 4], lambda length: length)
    assert kept == 2


def test_host_bytes_are_bounded() -> None:
    made: list[ScriptedCache] = []

    def make() -> ScriptedCache:
        made.append(ScriptedCache())
        made[-1].host_nbytes = 100
        return made[-1]

    caches = PrefixCache(make, 100, 250)
    for name in "abcd":
        caches.take(name, [1, 2], lambda length: length)
        caches.let_go(name)
    assert [cache.discarded for cache in made] == [True, True, False, False]


def test_what_is_in_use_is_never_dropped() -> None:
    caches = PrefixCache(ScriptedCache, 1, PLENTY)
    first, _ = caches.take("a", [1, 2], lambda length: length)
    second, _ = caches.take("b", [1, 2], lambda length: length)
    assert not first.discarded
    assert not second.discarded
    caches.let_go("a")
    caches.take("c", [1, 2], lambda length: length)
    assert first.discarded
    assert not second.discarded


def test_tighter_limits_hold_at_once() -> None:
    caches = PrefixCache(ScriptedCache, 4, PLENTY)
    made = [caches.take(name, [1, 2], lambda length: length)[0] for name in "abcd"]
    for name in "abc":
        caches.let_go(name)
    caches.limit(2, PLENTY)
    assert [cache.discarded for cache in made] == [True, True, False, False]
