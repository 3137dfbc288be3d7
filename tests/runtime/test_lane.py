"""The lanes: order, faults, cancel marks, and the outbox's one wake-up a batch."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable

import pytest

from runtime.errors import NetworkError
from runtime.lane import CancelMarks, Lane
from runtime.messages import Command, Event, LaneFaulted, ListModels, TextDelta, UnloadModel
from runtime.outbox import Outbox


class Recording:
    """A service that notes what it is asked, and from which thread."""

    name = "recording"

    def __init__(self, work: int = 0, on_handle: Callable[[Command], None] = lambda _: None) -> None:
        self.log: list[str] = []
        self.threads: set[int] = set()
        self.work = work
        self.on_handle = on_handle

    def _note(self, what: str) -> None:
        self.log.append(what)
        self.threads.add(threading.get_ident())

    def open(self) -> None:
        self._note("open")

    def handle(self, command: Command) -> None:
        self._note(type(command).__name__)
        self.on_handle(command)

    def step(self) -> bool:
        self._note("step")
        self.work -= 1
        return self.work > 0

    def close(self) -> None:
        self._note("close")


def run(service: Recording, *commands: Command) -> list[Event]:
    events: list[Event] = []
    lane = Lane("recording", lambda *_: service, events.append)
    for command in commands:
        lane.put(command)
    lane.stop()
    thread = threading.Thread(target=lane.run)
    thread.start()
    thread.join(10)
    assert not thread.is_alive()
    return events


def test_commands_come_in_order_from_one_thread() -> None:
    service = Recording()
    assert run(service, ListModels(), UnloadModel("m")) == []
    assert [entry for entry in service.log if entry != "step"] == [
        "open",
        "ListModels",
        "UnloadModel",
        "close",
    ]
    assert len(service.threads) == 1


def test_a_fault_is_posted_and_the_lane_goes_on() -> None:
    def refuse(command: Command) -> None:
        if isinstance(command, ListModels):
            raise NetworkError("No network.", remedy="Connect.")

    service = Recording(on_handle=refuse)
    (event,) = run(service, ListModels(), UnloadModel("m"))
    assert isinstance(event, LaneFaulted)
    assert event.error.code == "download.network"
    assert "UnloadModel" in service.log


def test_a_service_that_cannot_open_ends_its_lane_and_says_why() -> None:
    service = Recording()

    def refuse() -> None:
        raise NetworkError("No network.")

    service.open = refuse  # type: ignore[method-assign]
    (event,) = run(service, ListModels())
    assert isinstance(event, LaneFaulted)
    assert service.log == ["close"]


def test_work_goes_on_between_commands() -> None:
    service = Recording(work=3)
    run(service, ListModels())
    assert service.log.count("step") >= 1


def test_only_the_post_into_an_empty_box_wakes() -> None:
    wakes = []
    box = Outbox(lambda: wakes.append(1))
    for text in "abc":
        box.post(TextDelta("r", text))
    assert len(wakes) == 1
    assert [event.text for event in box.take() if isinstance(event, TextDelta)] == ["a", "b", "c"]
    assert box.take() == []
    box.post(TextDelta("r", "d"))
    assert len(wakes) == 2


def test_nothing_is_lost_between_threads() -> None:
    box = Outbox(lambda: None)
    threads = [
        threading.Thread(target=lambda name=name: [box.post(TextDelta(name, str(i))) for i in range(500)])
        for name in "abcd"
    ]
    for thread in threads:
        thread.start()
    got: list[Event] = []
    while any(thread.is_alive() for thread in threads):
        got += box.take()
    got += box.take()
    for name in "abcd":
        assert [e.text for e in got if isinstance(e, TextDelta) and e.request_id == name] == [
            str(i) for i in range(500)
        ]


def test_a_mark_is_seen_at_once_and_can_be_cleared() -> None:
    marks = CancelMarks()
    marks.cancel("r")
    assert marks.is_cancelled("r")
    marks.clear("r")
    assert not marks.is_cancelled("r")
    marks.clear("r")


def test_messages_can_be_pickled_for_a_process_boundary() -> None:
    event = TextDelta("r", "한국어")
    assert pickle.loads(pickle.dumps(event)) == event
    with pytest.raises(AttributeError):
        event.text = "x"  # type: ignore[misc]
