"""The lanes: order, faults, cancel marks, and the outbox's one wake-up a batch."""

from __future__ import annotations

import pickle
import threading
from collections.abc import Callable
from dataclasses import replace

import pytest

from runtime.errors import DeviceStalledError, NetworkError
from runtime.gate import Gate
from runtime.lane import CancelMarks, Lane
from runtime.layout import LayoutRequest
from runtime.messages import (
    Cancelled,
    Command,
    Event,
    Failed,
    FetchModel,
    Finished,
    Generate,
    LaneFaulted,
    ListModels,
    LoadModel,
    LoadSpeech,
    ModelFailed,
    ModelInfo,
    ModelLoaded,
    ModelUnloaded,
    Queued,
    RecordingFailed,
    StartRecording,
    TextDelta,
    Transcribe,
    UnloadModel,
)
from runtime.outbox import Outbox
from runtime.sampling_params import SamplingRequest


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
    assert events[1:] == [*[LaneFaulted("recording", error)] * 3, Failed("g", error), ModelFailed("m", error)]
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


def test_nothing_of_a_lane_that_was_given_up_gets_out() -> None:
    events: list[Event] = []
    gate = Gate(events.append)
    ask = Generate("g", "c", "m", (), SamplingRequest(), 0)
    assert gate.expect(ask)
    assert gate.expect(Generate("done", "c", "m", (), SamplingRequest(), 0))
    gate.post(Failed("done", NetworkError("x").info))
    gate.post(ModelLoaded(ModelInfo("m", "M", "chat", "", "", "", True, None, 1, 1)))
    del events[:]
    error = DeviceStalledError("Stuck.").info
    assert gate.shut(error) == ["g"]
    assert events == [Failed("g", error), ModelFailed("m", error)]
    gate.post(TextDelta("g", "late"))
    assert gate.shut(error) == []
    assert not gate.expect(ask)
    assert len(events) == 2


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
    said = [Queued("g", 0, "loading"), Failed("g", error), ModelUnloaded("m", cancelled=True)]
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


def test_a_load_comes_after_the_requests_before_it() -> None:
    gate = Gate(lambda _: None)
    gate.expect(Transcribe("t", "/a.wav", None, False, 0))
    gate.expect(LoadSpeech("w", "/w", LayoutRequest()))
    assert gate.busy
    assert not gate.loading
    gate.post(Failed("t", NetworkError("x", remedy="y").info))
    assert gate.loading
    gate.post(ModelFailed("w", NetworkError("x", remedy="y").info))
    assert not gate.loading
    assert not gate.busy


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


def test_what_waits_for_a_load_is_withdrawn_once_and_the_service_says_no_more_of_it() -> None:
    posted: list[Event] = []
    gate = Gate(posted.append)
    first, second = (Transcribe(name, "x.wav", None, word_times=False, submitted_ns=1) for name in "ab")
    gate.expect(first)
    gate.expect(LoadSpeech("s", "", LayoutRequest()))
    gate.expect(second)
    assert not gate.withdraw("b"), "the first one is being heard; the service answers soon"
    gate.post(Cancelled("a"))
    assert gate.withdraw("b")
    assert not gate.withdraw("b")
    assert not gate.withdraw("nobody")
    for late in (Queued("b", 0), Cancelled("b")):
        gate.post(late)
    assert posted == [Queued("b", 1, "loading"), Cancelled("a"), Cancelled("b")]
    gate.expect(second)  # asked for once more
    gate.post(Queued("b", 0))
    assert posted[-1] == Queued("b", 0)


def test_what_is_asked_for_during_a_load_learns_that_it_waits_for_that() -> None:
    posted: list[Event] = []
    gate = Gate(posted.append)
    ask = Generate("r", "c", "m", (), SamplingRequest(), 1)
    gate.expect(ask)
    assert posted == []
    gate.post(Failed("r", NetworkError("x").info))
    gate.expect(LoadModel("m", "", LayoutRequest()))
    for name in ("a", "b"):
        gate.expect(replace(ask, request_id=name))
    assert posted[1:] == [Queued("a", 0, "loading"), Queued("b", 1, "loading")]
    gate.post(ModelLoaded(ModelInfo("m", "M", "chat", "", "", "", True, None, 1, 1)))
    gate.expect(replace(ask, request_id="c"))
    assert len(posted) == 4


def test_what_was_withdrawn_is_not_answered_again_when_the_load_is_given_up() -> None:
    posted: list[Event] = []
    gate = Gate(posted.append)
    gate.expect(LoadModel("m", "", LayoutRequest()))
    gate.expect(Generate("r", "c", "m", (), SamplingRequest(), 1))
    assert gate.withdraw("r")
    assert gate.shut(DeviceStalledError("It hangs.", remedy="Wait.").info) == []
    assert [type(event) for event in posted] == [Queued, Finished, ModelFailed]
