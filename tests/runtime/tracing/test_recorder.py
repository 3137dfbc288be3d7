"""The recorder takes events from any thread, within limits, and costs nothing to speak of when idle."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from typing import Any

import pytest

from runtime.errors import TraceError
from runtime.tracing import recorder as tracing_recorder
from runtime.tracing.recorder import (
    COUNTER,
    NO_SPAN,
    REQUEST_BEGIN,
    REQUEST_END,
    SPAN,
    TRUNCATED,
    HostEvent,
    Recorder,
    Window,
)


@pytest.fixture
def recorder() -> Iterator[Recorder]:
    made = Recorder()
    yield made
    made.stop()


@pytest.fixture
def window(recorder: Recorder) -> Window:
    return recorder.start(max_events=1000, max_seconds=60)


def test_nothing_is_kept_while_nobody_records(recorder: Recorder) -> None:
    assert recorder.span("decode step", request="r", token=1) is NO_SPAN
    with recorder.span("sample") as span:
        span.note(tokens=3)
    recorder.complete("queue", 1, 2)
    recorder.counter("queue length", 3)
    recorder.instant("mark")
    assert recorder.event_count == 0
    window = recorder.start(max_events=10, max_seconds=1)
    assert window.drain() == []


def test_a_span_holds_its_times_thread_request_and_arguments(recorder: Recorder, window: Window) -> None:
    before = time.perf_counter_ns()
    with recorder.span("prefill chunk", request="r1", tokens=31) as span:
        span.note(cached=4)
    after = time.perf_counter_ns()
    ((kind, name, start, length, thread, request, args),) = window.drain()
    assert (kind, name, request) == (SPAN, "prefill chunk", "r1")
    assert before <= start <= start + length <= after
    assert thread == threading.get_native_id()
    assert args == {"tokens": 31, "cached": 4}


def test_an_exception_is_noted_and_goes_on(recorder: Recorder, window: Window) -> None:
    with pytest.raises(KeyError), recorder.span("template"):
        raise KeyError("secret text of a prompt")
    (event,) = window.drain()
    assert event[6] == {"error": "KeyError"}


def test_an_argument_may_be_called_name(recorder: Recorder, window: Window) -> None:
    with recorder.span("load model", name="a"):
        pass
    assert window.drain()[0][6] == {"name": "a"}


@pytest.mark.parametrize("value", [float("nan"), float("inf"), float("-inf")])
def test_a_counter_refuses_what_is_no_number(recorder: Recorder, window: Window, value: float) -> None:
    recorder.counter("temperature", value)
    recorder.counter("temperature", 41.5)
    ((kind, name, _time, kept, *_rest),) = window.drain()
    assert (kind, name, kept) == (COUNTER, "temperature", 41.5)
    assert window.refused == 1


def test_the_limit_of_events_is_exact_and_said(recorder: Recorder) -> None:
    window = recorder.start(max_events=3, max_seconds=60)
    for _ in range(5):
        recorder.instant("tick")
    assert window.limit == "events"
    assert len(window.drain()) == 3
    recorder.instant("late")
    assert window.drain() == []


def test_the_recorder_works_again_after_a_limit(recorder: Recorder) -> None:
    recorder.start(max_events=1, max_seconds=60)
    recorder.instant("a")
    recorder.instant("b")
    recorder.stop()
    window = recorder.start(max_events=10, max_seconds=60)
    recorder.instant("c")
    assert [event[1] for event in window.drain()] == ["c"]
    assert window.limit is None


def test_nothing_is_taken_after_the_time_limit(recorder: Recorder) -> None:
    window = recorder.start(max_events=10, max_seconds=1e-9)
    time.sleep(0.001)
    recorder.instant("late")
    assert window.limit == "seconds"
    assert window.drain() == []


def test_a_second_start_is_refused_and_the_first_goes_on(recorder: Recorder, window: Window) -> None:
    with pytest.raises(TraceError, match="already running"):
        recorder.start(max_events=1, max_seconds=1)
    recorder.instant("still here")
    assert [event[1] for event in window.drain()] == ["still here"]


def test_what_is_open_at_the_stop_ends_there_and_says_so(recorder: Recorder, window: Window) -> None:
    recorder.begin_request("r1", "Answer 1", "chat")
    with recorder.span("decode step", request="r1"):
        stop_ns = recorder.stop()
    begin, step, end = window.drain()
    assert begin[0] == REQUEST_BEGIN
    assert step[2] + step[3] == stop_ns
    assert step[6] == {TRUNCATED: True}
    assert (end[0], end[5], end[6]) == (REQUEST_END, "r1", {TRUNCATED: True})


def test_a_request_that_runs_already_is_recorded_from_the_start(recorder: Recorder) -> None:
    recorder.begin_request("r1", "Answer 1", "chat")
    recorder.begin_request("r2", "Answer 2", "chat")
    recorder.end_request("r2")
    window = recorder.start(max_events=10, max_seconds=60)
    recorder.end_request("r1")
    begin, end = window.drain()
    assert (begin[0], begin[1], begin[2]) == (REQUEST_BEGIN, "Answer 1", window.start_ns)
    assert begin[6][TRUNCATED] is True
    assert (end[0], end[5]) == (REQUEST_END, "r1")


def test_a_request_that_ends_while_the_recording_begins_is_not_left_open_in_it(
    recorder: Recorder, monkeypatch: pytest.MonkeyPatch
) -> None:
    recorder.begin_request("r1", "Answer 1", "chat")
    ends = threading.Thread(target=recorder.end_request, args=("r1",))
    written = tracing_recorder._begin

    def slowly(*fields: Any) -> HostEvent:
        ends.start()
        ends.join(0.2)  # as long as it takes, unless it has to wait for the beginning
        return written(*fields)

    monkeypatch.setattr(tracing_recorder, "_begin", slowly)
    window = recorder.start(max_events=10, max_seconds=60)
    ends.join()
    recorder.stop()
    assert [event[0] for event in window.drain()] == [REQUEST_BEGIN, REQUEST_END]


def test_the_first_name_of_a_request_counts_and_ending_twice_is_harmless(
    recorder: Recorder, window: Window
) -> None:
    recorder.begin_request("r1", "Answer 1", "chat")
    recorder.begin_request("r1", "7f3a", "chat")
    recorder.end_request("r1")
    recorder.end_request("r1")
    recorder.end_request("never begun")
    assert [(event[0], event[1]) for event in window.drain()] == [
        (REQUEST_BEGIN, "Answer 1"),
        (REQUEST_END, "Answer 1"),
    ]


def test_a_span_given_afterwards_is_cut_at_the_recordings_start(recorder: Recorder, window: Window) -> None:
    recorder.complete("queue", window.start_ns - 500, window.start_ns + 100, request="r")
    recorder.complete("before", window.start_ns - 500, window.start_ns - 100)
    recorder.complete("backwards", window.start_ns + 500, window.start_ns + 100)
    ((_, name, start, length, *_rest, args),) = window.drain()
    assert (name, start, length, args) == ("queue", window.start_ns, 100, {TRUNCATED: True})


def test_threads_keep_their_own_ids_and_names(recorder: Recorder, window: Window) -> None:
    def work() -> None:
        recorder.name_thread("Worker")
        for _ in range(50):
            with recorder.span("step"):
                pass
        assert recorder.thread_names()[threading.get_native_id()] == "Worker"

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    natives = {thread.native_id for thread in threads}
    for thread in threads:
        thread.join()
    events = window.drain()
    assert len(events) == 200
    assert {event[4] for event in events} == natives


def test_draining_while_others_write_loses_nothing(recorder: Recorder) -> None:
    window = recorder.start(max_events=100_000, max_seconds=60)
    done = threading.Event()

    def work() -> None:
        for number in range(5000):
            recorder.instant("tick", number=number)

    threads = [threading.Thread(target=work) for _ in range(3)]
    taken = []

    def drain() -> None:
        while not done.is_set():
            taken.extend(window.drain())

    drainer = threading.Thread(target=drain)
    for thread in (*threads, drainer):
        thread.start()
    for thread in threads:
        thread.join()
    done.set()
    drainer.join()
    taken.extend(window.drain())
    assert len(taken) == 15_000
    assert window.count == 15_000
