"""Simulated boards: which exist, what their memory holds, and whose turn it is on their cores.

ARIES has two clusters of four cores, REGULUS one core. A core is a lock: a model runs on a group of cores
(one in single mode, a cluster in multi and global4, all eight in global8), takes the first of its groups that
is free, and otherwise waits its turn.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from runtime.simulator.errors import npu_error
from runtime.simulator.events import TRACE

CoreName = tuple[int, int]
"""(cluster, core)"""
CoreGroup = frozenset[CoreName]

GIB = 1 << 30
_ANY = "auto"


@dataclass(frozen=True, slots=True)
class Board:
    """One kind of accelerator."""

    name: str
    clusters: int
    cores_per_cluster: int
    memory_bytes: int

    @property
    def cores(self) -> tuple[CoreName, ...]:
        """Every core, in the vendor's order."""
        return tuple((cluster, core) for cluster in range(self.clusters) for core in self.cluster(cluster))

    def cluster(self, number: int) -> range:
        """Core numbers of one cluster; empty when the board has no such cluster."""
        return range(self.cores_per_cluster if number < self.clusters else 0)


BOARDS = {
    board.name: board
    for board in (
        Board("aries-rb", 2, 4, 16 * GIB),
        Board("regulus-ra", 1, 1, 4 * GIB),
        Board("regulus-rb", 1, 1, 4 * GIB),
        Board("regulus-ra-usb", 1, 1, 4 * GIB),
        Board("regulus-rb-usb", 1, 1, 4 * GIB),
    )
}
# Base names are a shorthand for every board that begins with them.
KNOWN_NAMES = frozenset({_ANY, "aries", "regulus", "regulus-usb", *BOARDS})


@dataclass(frozen=True, slots=True)
class DeviceUsage:
    """What a simulated board is doing; never a hardware figure."""

    dev_no: int
    memory_used: int
    memory_total: int
    busy_ns: int
    """Core time spent in inference since installation, summed over cores."""
    cores: int


@dataclass(eq=False)
class _Waiter:
    groups: Sequence[CoreGroup]
    cores: CoreGroup = field(init=False)

    def __post_init__(self) -> None:
        self.cores = frozenset().union(*self.groups)


class Device:
    """One simulated board."""

    def __init__(self, board: Board, number: int, memory_bytes: int) -> None:
        self.board = board
        self.number = number
        self.memory_bytes = memory_bytes
        self.generation = 0
        """Grows when the board is lost; models launched before are not alive any more."""
        self.absent_until = 0.0
        self._used = 0
        self._busy_ns = 0
        self._running: set[CoreName] = set()
        self._queue: list[_Waiter] = []
        self._turn = threading.Condition()

    @property
    def present(self) -> bool:
        """Whether the board answers at the moment."""
        return time.monotonic() >= self.absent_until

    def lose(self, seconds: float) -> None:
        """Unplug the board and plug it back after so many seconds; what ran on it is gone."""
        self.generation += 1
        self.absent_until = time.monotonic() + seconds

    def allocate(self, nbytes: int) -> None:
        """Take device memory; raises BadAlloc beyond the board's."""
        with self._turn:
            if self._used + nbytes > self.memory_bytes:
                raise npu_error(
                    "BadAlloc",
                    f"Failed to allocate memory of bytesize: {nbytes} "
                    f"({self._used} of {self.memory_bytes} are used)",
                )
            self._used += nbytes

    def free(self, nbytes: int) -> None:
        """Give device memory back."""
        with self._turn:
            self._used -= nbytes

    @contextmanager
    def cores(self, groups: Sequence[CoreGroup]) -> Iterator[CoreGroup]:
        """Hold one of the groups for the length of the block, waiting for it first; yields the group."""
        with TRACE.span("wait core"):
            group = self._acquire(_Waiter(groups))
        with TRACE.span("lock core"):
            started = time.monotonic_ns()
        try:
            yield group
        finally:
            with TRACE.span("unlock core"):
                self._release(group, time.monotonic_ns() - started)

    def usage(self) -> DeviceUsage:
        """A snapshot."""
        with self._turn:
            cores = len(self.board.cores)
            return DeviceUsage(self.number, self._used, self.memory_bytes, self._busy_ns, cores)

    def _acquire(self, waiter: _Waiter) -> CoreGroup:
        with self._turn:
            self._queue.append(waiter)
            try:
                while (group := self._free_group(waiter)) is None:
                    self._turn.wait()
            finally:
                self._queue.remove(waiter)
            self._running |= group
            self._turn.notify_all()
            return group

    def _free_group(self, waiter: _Waiter) -> CoreGroup | None:
        # Whoever came first keeps its claim on every core it may use, or a wide model would starve.
        ahead = self._queue[: self._queue.index(waiter)]
        taken = self._running.union(*(other.cores for other in ahead))
        return next((group for group in waiter.groups if not group & taken), None)

    def _release(self, group: CoreGroup, held_ns: int) -> None:
        with self._turn:
            self._running -= group
            self._busy_ns += held_ns * len(group)
            self._turn.notify_all()


class Fleet:
    """The boards of this simulation: one kind, numbered from 0."""

    def __init__(self, board: Board, count: int, memory_bytes: int | None = None) -> None:
        self.board = board
        self.devices = [Device(board, number, memory_bytes or board.memory_bytes) for number in range(count)]

    def names(self) -> list[str]:
        """As `qbruntime.get_available_devices`: the kinds that are present."""
        return [self.board.name] if any(device.present for device in self.devices) else []

    def numbers(self, name: str = _ANY) -> list[int]:
        """As `qbruntime.get_available_device_numbers`; empty for a name that does not resolve."""
        if not self._matches(name):
            return []
        return [device.number for device in self.devices if device.present]

    def open(self, name: str, number: int) -> Device:
        """The board of that name and number, with the vendor's errors when there is none."""
        if name.lower() not in KNOWN_NAMES:
            raise npu_error("Acc_UnknownDevice")
        if not self.names() and name.lower() == _ANY:
            raise npu_error("Acc_DeviceNotFound")
        if not self._matches(name) or number not in self.numbers(name):
            raise npu_error("Driver_NotInitialized", f"{name} device #{number} not found.")
        return self.devices[number]

    def _matches(self, name: str) -> bool:
        wanted = name.lower()
        if wanted == "regulus-usb":
            return self.board.name.startswith("regulus") and self.board.name.endswith("-usb")
        return wanted in KNOWN_NAMES and (wanted == _ANY or self.board.name.startswith(wanted))


class NativeAccelerator:
    """Stands in for the runtime's own `Accelerator` object, behind the vendor's Python class."""

    fleet: Fleet

    def __init__(self, device_name: str | int = _ANY, dev_no: int = 0) -> None:
        if isinstance(device_name, int):
            self.device = self.fleet.open(_ANY, device_name)
        else:
            self.device = self.fleet.open(device_name, dev_no)

    def get_device_name(self) -> str:
        """The resolved name."""
        return self.device.board.name

    def allocate_pinned_memory(self, shape: list[int], dtype: object) -> object:
        """Pinned memory exists on REGULUS only, and is not simulated."""
        raise npu_error("PinnedMemory_NotAvailable", f"Pinned memory of shape {shape} is not simulated.")
