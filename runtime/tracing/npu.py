"""The device's own events: the only owner of qbruntime's process-wide event tracing.

`qbruntime.start_tracing_events` has no handle, answers True to a second start and then ignores its path, and
`stop_tracing_events` stops whoever started. So this module looks for other owners first, passes `str` paths,
checks the answer *and* that the file appeared, and stops only what it started. The simulated device replaces
both functions and writes the same format, so nothing here knows the difference.
"""

from __future__ import annotations

import contextlib
import sys
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType

from runtime.config import DeviceChoice
from runtime.errors import DeviceError
from runtime.tracing.clocks import Bracket, ClockRelation, relate
from runtime.tracing.npu_events import DeviceEvents, parse

SENTINEL = "/nonexistent/__mblt_clock_sync__.mxq"
SENTINELS = 8
"""Bracketed calls at each end of a recording: about 6 µs each, and good for ± 4 µs."""

# The vendor's benchmark helpers keep the handle of a trace they started here.
FOREIGN_OWNERS = (
    "transformers_mblt.utils.benchmark_utils",
    "mblt_model_zoo.hf_transformers.utils.benchmark_utils",
)
HANDLE = "_ACTIVE_QBRUNTIME_TRACE_HANDLE"

OTHER_OWNER = (
    "Another part of this program is recording the device's events, so this recording holds the program's "
    "own spans only."
)
NOT_STARTED = "The device's events could not be recorded; this recording holds the program's own spans only."
NO_CLOCK = "The device's clock could not be checked against the program's; it was taken to be the same."
BAD_CLOCK = (
    "The device's clock does not fit the program's, so the device's events were left out of the timeline; "
    "they are kept in a file of their own beside the recording."
)


@dataclass(frozen=True, slots=True)
class DeviceRecording:
    """What came of the device's side: its events on the host's clock, and what to say about them."""

    events: DeviceEvents
    relation: ClockRelation | None
    warning: str = ""


class DeviceTrace:
    """One run of qbruntime's event tracing into `path`."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.title = ""
        """The device in words once started; empty when there is none."""
        self.simulated = False
        self.warning = ""
        """Why no device event is recorded, in words."""
        self.brackets: list[Bracket] = []
        self.thread = 0
        """Native id of the thread that made the clock checks; it makes no other traced call."""
        self._runtime: ModuleType | None = None

    def start(self, choice: DeviceChoice) -> None:
        """Begin, if there is a device; a recording without device events is still a recording."""
        from runtime.device.active import activate

        try:
            device = activate(choice)
        except (DeviceError, ImportError) as error:
            self.warning = f"{NOT_STARTED} {error}"
            return
        self.title, self.simulated = device.title, device.simulated
        import qbruntime

        if foreign_owner() is not None:
            self.warning = OTHER_OWNER
            return
        if not qbruntime.start_tracing_events(str(self.path)):
            self.warning = NOT_STARTED
            return
        if not self.path.exists():
            self.warning = OTHER_OWNER
            return
        self._runtime = qbruntime
        self._check_clock()

    def stop(self) -> None:
        """End what `start` began; the file is complete afterwards."""
        runtime, self._runtime = self._runtime, None
        if runtime is not None:
            self._check_clock(runtime)
            runtime.stop_tracing_events()

    @property
    def running(self) -> bool:
        """Whether device events are being written."""
        return self._runtime is not None

    def size(self) -> int:
        """Bytes written so far; qbruntime writes 100,000 events at a time."""
        try:
            return self.path.stat().st_size
        except OSError:
            return 0

    def _check_clock(self, runtime: ModuleType | None = None) -> None:
        runtime = runtime or self._runtime
        if runtime is None:
            return
        self.thread = threading.get_native_id()
        for _ in range(SENTINELS):
            before = time.perf_counter_ns()
            with contextlib.suppress(runtime.QbRuntimeError):
                runtime.Model(SENTINEL)
            self.brackets.append((before, time.perf_counter_ns()))


def foreign_owner() -> str | None:
    """The module that holds a running trace of its own, if any; imports nothing."""
    for name in FOREIGN_OWNERS:
        module = sys.modules.get(name)
        if module is not None and getattr(module, HANDLE, None) is not None:
            return name
    return None


def read_device_file(path: Path, brackets: list[Bracket], sentinel_thread: int) -> DeviceRecording:
    """Parse a device's event file, take the clock checks out of it and put the rest on the host's clock."""
    try:
        events = parse(path)
    except OSError:
        return DeviceRecording(DeviceEvents(), None, NOT_STARTED)
    sentinels = events.spans.pop(sentinel_thread, [])
    events.repaired -= sum(1 for span in sentinels if span.args)
    outer = [span for span in sentinels if span.name == "create model"]
    if not outer:
        return DeviceRecording(events, None, NO_CLOCK)
    # A killed process loses the checks at the end; those that are there still count.
    relation = relate(brackets[: len(outer)], outer[: len(brackets)])
    if relation is None:
        return DeviceRecording(DeviceEvents(), None, BAD_CLOCK)
    for spans in events.spans.values():
        for span in spans:
            span.start_ns += relation.offset_ns
    return DeviceRecording(events, relation)
