"""Watches for calls of the device that do not come back, and says so; it asks nobody and stops nothing.

A call in flight cannot be interrupted. After the limit the listener is told each request in it (of a call for
none, such as a measurement in a quiet moment, each that waits behind it), and may stop them; then, and in any
case after twice the limit, the watchdog gives the lane up: its requests and its model end with an error, its
thread is left alone, and the next load gets a new lane. A load has a limit of its own, from one stage to the
next. On a board the runtime itself ends a call at the limit
(`runtime.device.active.limit_calls`), so this is for calls that even it cannot end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from runtime.errors import DeviceStalledError
from runtime.lanes.device_call import Waiting
from runtime.lanes.lane import CancelMarks, Lane, Post
from runtime.layout.request import EffectiveLayout
from runtime.messages import CallOverdue
from runtime.tracing.recorder import RECORDER

_LOOKS_PER_LIMIT = 20
_LONGEST_PAUSE = 1.0
"""Seconds."""
_UNHARMED = "Your conversations, files and settings are unharmed."


@dataclass(frozen=True, slots=True)
class Limits:
    """Seconds without a sign of life."""

    call: float
    load: float


class Watchdog:
    """A thread that sleeps while no request is unanswered and no lane is ending."""

    def __init__(
        self, limits: Limits, post: Post, marks: CancelMarks, lanes: Callable[[], Sequence[Lane]]
    ) -> None:
        """`lanes` is called from the watchdog's thread: all whose thread may still run."""
        self._limits = limits
        self._post = post
        self._marks = marks
        self._lanes = lanes
        self._said: set[tuple[Waiting, str]] = set()
        self._awake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """There is something to watch."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mblt-watchdog", daemon=True)
            self._thread.start()
        self._awake.set()

    def is_overdue(self, lane: Lane) -> bool:
        """Whether the lane's thread is in a call beyond its limit; from any thread."""
        call = lane.call.current
        return call is not None and _seconds(call) >= self._limit_of(call)

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._awake.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        pause = min(_LONGEST_PAUSE, min(self._limits.call, self._limits.load) / _LOOKS_PER_LIMIT)
        while not self._stopping.is_set():
            self._awake.wait()
            self._awake.clear()
            while any(_is_watched(lane) for lane in self._lanes()):
                if self._stopping.wait(pause):
                    return
                for lane in filter(_is_watched, self._lanes()):
                    self._look_at(lane)
            self._said.clear()

    def _look_at(self, lane: Lane) -> None:
        call = lane.call.current
        if call is None:
            return
        seconds, limit = _seconds(call), self._limit_of(call)
        if seconds < limit:
            return
        if call.loading:
            self._give_up(lane, _no_progress(lane, seconds))
            return
        holder = self._holder(lane)
        waiting = call.request_ids or lane.gate.unanswered()
        unwanted = any(self._marks.is_cancelled(request_id) for request_id in waiting)
        if unwanted or holder or seconds >= 2 * limit:
            self._give_up(lane, _held(lane, holder) if holder else _no_answer(lane, seconds))
            return
        since = time.time() - seconds
        for request_id in waiting:
            if (call, request_id) not in self._said:
                self._said.add((call, request_id))
                self._post(CallOverdue(request_id, since, limit))

    def _limit_of(self, call: Waiting) -> float:
        return self._limits.load if call.loading else self._limits.call

    def _holder(self, lane: Lane) -> Lane | None:
        """The lane that was given up, and whose call still has the cores that this one needs."""
        for other in self._lanes():
            stuck = other.abandoned and not other.ended.is_set()
            if stuck and _meet(other.gate.layouts(), lane.gate.layouts()):
                return other
        return None

    def _give_up(self, lane: Lane, error: DeviceStalledError) -> None:
        for request_id in lane.give_up(error.info):
            self._marks.clear(request_id)
            RECORDER.end_request(request_id)


def _seconds(call: Waiting) -> float:
    """Since its last sign of life."""
    return (time.monotonic_ns() - call.since_ns) / 1e9


def _is_watched(lane: Lane) -> bool:
    return not (lane.abandoned or lane.ended.is_set()) and (lane.gate.busy or lane.stopping)


def _meet(some: Sequence[EffectiveLayout], others: Sequence[EffectiveLayout]) -> bool:
    """Whether models with these layouts share a core, as far as it is known on which they run."""
    return any(
        set(one.cores).intersection(other.cores)
        if one.cores and other.cores
        else set(one.clusters).intersection(other.clusters)
        for one in some
        for other in others
    )


def _name(lane: Lane) -> str:
    return "the speech model" if lane.name == "speech" else f"the {lane.name}"


def _no_answer(lane: Lane, seconds: float) -> DeviceStalledError:
    return DeviceStalledError(
        f"The device has not answered {_name(lane)} for {seconds:.0f} seconds, so it is given up.",
        remedy="Load the model again. If that does not help, restart the board.",
        unharmed=_UNHARMED,
    )


def _no_progress(lane: Lane, seconds: float) -> DeviceStalledError:
    return DeviceStalledError(
        f"Loading {_name(lane)} has shown no progress for {seconds:.0f} seconds, so it is given up.",
        remedy="Load the model again. If that does not help, restart the board; for a model on a slow disk, "
        "raise “Time limit of a load” (Settings, Advanced).",
        unharmed=_UNHARMED,
    )


def _held(lane: Lane, holder: Lane) -> DeviceStalledError:
    former = "an earlier call of the same model" if holder.name == lane.name else f"a call of {_name(holder)}"
    return DeviceStalledError(
        f"The cores of {_name(lane)} are still held by {former} that does not come back.",
        remedy="Choose other cores (Settings, Device & layout), or quit and start the program again. If that "
        "does not help, reset the card.",
        unharmed=_UNHARMED,
    )
