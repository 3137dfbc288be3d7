"""Which conversation's KV holds which positions, and how much of it a new prompt can reuse. Pure Python.

One KV cache per conversation. An entry never claims more positions than its cache holds. The least recently
used entries are dropped beyond a count and a number of host bytes.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field

from runtime.kv.cache import KvCache


@dataclass(slots=True)
class Entry:
    """One conversation's cache, and what each of its positions stands for."""

    cache: KvCache
    identity: list[Hashable] = field(default_factory=list)

    def held(self) -> list[Hashable]:
        """What the positions stand for that the cache really holds."""
        return self.identity[: self.cache.get_seq_length()]

    def cut(self, length: int) -> None:
        """Keep only the first positions in the cache."""
        if length:
            self.cache.set_seq_length(length)
        elif self.cache.get_seq_length():
            self.cache.discard()


class PrefixCache:
    """Entries by conversation id, the most recently used last."""

    def __init__(
        self,
        new_cache: Callable[[], KvCache],
        max_entries: int,
        max_host_bytes: int,
        on_drop: Callable[[str, Entry], None] = lambda _id, _entry: None,
    ) -> None:
        """`on_drop` sees each entry that is about to be dropped to make room."""
        self._new_cache = new_cache
        self._max_entries = max_entries
        self._max_host_bytes = max_host_bytes
        self._on_drop = on_drop
        self._entries: OrderedDict[str, Entry] = OrderedDict()
        self._held: set[str] = set()

    def take(
        self,
        conversation_id: str,
        identity: Sequence[Hashable],
        reusable: Callable[[int], int],
    ) -> tuple[KvCache, int]:
        """The conversation's cache, cut to the longest prefix it shares with a prompt of that identity.

        It is held, that is never dropped for another, until `let_go`.
        `reusable` may shorten a prefix to where the family can continue, or to nothing. The last position is
        always left to compute: its logits are needed. Returns the cache and the positions kept.
        """
        entry = self.open(conversation_id)
        kept = reusable(common_prefix(entry.held(), identity[:-1]))
        entry.cut(kept)
        entry.identity = list(identity[:kept])
        self.trim()
        return entry.cache, kept

    def open(self, conversation_id: str) -> Entry:
        """The conversation's entry, made if there is none; held until `let_go`."""
        entry = self._entries.get(conversation_id)
        if entry is None:
            entry = self._entries[conversation_id] = Entry(self._new_cache())
        self._entries.move_to_end(conversation_id)
        self._held.add(conversation_id)
        return entry

    def held(self, conversation_id: str) -> Sequence[Hashable]:
        """What the positions of the conversation's cache stand for; nothing when it has none."""
        entry = self._entries.get(conversation_id)
        return entry.held() if entry is not None else ()

    def entries(self) -> list[tuple[str, Entry]]:
        """Every conversation with its entry, the most recently used first."""
        return list(reversed(self._entries.items()))

    def let_go(self, conversation_id: str) -> None:
        """The conversation's request has ended; its KV may be dropped when room is needed, now too."""
        self._held.discard(conversation_id)
        self.trim()

    def move(self, conversation_id: str, cache: KvCache) -> None:
        """The conversation's KV is on another slot now."""
        self._entries[conversation_id].cache = cache

    def extend(self, conversation_id: str, identity: Sequence[Hashable]) -> None:
        """Say what the positions just computed, or computed next, stand for."""
        entry = self._entries.get(conversation_id)
        if entry is not None:
            entry.identity.extend(identity)

    def cut(self, conversation_id: str, length: int) -> None:
        """Keep only the first positions of the conversation's cache."""
        entry = self._entries.get(conversation_id)
        if entry is not None:
            entry.cut(length)

    def forget(self, conversation_id: str) -> None:
        """Drop the conversation's KV."""
        entry = self._entries.pop(conversation_id, None)
        if entry is not None:
            entry.cache.discard()

    def limit(self, max_entries: int, max_host_bytes: int) -> None:
        """Keep to other limits from now on."""
        self._max_entries, self._max_host_bytes = max_entries, max_host_bytes
        self.trim()

    def trim(self) -> None:
        """Drop what is over the limits and not held."""
        for conversation_id in list(self._entries):
            if not self.over_limit():
                return
            if conversation_id not in self._held:
                self._on_drop(conversation_id, self._entries[conversation_id])
                self.forget(conversation_id)

    def over_limit(self, more_bytes: int = 0) -> bool:
        """Whether there is more than the limits allow, or would be with so many more host bytes."""
        if len(self._entries) > self._max_entries:
            return True
        held = sum(entry.cache.host_nbytes for entry in self._entries.values())
        return held + more_bytes > self._max_host_bytes


def common_prefix(left: Sequence[Hashable], right: Sequence[Hashable]) -> int:
    """How many leading items are equal."""
    length = min(len(left), len(right))
    for index in range(length):
        if left[index] != right[index]:
            return index
    return length
