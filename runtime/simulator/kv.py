"""The KV memory of one launched model: K slots, every layer's keys and values preallocated.

An infer writes its positions in place and reads a view; nothing is copied or grown. A dump takes only the
positions that were written since, behind a small head that lets a load refuse what is cut or damaged; a blob
of nothing but zeros, however long, clears the slot, as on the device.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from runtime.simulator.errors import npu_error

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Array = NDArray[np.float32]
    Bytes = NDArray[np.int8]

_HEAD = struct.Struct("<4sIIII")
"""magic, positions, heads, head size, CRC-32 of what follows"""
_MAGIC = b"SKV1"
_MAX_TAIL = 32


@dataclass(frozen=True, slots=True)
class KvShape:
    """Dimensions of a network's KV cache."""

    layers: int
    heads: int
    head_dim: int

    def nbytes(self, capacity: int, slots: int) -> int:
        """Memory of `slots` slots of `capacity` positions."""
        return 2 * self.layers * self.heads * self.head_dim * 4 * capacity * slots


class KvMemory:
    """Keys and values by slot and layer, each (heads, capacity, head size), float32."""

    def __init__(self, shape: KvShape, capacity: int, slots: int) -> None:
        self.shape = shape
        self.capacity = capacity
        # Zeroed by the operating system page by page as positions are first written.
        self._memory: Array = np.zeros(
            (slots, shape.layers, 2, shape.heads, capacity, shape.head_dim), dtype=np.float32
        )
        self._written = [0] * slots
        self._reached = [0] * slots

    def layer(self, slot: int, layer: int) -> tuple[Array, Array]:
        """Writable views of a layer's keys and values."""
        pair = self._memory[slot, layer]
        return pair[0], pair[1]

    def note_written(self, slot: int, end: int) -> None:
        """The positions before `end` are what the slot now holds."""
        self._written[slot] = end
        self._reached[slot] = max(self._reached[slot], end)

    @property
    def names(self) -> list[str]:
        """One cache per layer for keys and one for values, in dump order."""
        return cache_names(self.shape)

    def dump(self, slot: int, index: int) -> Bytes:
        """The written positions of one cache."""
        layer, part = divmod(index, 2)
        positions = self._written[slot]
        data = self._memory[slot, layer, part][:, :positions].tobytes()
        head = _HEAD.pack(_MAGIC, positions, self.shape.heads, self.shape.head_dim, zlib.crc32(data))
        return np.frombuffer(head + data, dtype=np.int8)

    def load(self, slot: int, index: int, blob: Bytes) -> None:
        """Put the dump of one cache back."""
        self._put(slot, index, *self._check(blob, self.names[index]))

    def load_all(self, slot: int, blobs: Sequence[Bytes]) -> None:
        """Put a dump of every cache back; the slot is left alone when one of them does not fit."""
        checked = [self._check(blob, name) for blob, name in zip(blobs, self.names, strict=True)]
        for index, (positions, data) in enumerate(checked):
            self._put(slot, index, positions, data)

    @property
    def blob_size(self) -> int:
        """Most bytes of one cache's dump: what `CacheInfo.size` says."""
        return blob_size(self.shape, self.capacity)

    def _put(self, slot: int, index: int, positions: int, data: memoryview) -> None:
        layer, part = divmod(index, 2)
        shape = (self.shape.heads, positions, self.shape.head_dim)
        memory = self._memory[slot, layer, part]
        memory[:, :positions] = np.frombuffer(data, np.float32).reshape(shape)
        if not positions:
            # Only what was ever written, or the whole slot would become resident.
            memory[:, : self._reached[slot]] = 0
        self.note_written(slot, positions)

    def _check(self, blob: Bytes, name: str) -> tuple[int, memoryview]:
        raw = np.ascontiguousarray(blob).tobytes()
        if len(raw) <= self.blob_size and raw.count(0) == len(raw):
            return 0, memoryview(b"")
        if len(raw) < _HEAD.size:
            raise _wrong_size(name, self.blob_size, len(raw))
        magic, positions, heads, head_dim, checksum = _HEAD.unpack_from(raw)
        data = memoryview(raw)[_HEAD.size :]
        if magic != _MAGIC or (heads, head_dim) != (self.shape.heads, self.shape.head_dim):
            raise npu_error(
                "Model_BrokenMXQ", f"Failed to load cache memory - {name}: not a dump of this cache"
            )
        expected = positions * heads * head_dim * 4
        if positions > self.capacity or len(data) != expected:
            raise _wrong_size(name, expected + _HEAD.size, len(raw))
        if zlib.crc32(data) != checksum:
            raise npu_error("InternalError", f"Failed to load cache memory - {name}: the dump is damaged")
        return positions, data

    def filter_tail(self, slot: int, cache_size: int, tail_size: int, mask: Sequence[bool]) -> int:
        """Keep only the masked positions of the tail, moved forward; returns the new length."""
        if not 0 <= cache_size <= self.capacity or not 0 <= tail_size <= min(_MAX_TAIL, cache_size):
            raise npu_error(
                "Model_CacheOverflow", f"Failed to filter cache tail - {tail_size} of {cache_size}"
            )
        if len(mask) != tail_size:
            raise npu_error(
                "Model_ShapeMismatched",
                f"Failed to filter cache tail - `tail_size` ({tail_size}) and `mask.size()` ({len(mask)}) "
                "are mismatched.",
            )
        head = cache_size - tail_size
        kept = [head + offset for offset, keep in enumerate(mask) if keep]
        memory = self._memory[slot]
        memory[..., head : head + len(kept), :] = memory[..., kept, :]
        self._written[slot] = head + len(kept)
        return self._written[slot]

    def move_tail(self, slot: int, num_head: int, num_tail: int, cache_size: int) -> int:
        """Move the last `num_tail` positions to follow the first `num_head`; returns the new length."""
        if min(num_head, num_tail, cache_size) < 0 or cache_size > self.capacity:
            raise npu_error("Model_CacheOverflow", f"Failed to move cache tail - {cache_size} positions")
        if num_head + num_tail > cache_size:
            raise npu_error(
                "Model_CacheOverflow",
                f"Failed to move cache tail - `num_head` + `num_tail` > `cache_size` "
                f"({num_head} + {num_tail} > {cache_size})",
            )
        memory = self._memory[slot]
        memory[..., num_head : num_head + num_tail, :] = memory[
            ..., cache_size - num_tail : cache_size, :
        ].copy()
        self._written[slot] = num_head + num_tail
        return self._written[slot]


def cache_names(shape: KvShape) -> list[str]:
    """Names of a network's caches in dump order."""
    return [f"layers.{layer}.{part}" for layer in range(shape.layers) for part in ("key", "value")]


def blob_size(shape: KvShape, capacity: int) -> int:
    """Most bytes of one cache's dump."""
    return _HEAD.size + shape.heads * shape.head_dim * capacity * 4


def _wrong_size(name: str, expected: int, actual: int) -> RuntimeError:
    return npu_error(
        "Model_BufferSizeMismatched",
        f"Failed to load cache memory - {name}: Wrong buffer size (expected: {expected}, actual: {actual})",
    )
