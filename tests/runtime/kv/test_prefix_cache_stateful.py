"""Never more is labelled than is held, in whatever order conversations are taken, computed, cancelled, lost,
moved, offloaded and dropped. The caches here remember what was computed into them, which is the truth."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtime.kv.prefix_cache import Entry, PrefixCache
from tests.runtime.answering.scripted import ScriptedCache

NAMES = st.sampled_from("abcd")
WHICH = st.integers(0, 3)
"""One of those that there are."""
TOKENS = st.integers(0, 2)
PROMPTS = st.lists(TOKENS, min_size=1, max_size=10)


class TruthfulCache(ScriptedCache):
    """Knows which token each of its positions was computed from."""

    def __init__(self) -> None:
        super().__init__()
        self.content: list[int] = []

    def get_seq_length(self, index: int = 0) -> int:
        return len(self.content)

    def set_seq_length(self, sequence_lengths: int, index: int = 0) -> None:
        assert 0 <= sequence_lengths <= len(self.content)
        del self.content[sequence_lengths:]

    def discard(self) -> None:
        self.content.clear()
        self.host_nbytes = 0
        self.discarded = True


@dataclass
class Answer:
    """A request that holds its conversation: its prompt, then what it has drawn."""

    tokens: list[int]
    prompt: int = field(init=False)

    def __post_init__(self) -> None:
        self.prompt = len(self.tokens)


class Conversations(RuleBasedStateMachine):
    """What the engine does with a prefix cache."""

    def __init__(self) -> None:
        super().__init__()
        self.most, self.most_bytes = 2, 1000
        self.caches = PrefixCache(TruthfulCache, self.most, self.most_bytes, self.dropped)
        self.running: dict[str, Answer] = {}
        self.used: list[str] = []
        """Conversations with a cache, the one used longest ago first."""

    def dropped(self, name: str, entry: Entry) -> None:
        idle = [one for one in self.used if one not in self.running]
        assert name == idle[0], "the idle one used longest ago goes first"
        assert self.over(), "nothing is dropped while there is room"
        assert self.cache(name) is entry.cache
        assert entry.held() == self.cache(name).content[: len(entry.held())]
        self.used.remove(name)

    def over(self) -> bool:
        size = sum(self.cache(name).host_nbytes for name in self.used)
        return len(self.used) > self.most or size > self.most_bytes

    def check_limits(self) -> None:
        assert not self.over() or all(one in self.running for one in self.used)

    def cache(self, name: str) -> TruthfulCache:
        return dict(self.caches.entries())[name].cache  # type: ignore[return-value]

    @rule(name=NAMES, prompt=PROMPTS, whole=st.booleans())
    def take(self, name: str, prompt: list[int], whole: bool) -> None:
        """Begin an answer; `whole` is a family that cannot continue in the middle of what is held."""
        if name in self.running:
            return
        before = list(self.caches.held(name))
        if name in self.used:
            self.used.remove(name)
        self.used.append(name)
        self.running[name] = Answer(list(prompt))
        cache, kept = self.caches.take(name, prompt, lambda length: 0 if whole else length)
        shared = 0
        while shared < min(len(before), len(prompt) - 1) and before[shared] == prompt[shared]:
            shared += 1
        assert kept == (0 if whole else shared)
        assert cache is self.cache(name)
        assert self.cache(name).content == prompt[:kept]
        self.check_limits()

    @precondition(lambda self: self.running)
    @rule(which=WHICH, count=st.integers(1, 4), fails=st.booleans())
    def prefill(self, which: int, count: int, fails: bool) -> None:
        """Compute a chunk of the prompt; it may fail after the device has written."""
        name, cache = self.pick(which, self.running)
        answer = self.running[name]
        start = len(cache.content)
        end = min(start + count, answer.prompt)
        cache.content += answer.tokens[start:end]
        if fails:
            self.finish(name)
        else:
            self.caches.extend(name, answer.tokens[start:end])

    @precondition(lambda self: self.running)
    @rule(which=WHICH, token=TOKENS)
    def decode(self, which: int, token: int) -> None:
        """Draw a token; its position is computed with the next step, which may never come."""
        name, cache = self.pick(which, self.running)
        answer = self.running[name]
        if len(cache.content) >= answer.prompt:
            cache.content += answer.tokens[len(cache.content) :]
            answer.tokens.append(token)
            self.caches.extend(name, [token])

    @precondition(lambda self: self.running)
    @rule(which=WHICH)
    def end(self, which: int) -> None:
        """The answer is finished, or cancelled wherever it is."""
        self.finish(self.pick(which, self.running)[0])

    @precondition(lambda self: self.used)
    @rule(which=WHICH, left=st.integers(0, 8))
    def lose(self, which: int, left: int) -> None:
        """A board was taken away before everything was saved: the cache holds less than it did."""
        name, cache = self.pick(which, self.used)
        if name not in self.running:
            del cache.content[left:]

    @precondition(lambda self: self.used)
    @rule(which=WHICH, nbytes=st.sampled_from([0, 300, 500, 1000]))
    def offload(self, which: int, nbytes: int) -> None:
        """Another conversation has the slot."""
        self.pick(which, self.used)[1].host_nbytes = nbytes
        self.caches.trim()
        self.check_limits()

    @precondition(lambda self: self.used)
    @rule(which=WHICH)
    def move(self, which: int) -> None:
        """The KV is put onto another slot."""
        name, cache = self.pick(which, self.used)
        moved = TruthfulCache()
        moved.content, moved.host_nbytes = cache.content, cache.host_nbytes
        self.caches.move(name, moved)
        assert self.cache(name) is moved

    @precondition(lambda self: self.used)
    @rule(which=WHICH)
    def forget(self, which: int) -> None:
        """The conversation is deleted, in the middle of an answer too."""
        name, cache = self.pick(which, self.used)
        self.running.pop(name, None)
        self.caches.forget(name)
        assert cache.discarded
        self.used.remove(name)
        assert list(self.caches.held(name)) == []

    @rule(most=st.integers(1, 4), most_bytes=st.sampled_from([0, 500, 1000]))
    def limit(self, most: int, most_bytes: int) -> None:
        """The settings change."""
        self.most, self.most_bytes = most, most_bytes
        self.caches.limit(most, most_bytes)
        self.check_limits()

    def pick(self, which: int, among: Iterable[str]) -> tuple[str, TruthfulCache]:
        names = sorted(among)
        name = names[which % len(names)]
        return name, self.cache(name)

    def finish(self, name: str) -> None:
        del self.running[name]
        self.caches.let_go(name)
        self.check_limits()

    @invariant()
    def nothing_is_labelled_that_is_not_held(self) -> None:
        assert [name for name, _ in self.caches.entries()] == self.used[::-1]
        for name, entry in self.caches.entries():
            held = entry.held()
            assert list(self.caches.held(name)) == held
            assert held == self.cache(name).content[: len(held)]
            if name in self.running:
                drawn = len(self.running[name].tokens) > self.running[name].prompt
                assert len(entry.identity) == len(self.cache(name).content) + drawn


TestConversations = Conversations.TestCase
TestConversations.settings = settings(max_examples=150, stateful_step_count=50, deadline=None)
