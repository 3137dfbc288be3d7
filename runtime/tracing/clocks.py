"""Relates the device's clock to the host's, and reads the host's clocks together.

Host spans and qbruntime events use the same clock on Linux, so the offset should be zero. That is measured,
not assumed: calls that the runtime traces are bracketed between two host readings, and each gives an interval
the offset must lie in.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from dataclasses import dataclass

from runtime.tracing.model import ClockReading, Span
from runtime.tracing.npu_events import NS_PER_US

Bracket = tuple[int, int]
"""Host time before and after a traced call, in ns."""


@dataclass(frozen=True, slots=True)
class ClockRelation:
    """host time = device time + `offset_ns`, right within ± `bound_ns`."""

    offset_ns: int
    bound_ns: int


def read_clocks() -> ClockReading:
    """The host's clocks now; where the system has no boot clock, the monotonic one stands in."""
    monotonic = time.perf_counter_ns()
    boot = getattr(time, "CLOCK_BOOTTIME", None)
    return ClockReading(
        monotonic=monotonic,
        boottime=time.clock_gettime_ns(boot) if boot is not None else monotonic,
        realtime=time.time_ns(),
    )


def suspended_ns(readings: Sequence[ClockReading]) -> int:
    """How long the computer slept between the first reading and the last."""
    if len(readings) < 2:
        return 0
    first, last = readings[0], readings[-1]
    return max(0, (last.boottime - first.boottime) - (last.monotonic - first.monotonic))


def relate(brackets: Sequence[Bracket], spans: Sequence[Span]) -> ClockRelation | None:
    """The offset that puts the k-th span inside the k-th bracket; None when there is none.

    Device times are rounded down to whole microseconds, so a span's true begin is up to 999 ns later than
    written; the bound includes that.
    """
    if not brackets or len(brackets) != len(spans):
        return None
    pairs = list(zip(brackets, spans, strict=True))
    low = max(before - (span.start_ns + NS_PER_US - 1) for (before, _after), span in pairs)
    high = min(after - span.end_ns for (_before, after), span in pairs)
    if low > high:
        return None
    offset = 0 if low <= 0 <= high else (low + high) // 2
    return ClockRelation(offset, max(high - offset, offset - low))
