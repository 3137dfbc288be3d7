"""A call for no request that does not come back: whoever waits behind it is told, and may stop it."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest

from runtime.lanes import lane as lanes
from runtime.lanes.device_call import DeviceCall
from runtime.lanes.lane import CancelMarks, Lane
from runtime.lanes.watchdog import Limits, Watchdog
from runtime.messages import CallOverdue, Command, Event, Failed, Generate
from runtime.sampling.params import SamplingRequest

LIMIT = 1.5


class Measuring:
    """A service whose work in a quiet moment hangs until it is told to go on."""

    def __init__(self, call: DeviceCall, hanging: threading.Event, go_on: threading.Event) -> None:
        self._call, self._hanging, self._go_on = call, hanging, go_on

    def open(self) -> None:
        """Nothing is needed."""

    def handle(self, command: Command) -> None:
        """Nothing is answered any more."""

    def step(self) -> bool:
        return False

    def work_when_quiet(self) -> bool:
        with self._call.made_for():
            self._hanging.set()
            self._go_on.wait(20)
        return False

    def close(self) -> None:
        """Nothing is held."""


class Watched:
    """Such a lane and its watchdog."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.marks = CancelMarks()
        self.hanging, self.go_on = threading.Event(), threading.Event()
        self.lane = Lane(
            "model a", lambda _, call: Measuring(call, self.hanging, self.go_on), self.events.append
        )
        limits = Limits(LIMIT, 60.0)
        self.watchdog = Watchdog(limits, self.events.append, self.marks, lambda: [self.lane])
        self.thread = threading.Thread(target=self.lane.run)
        self.thread.start()

    def ask(self, request_id: str) -> None:
        self.lane.put(Generate(request_id, request_id, "a", (), SamplingRequest(), 1))
        self.watchdog.wake()

    def seconds_until(self, kind: type[Event], request_id: str) -> float:
        """How long such an event of the request was waited for."""
        began = time.monotonic()
        while not [e for e in self.events if isinstance(e, kind) and e.request_id == request_id]:
            assert time.monotonic() < began + 10, self.events
            time.sleep(0.005)
        return time.monotonic() - began


@pytest.fixture
def watched(monkeypatch: pytest.MonkeyPatch) -> Iterator[Watched]:
    monkeypatch.setattr(lanes, "QUIET_SECONDS", 0.01)
    watched = Watched()
    assert watched.hanging.wait(10)
    yield watched
    watched.go_on.set()
    watched.lane.stop()
    watched.thread.join()
    watched.watchdog.stop()


def test_who_waits_behind_it_is_told_and_may_stop_it(watched: Watched) -> None:
    watched.ask("first")
    watched.seconds_until(CallOverdue, "first")
    watched.ask("second")
    watched.seconds_until(CallOverdue, "second")
    watched.marks.cancel("second")
    assert watched.seconds_until(Failed, "second") < LIMIT / 2
    said = [(type(event), event.request_id) for event in watched.events if isinstance(event, CallOverdue)]
    assert said == [(CallOverdue, "first"), (CallOverdue, "second")], "each once"
    ended = {event.request_id: event.error.code for event in watched.events if isinstance(event, Failed)}
    assert ended == dict.fromkeys(("first", "second"), "device.stalled")


def test_nobody_who_waits_is_left_alone_with_it(watched: Watched) -> None:
    watched.ask("patient")
    assert watched.seconds_until(Failed, "patient") < 3 * LIMIT
