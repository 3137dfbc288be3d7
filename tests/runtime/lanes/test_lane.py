"""The lanes: order, faults, cancel marks, and what is answered for a service."""

from __future__ import annotations

import pickle
import threading
import time
from collections.abc import Callable

import pytest

from runtime.errors import DeviceStalledError, NetworkError
from runtime.lanes.lane import CancelMarks, Lane
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    Command,
    Event,
    Failed,
    FetchModel,
    Generate,
    LaneFaulted,
    ListModels,
    LoadModel,
    LoadSpeech,
    ModelFailed,
    ModelUnloaded,
    Queued,
    RecordingFailed,
    StartRecording,
    StopRecording,
    TextDelta,
    Transcribe,
    UnloadModel,
)
from runtime.sampling.params import SamplingRequest


class Recording:
    """A service that notes what it is asked, and from which thread."""

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


class Faulty(Recording):
    """A service with these of its steps broken, counted from one, that never wants to be waited for."""

    def __init__(self, broken: set[int]) -> None:
        super().__init__()
        self.broken, self.steps = broken, 0
        self.at_step: dict[int, Callable[[], object]] = {}

    def step(self) -> bool:
        self.steps += 1
        self.at_step.get(self.steps, bool)()
        if self.steps in self.broken:
            raise NetworkError("Broken.")
        return True


class Saving(Recording):
    """A service with two units of work for quiet moments, and the times of what it did."""

    def __init__(self) -> None:
        super().__init__()
        self.left = 2
        self.times: list[tuple[str, float]] = []

    def _note(self, what: str) -> None:
        super()._note(what)
        if what != "step":
            self.times.append((what, time.monotonic()))

    def work_when_quiet(self) -> bool:
        self._note("quiet")
        self.left -= 1
        return self.left > 0


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


