"""What is asked of a conversation's KV cache, whatever the model's family. No torch, no numpy."""

from __future__ import annotations

from typing import Protocol


class KvCache(Protocol):
    """One conversation's KV cache: the part of the vendor's `MobilintCache` that the engine touches."""

    def get_seq_length(self, index: int = 0) -> int:
        """Positions held."""

    def set_seq_length(self, sequence_lengths: int, index: int = 0) -> None:
        """Keep only the first positions."""

    def discard(self) -> None:
        """Free the slot without saving it; the cache is empty then."""

    def offload(self) -> None:
        """Move the KV from the slot to host memory."""

    def dump_cache_memory_to(self, cache_dir: str) -> None:
        """Write the KV into the folder."""

    def load_cache_memory_from(self, cache_dir: str) -> None:
        """Put what the folder holds onto the slot and into this cache."""

    @property
    def is_resident(self) -> bool:
        """Whether the slot holds this conversation's KV."""

    @property
    def host_nbytes(self) -> int:
        """Bytes of KV kept in host memory while another conversation has the slot."""
