"""Never more is labelled than is held, in whatever order conversations are taken, computed, cancelled, lost,
moved, offloaded and dropped. The caches here remember what was computed into them, which is the truth."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from runtime.prefix_cache import Entry, PrefixCache
from tests.runtime.scripted import ScriptedCache

NAMES = st.sampled_from("abcd")
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

    @rule(name=NAMES, count=st.integers(1, 4), fails=st.booleans())
    def prefill(self, name: str, count: int, fails: bool) -> None:
        """Compute a chunk of the prompt; it may fail after the device has written."""
        answer = self.running.get(name)
        if answer is None:
            return
        cache = self.cache(name)
        start = len(cache.content)
        end = min(start + count, answer.prompt)
        cache.content += answer.tokens[start:end]
        if fails:
            self.end(name)
        else:
            self.caches.extend(name, answer.tokens[start:end])

    @rule(name=NAMES, token=TOKENS)
    def decode(self, name: str, token: int) -> None:
        """Draw a token; its position is computed with the next step, which may never come."""
        answer = self.running.get(name)
        if answer is None or len(self.cache(name).content) < answer.prompt:
            return
        cache = self.cache(name)
        cache.content += answer.tokens[len(cache.content) :]
        answer.tokens.append(token)
        self.caches.extend(name, [token])

    @rule(name=NAMES)
    def end(self, name: str) -> None:
        """The answer is finished, or cancelled wherever it is."""
        if self.running.pop(name, None) is not None:
            self.caches.let_go(name)
            self.check_limits()

    @rule(name=NAMES, left=st.integers(0, 8))
    def lose(self, name: str, left: int) -> None:
        """A board was taken away before everything was saved: the cache holds less than it did."""
        if name in self.used and name not in self.running:
            del self.cache(name).content[left:]

    @rule(name=NAMES, nbytes=st.integers(0, 900))
    def offload(self, name: str, nbytes: int) -> None:
        """Another conversation has the slot."""
        if name in self.used:
            self.cache(name).host_nbytes = nbytes
            self.caches.trim()
            self.check_limits()

    @rule(name=NAMES)
    def move(self, name: str) -> None:
        """The KV is put onto another slot."""
        if name in self.used:
            moved = TruthfulCache()
            moved.content, moved.host_nbytes = self.cache(name).content, self.cache(name).host_nbytes
            self.caches.move(name, moved)
            assert self.cache(name) is moved

    @rule(name=NAMES)
    def forget(self, name: str) -> None:
        """The conversation is deleted, in the middle of an answer too."""
        cache = self.cache(name) if name in self.used else None
        self.running.pop(name, None)
        self.caches.forget(name)
        assert cache is None or cache.discarded
        self.used = [one for one in self.used if one != name]
        assert list(self.caches.held(name)) == []

    @precondition(lambda self: self.running or self.used)
    @rule(most=st.integers(1, 4), most_bytes=st.sampled_from([0, 500, 1000]))
    def limit(self, most: int, most_bytes: int) -> None:
        """The settings change."""
        self.most, self.most_bytes = most, most_bytes
        self.caches.limit(most, most_bytes)
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
TestConversations.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