def test_quiet_moments_begin_some_time_after_the_last_command_and_end_with_the_next(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("runtime.lanes.lane.QUIET_SECONDS", 0.3)
    service = Saving()
    lane = Lane("saving", lambda *_: service, lambda _event: None)
    thread = threading.Thread(target=lane.run)
    thread.start()
    for _ in range(5):
        lane.put(ListModels())
        time.sleep(0.1)
    while service.left:
        time.sleep(0.01)
    lane.put(UnloadModel("m"))
    lane.stop()
    thread.join(10)
    assert not thread.is_alive()
    done = [what for what, _ in service.times]
    first = done.index("quiet")
    assert first >= 2, "somebody had asked before"
    assert service.times[first][1] - service.times[first - 1][1] >= 0.3
    assert sorted(done) == sorted(["open", *["ListModels"] * 5, "quiet", "quiet", "UnloadModel", "close"])


def test_a_service_without_such_work_sleeps_until_a_command_comes(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("runtime.lanes.lane.QUIET_SECONDS", 0.01)
    service = Recording()
    lane = Lane("recording", lambda *_: service, lambda _event: None)
    thread = threading.Thread(target=lane.run)
    thread.start()
    time.sleep(0.2)
    lane.stop()
    thread.join(10)
    assert service.log == ["open", "step", "close"]


def test_a_fault_is_posted_and_the_lane_goes_on() -> None:
    def refuse(command: Command) -> None:
        if isinstance(command, ListModels):
            raise NetworkError("No network.", remedy="Connect.")

    service = Recording(on_handle=refuse)
    (event,) = run(service, ListModels(), UnloadModel("m"))
    assert isinstance(event, LaneFaulted)
    assert event.error.code == "download.network"
    assert "UnloadModel" in service.log


def test_a_command_that_ends_in_a_fault_is_answered_with_it_and_only_once() -> None:
    events: list[Event] = []
    error = NetworkError("No network.")
    ask = Generate("g", "c", "m", (), SamplingRequest(), 0)

    def refuse(command: Command) -> None:
        if command is ask or isinstance(command, FetchModel):
            raise error
        lane.gate.post(TextDelta("g", "What nobody can stop any more"))
        lane.gate.post(Failed("g", error.info))

    service = Recording(on_handle=refuse)
    lane = Lane("recording", lambda *_: service, events.append)
    for command in (ask, FetchModel("f", "m"), ListModels()):
        lane.put(command)
    lane.stop()
    lane.run()
    fault = LaneFaulted("recording", error.info)
    assert events == [fault, Failed("g", error.info), fault, Failed("f", error.info)]
    assert not lane.gate.busy


def test_what_waits_goes_on_after_a_step_that_failed_without_another_command() -> None:
    events: list[Event] = []
    service = Faulty({2, 3, 5, 6})
    lane = Lane("recording", lambda *_: service, events.append)
    lane.put(Generate("g", "c", "m", (), SamplingRequest(), 0))
    service.at_step[8] = lane.stop
    lane.run()
    assert service.steps == 8
    assert [type(event) for event in events] == [LaneFaulted] * 4


def test_a_service_whose_steps_all_fail_ends_and_everything_it_owes_is_answered() -> None:
    events: list[Event] = []
    service = Faulty(set(range(2, 100)))
    lane = Lane("recording", lambda *_: service, events.append)
    lane.put(LoadModel("m", "/m", LayoutRequest()))
    lane.put(Generate("g", "c", "m", (), SamplingRequest(), 0))
    lane.run()
    error = NetworkError("Broken.").info
    assert events[0] == Queued("g", 0, "loading")
    assert events[1:] == [*[LaneFaulted("recording", error)] * 3, ModelFailed("m", error), Failed("g", error)]
    assert service.log[-1] == "close"
    assert lane.ended.is_set()
    assert not lane.put(ListModels())


def test_an_idle_service_whose_steps_all_fail_waits_for_the_next_command() -> None:
    events: list[Event] = []
    service = Faulty({1, 2, 3, 4})
    lane = Lane("recording", lambda *_: service, events.append)
    service.at_step[3] = lambda: (lane.put(ListModels()), lane.stop())
    lane.run()
    assert service.steps == 3
    assert "ListModels" in service.log
    assert [type(event) for event in events] == [LaneFaulted] * 3


def test_a_service_that_cannot_open_ends_its_lane_and_says_why() -> None:
    service = Recording()

    def refuse() -> None:
        raise NetworkError("No network.")

    service.open = refuse  # type: ignore[method-assign]
    (event,) = run(service, ListModels())
    assert isinstance(event, LaneFaulted)
    assert service.log == ["close"]


def test_a_lane_without_a_service_answers_every_command_with_the_reason() -> None:
    service = Recording()

    def refuse() -> None:
        raise NetworkError("No network.")

    service.open = refuse  # type: ignore[method-assign]
    nothing = LayoutRequest()
    events = run(
        service,
        LoadModel("m", "/m", nothing),
        Generate("g", "c", "m", (), SamplingRequest(), 0),
        UnloadModel("m"),
        LoadSpeech("w", "/w", nothing),
        Transcribe("t", "/a.wav", None, False, 0),
        StartRecording("r", "Title", "/recordings"),
        StopRecording("s"),
        FetchModel("f", "m"),
        ListModels(),
    )
    error = NetworkError("No network.").info
    assert events == [
        Queued("g", 0, "loading"),
        Queued("t", 1, "loading"),
        LaneFaulted("recording", error),
        ModelFailed("m", error),
        Failed("g", error),
        ModelUnloaded("m"),
        ModelFailed("w", error),
        Failed("t", error),
        RecordingFailed("r", error),
        RecordingFailed("s", error),
        Failed("f", error),
    ]


def test_a_service_that_cannot_even_be_made_is_no_different() -> None:
    events: list[Event] = []

    def make(*_: object) -> Recording:
        raise NetworkError("No network.")

    lane = Lane("x", make, events.append)
    lane.put(FetchModel("f", "m"))
    lane.stop()
    lane.run()
    assert [type(event) for event in events] == [LaneFaulted, Failed]
    assert lane.ended.is_set()


def test_a_lane_waits_for_those_that_hold_what_it_needs() -> None:
    events: list[Event] = []
    former, stuck = (Lane(name, lambda *_: Recording(), events.append) for name in ("former", "stuck"))
    service = Recording()
    lane = Lane("next", lambda *_: service, events.append, after=(former, stuck))
    thread = threading.Thread(target=lane.run)
    thread.start()
    lane.stop()
    former.stop()
    former.run()
    assert not lane.ended.wait(0.3)
    stuck.give_up(DeviceStalledError("Stuck.").info)
    thread.join(10)
    assert service.log[0] == "open"


def test_a_load_that_was_let_go_still_holds_memory_until_its_thread_has_ended() -> None:
    events: list[Event] = []
    former = Lane("former", lambda *_: Recording(), events.append)
    former.put(LoadModel("m", "/m", LayoutRequest()))
    former.put(Generate("g", "c", "m", (), SamplingRequest(), 0))
    assert former.gate.loading
    error = NetworkError("Cancelled.", remedy="Load it again.").info
    former.let_go(error)
    said = [Queued("g", 0, "loading"), ModelUnloaded("m", cancelled=True), Failed("g", error)]
    assert events == said
    assert not former.call.wanted
    service = Recording()
    lane = Lane("next", lambda *_: service, events.append, after=(former,))
    lane.stop()
    thread = threading.Thread(target=lane.run)
    thread.start()
    assert not lane.ended.wait(0.3)
    former.run()  # only now does it find out
    thread.join(10)
    assert service.log[0] == "open"
    assert events == said


def test_work_goes_on_between_commands() -> None:
    service = Recording(work=3)
    run(service, ListModels())
    assert service.log.count("step") >= 1


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
