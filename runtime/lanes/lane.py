"""One runtime thread's loop: take a command, do a step, look again. Qt-free.

A `Service` does the work of one lane (a loaded model, the recorder, the library, …). The `Lane` owns its
inbox and calls it from one thread only, so a service needs no locks of its own. Cancelling does not queue
behind work: it is a mark that the service looks at between steps, and before each call of the device in one.
"""

from __future__ import annotations

import queue
import threading
from collections.abc import Callable, Sequence
from typing import Protocol, runtime_checkable

from runtime.errors import ErrorInfo, to_info
from runtime.lanes.building import TURN
from runtime.lanes.device_call import DeviceCall
from runtime.lanes.gate import Gate
from runtime.messages import Command, Event, LaneFaulted

Post = Callable[[Event], None]
QUIET_SECONDS = 2.0
"""Without a command; who types a message measures it all the time (`mblt_desktop/chat/measuring.py`)."""
_MOST_FAULTS = 3
"""Steps in a row that may fail for no request's fault; by then it is clear that no later one will do."""
_LOOK_AGAIN = 0.1
"""Seconds between two looks at a lane that may have been given up."""


class CancelMarks:
    """Request ids that somebody wants stopped; set from any thread, read by services and the watchdog.

    Reading asks a set whether it has an id, which is atomic; so only changes take the lock.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._ids: set[str] = set()

    def cancel(self, request_id: str) -> None:
        """Mark the request; it is acknowledged by its final event."""
        with self._lock:
            self._ids.add(request_id)

    def is_cancelled(self, request_id: str) -> bool:
        """Whether the request is marked."""
        return request_id in self._ids

    def clear(self, request_id: str) -> None:
        """Forget the mark once the final event is posted."""
        with self._lock:
            self._ids.discard(request_id)


class Service(Protocol):
    """The work of one lane. Every method is called from the lane's thread."""

    def open(self) -> None:
        """Do the slow imports and set-up."""

    def handle(self, command: Command) -> None:
        """Take one command: do it, or queue it for `step`."""

    def step(self) -> bool:
        """Do one unit of work; True while more is waiting."""

    def close(self) -> None:
        """Release everything."""


@runtime_checkable
class Thrifty(Protocol):
    """A service that uses quiet moments, beside `Service`."""

    def work_when_quiet(self) -> bool:
        """Do one unit of what nobody waits for; True while there is more. Who comes then waits for it."""


MakeService = Callable[[Post, DeviceCall], Service]


class Lane:
    """Runs a service in the thread that calls `run`."""

    def __init__(self, name: str, make_service: MakeService, post: Post, after: Sequence[Lane] = ()) -> None:
        """`after`: lanes that must have ended first, because what they hold is needed."""
        self.name = name
        self.gate = Gate(post)
        self.call = DeviceCall()
        self.ended = threading.Event()
        self.stopping = False
        """Whether it was asked to end."""
        self.abandoned = False
        """Whether its thread is not expected back: nobody waits for it."""
        self._thread = 0
        self._faults = 0
        """Steps that have failed since the last that did not."""
        self._make_service = make_service
        self._after = after
        self._inbox: queue.SimpleQueue[Command | None] = queue.SimpleQueue()

    def put(self, command: Command) -> bool:
        """Queue a command; returns at once, from any thread. False when nobody would answer it any more."""
        taken = self.gate.expect(command)
        if taken:
            self._inbox.put(command)
        return taken

    def stop(self) -> None:
        """Ask `run` to return after the step it is in."""
        self.stopping = True
        self._inbox.put(None)

    def let_go(self, error: ErrorInfo) -> None:
        """Nobody waits for the load it is in: answer for it. The thread ends at the load's next stage.

        The model ends as unloaded, requests that were to follow with the error.
        """
        self.gate.shut(error, as_wished=True)
        self.call.wanted = False
        self.stop()

    def give_up(self, error: ErrorInfo) -> list[str]:
        """The thread does not come back: answer for it. If it ever does, it only cleans up.

        Returns the ids of the requests that ended so.
        """
        answered = self.gate.shut(error)
        self.call.wanted = False
        self.abandoned = True
        TURN.take_away(self._thread)
        self.stop()
        return answered

    def run(self) -> None:
        """Loop until `stop`. A fault outside a request is posted and the loop goes on; the service ends with
        the last of `_MOST_FAULTS` in a row, and whoever waits for it is answered with that.
        """
        self._thread = threading.get_ident()
        try:
            for lane in self._after:
                lane.wait_until_gone()
            if not self.gate.is_shut:
                self._serve()
        finally:
            self.ended.set()

    def wait_until_gone(self) -> None:
        """Return when the thread has ended, or was given up."""
        while not self.ended.wait(_LOOK_AGAIN) and not self.abandoned:
            pass

    def _serve(self) -> None:
        service: Service | None = None
        try:
            service = self._make_service(self.gate.post, self.call)
            service.open()
        except Exception as error:  # noqa: BLE001 - the top of the thread; the fault is shown
            self._post_fault(error)
            self._refuse_all(to_info(error))
        else:
            while self._turn(service):
                pass
        finally:
            if service is not None:
                self._close(service)

    def _refuse_all(self, error: ErrorInfo) -> None:
        """There is no service: answer every command with the reason until the end."""
        while (command := self._inbox.get()) is not None:
            self.gate.refuse(command, error)

    def _turn(self, service: Service) -> bool:
        """A step, then every command that is there; without either, wait for one. False at the end."""
        busy = self._did(service.step)
        quiet_work = service.work_when_quiet if isinstance(service, Thrifty) else None
        wait = 0.0 if busy else QUIET_SECONDS if quiet_work else None
        while not self.gate.is_shut:
            try:
                command = self._inbox.get(timeout=wait)
            except queue.Empty:
                if busy:
                    return True
                wait = 0.0 if quiet_work and self._did(quiet_work) else None
                continue
            if command is None:
                return False
            self._handle(service, command)
            busy, wait = True, 0.0
        return False

    def _did(self, work: Callable[[], bool]) -> bool:
        """Whether more work is to follow without waiting for a command."""
        try:
            more = work()
        except Exception as error:  # noqa: BLE001 - the top of the thread; the fault is shown
            self._post_fault(error)
            self._faults += 1
            if self._faults < _MOST_FAULTS:
                return True
            self._faults = 0
            if self.gate.busy:
                self.gate.shut(to_info(error))
            return False
        self._faults = 0
        return more

    def _handle(self, service: Service, command: Command) -> None:
        try:
            service.handle(command)
        except Exception as error:  # noqa: BLE001 - likewise
            self._post_fault(error)
            self.gate.refuse(command, to_info(error))

    def _close(self, service: Service) -> None:
        try:
            service.close()
        except Exception as error:  # noqa: BLE001 - likewise
            self._post_fault(error)

    def _post_fault(self, error: Exception) -> None:
        self.gate.post(LaneFaulted(self.name, to_info(error)))
