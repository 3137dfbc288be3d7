"""Watches for calls of the device that do not come back, and says so; it asks nobody and stops nothing.

A call in flight cannot be interrupted. After the limit the listener is told each request in it, and may stop
them; then, and in any case after twice the limit, the watchdog gives the lane up: its requests and its model
end with an error, its thread is left alone, and the next load gets a new lane. On a board the runtime itself
ends a call at the limit (`runtime.devices.limit_calls`), so this is for calls that even it cannot end.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Sequence

from runtime.device_call import Waiting
from runtime.errors import DeviceStalledError
from runtime.lane import CancelMarks, Lane, Post
from runtime.messages import CallOverdue, model_lane
from runtime.tracing.recorder import RECORDER

_LOOKS_PER_LIMIT = 20
_LONGEST_PAUSE = 1.0
"""Seconds."""


class Watchdog:
    """A thread that sleeps while no request is unanswered."""

    def __init__(
        self, limit: float, post: Post, marks: CancelMarks, lanes: Callable[[], Sequence[Lane]]
    ) -> None:
        """`limit` in seconds; `lanes` is called from the watchdog's thread."""
        self._limit = limit
        self._post = post
        self._marks = marks
        self._lanes = lanes
        self._said: set[Waiting] = set()
        self._awake = threading.Event()
        self._stopping = threading.Event()
        self._thread: threading.Thread | None = None

    def wake(self) -> None:
        """A request was queued."""
        if self._thread is None:
            self._thread = threading.Thread(target=self._run, name="mblt-watchdog", daemon=True)
            self._thread.start()
        self._awake.set()

    def stop(self) -> None:
        """End the thread."""
        self._stopping.set()
        self._awake.set()
        if self._thread is not None:
            self._thread.join()

    def _run(self) -> None:
        pause = min(_LONGEST_PAUSE, self._limit / _LOOKS_PER_LIMIT)
        while not self._stopping.is_set():
            self._awake.wait()
            self._awake.clear()
            while any(lane.gate.busy and not lane.gate.is_shut for lane in self._lanes()):
                if self._stopping.wait(pause):
                    return
                for lane in self._lanes():
                    self._look_at(lane)
            self._said.clear()

    def _look_at(self, lane: Lane) -> None:
        call = lane.call.current
        if call is None or lane.gate.is_shut:
            return
        seconds = (time.monotonic_ns() - call.since_ns) / 1e9
        if seconds < self._limit:
            return
        unwanted = any(self._marks.is_cancelled(request_id) for request_id in call.request_ids)
        if unwanted or seconds >= 2 * self._limit:
            self._give_up(lane, seconds)
        elif call not in self._said:
            self._said.add(call)
            since = time.time() - seconds
            for request_id in call.request_ids:
                self._post(CallOverdue(request_id, since, self._limit))

    def _give_up(self, lane: Lane, seconds: float) -> None:
        model = f"the {lane.name}" if lane.name.startswith(model_lane("")) else "the speech model"
        error = DeviceStalledError(
            f"The device has not answered {model} for {seconds:.0f} seconds, so it is given up.",
            remedy="Load the model again. If that does not help, restart the board.",
            unharmed="Your conversations, files and settings are unharmed.",
        )
        for request_id in lane.give_up(error.info):
            self._marks.clear(request_id)
            RECORDER.end_request(request_id)
