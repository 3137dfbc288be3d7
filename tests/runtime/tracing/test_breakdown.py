"""Where each token's time went: by hand, on two cards, and against the real Perfetto engine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime import simulator
from runtime.device.active import activate
from runtime.messages import RecordingFinished
from runtime.simulator.build import build_artifact
from runtime.simulator.device import BOARDS, Fleet, NativeAccelerator
from runtime.tracing.analyse import Step, breakdown, requests_with_steps
from runtime.tracing.device_time import Stretches
from runtime.tracing.read import read_trace
from runtime.tracing.view import TraceView, make_view
from tests.perfetto import perfetto_query
from tests.runtime.families.numbers import K, Lane
from tests.runtime.tracing import recorder_lane
from tests.runtime.tracing.recordings import (
    ENGINE,
    SPEECH,
    make_trace,
    request_events,
    span,
    write_device_file,
)
from tests.simulator.checkpoints import make_checkpoint

MS = 1_000_000
CARD_0, CARD_1 = 901, 902
"""Worker threads that drive a card each."""


def test_a_tokens_time_by_phase(tmp_path: Path) -> None:
    events = request_events("1", "Answer", "chat", 0, 100 * MS)
    device = []
    for token in range(3):
        begin = 10 * MS * (token + 1)
        extra = 3 * MS if token == 1 else 0
        events += [
            span("decode step", begin, 6 * MS + extra, ENGINE, "1", token=token),
            span("sample", begin + 6 * MS + extra, MS // 2, ENGINE, "1"),
        ]
        micros = begin // 1000
        device += [
            ("B", "infer", ENGINE, micros + 100),
            ("B", "copy to npu", ENGINE, micros + 100),
            ("E", "copy to npu", ENGINE, micros + 300),
            ("B", "run npu", ENGINE, micros + 300),
            ("E", "run npu", ENGINE, micros + 4300 + extra // 1000),
            ("E", "infer", ENGINE, micros + 4400 + extra // 1000),
        ]
    view = make_view(make_trace(events, write_device_file(tmp_path / "npu.json", device)))
    assert requests_with_steps(view) == [0]
    found = breakdown(view, 0)
    assert found is not None
    assert [step.total for step in found.steps] == [6.5 * MS, 9.5 * MS, 6.5 * MS]
    assert found.steps[0].phases == {"run": 4 * MS, "move": MS // 5, "sample": MS // 2, "host": 1.8 * MS}
    assert found.steps[1].phases["run"] == 7 * MS
    assert found.median("run") == 4 * MS
    assert found.share("run") == pytest.approx(15 / 22.5)
    assert all(sum(step.phases.values()) == step.total for step in found.steps)


def test_a_request_without_steps_has_no_breakdown() -> None:
    view = make_view(make_trace([span("template", 0, 5, ENGINE, "1")]))
    assert requests_with_steps(view) == []
    assert breakdown(view, 0) is None


def test_two_requests_taking_turns_keep_their_own_steps() -> None:
    events = [
        span("decode step", at * MS, MS // 2, ENGINE, request, token=at)
        for at, request in enumerate(("1", "2", "1", "2"))
    ]
    view = make_view(make_trace(events))
    assert requests_with_steps(view) == [0, 1]
    for request in (0, 1):
        found = breakdown(view, request)
        assert found is not None
        assert [step.total for step in found.steps] == [MS // 2, MS // 2]


# -- several cards ---------------------------------------------------------------------------------


def on_card(card: int, at: int, copy: int, run: int) -> list[tuple[str, str, int, int]]:
    """A call of the device: copying, then running; times in µs."""
    return [
        ("B", "infer", card, at),
        ("B", "copy to npu", card, at),
        ("E", "copy to npu", card, at + copy),
        ("B", "run npu", card, at + copy),
        ("E", "run npu", card, at + copy + run),
        ("E", "infer", card, at + copy + run),
    ]


def steps_of(view: TraceView, request: str) -> tuple[Step, ...]:
    number = [known.request_id for known in view.requests].index(request)
    found = breakdown(view, number)
    assert found is not None
    return found.steps


def test_what_two_cards_do_for_a_shared_step_counts_once_for_each_of_its_requests(tmp_path: Path) -> None:
    events = [*request_events("1", "One", "chat", 0, 9 * MS), *request_events("2", "Two", "chat", 0, 9 * MS)]
    events += [
        span("prefill chunk", 0, MS, ENGINE, "2"),
        span("sample", MS, MS // 10, ENGINE, "2"),
        span("decode step", 2 * MS, 5 * MS, ENGINE, None, rows=2),
        span("sample", 7 * MS, MS // 2, ENGINE, "1"),
        span("sample", 7_500_000, MS // 4, ENGINE, "2"),
    ]
    device = [*on_card(CARD_0, 2500, 500, 2000), *on_card(CARD_1, 2700, 500, 3000)]
    view = make_view(make_trace(events, write_device_file(tmp_path / "npu.json", device)))
    assert requests_with_steps(view) == [0, 1]
    (one,), (two,) = steps_of(view, "1"), steps_of(view, "2")
    # The first card runs from 3.0 to 5.0 ms, the second from 3.2 to 6.2; before 3.0 both only move data.
    assert one.phases == {"run": 3.2 * MS, "move": MS // 2, "sample": MS // 2, "host": 1.3 * MS}
    assert two.phases == {"run": 3.2 * MS, "move": MS // 2, "sample": 0.75 * MS, "host": 1.3 * MS}
    assert (one.total, two.total) == (5.5 * MS, 5.75 * MS)


def test_a_worker_belongs_to_the_lane_whose_calls_hold_all_it_does(tmp_path: Path) -> None:
    """Another lane computes at the same time, on its own thread and card."""
    events, device = [], []
    for token in range(4):
        begin = token * 10 * MS
        events.append(span("decode step", begin, 6 * MS, ENGINE, "chat", token=token))
        device += on_card(CARD_0, begin // 1000 + 1000, 100, 3000)
    for window in range(2):
        begin = window * 18 * MS
        events.append(span("transcribe window", begin, 15 * MS, SPEECH, "speech"))
        device += on_card(SPEECH, begin // 1000 + 500, 100, 9000)
    view = make_view(make_trace(events, write_device_file(tmp_path / "npu.json", device)))
    assert [step.phases["run"] for step in steps_of(view, "chat")] == [3 * MS] * 4
    assert [step.phases["run"] for step in steps_of(view, "speech")] == [9 * MS] * 2


times = st.lists(st.tuples(st.integers(0, 60), st.integers(0, 20)), max_size=12)


@given(times, st.integers(0, 90), st.integers(0, 90))
def test_stretches_agree_with_a_plain_reference(raw: list[tuple[int, int]], low: int, high: int) -> None:
    low, high = sorted((low, high))
    starts = np.array([start for start, _length in raw], dtype=np.int64)
    ends = starts + np.array([length for _start, length in raw], dtype=np.int64)
    stretches = Stretches(starts, ends)
    covered = {moment for start, length in raw for moment in range(start, start + length)}
    assert stretches.total == len(covered)
    (inside,) = stretches.within(np.array([low]), np.array([high]))
    assert inside == len(covered & set(range(low, high)))


SLICES = "select ts, dur, track_id from slice where name = '{name}' order by ts"


def union(pairs: list[tuple[int, int]]) -> int:
    """The length that intervals cover together."""
    total, reached = 0, 0
    for begin, end in sorted(pairs):
        total += max(0, end - max(begin, reached))
        reached = max(reached, end)
    return total


def test_a_model_on_two_cards_runs_as_long_as_perfetto_finds(
    lane: recorder_lane.Lane, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    activate("simulated")
    monkeypatch.setattr(NativeAccelerator, "fleet", Fleet(BOARDS["aries-rb"], 2, None))
    checkpoint = make_checkpoint(tmp_path / "checkpoint", "llama")
    build_artifact(checkpoint, tmp_path / "artifact", max_batch_size=K, context_length=96, prefill_chunk=16)
    model = Lane(tmp_path / "artifact", dev_no=(0, 1), max_batch_size=2 * K)
    assert all(usage.memory_used for usage in simulator.usage()), "each board has a copy"
    lane.start()
    for number in range(2 * K):
        model.ask(f"r{number}", f"r{number}", [number + 1, 30, 31], count=4)
    model.run()
    lane.stop()
    model.engine.close()
    (info,) = [event.info for event in lane.events if isinstance(event, RecordingFinished)]
    trace = read_trace(Path(info.path))
    runs, steps = perfetto_query(
        Path(info.path), SLICES.format(name="run npu"), SLICES.format(name="decode step")
    )
    expected, drivers = {}, set()
    for step in steps:
        low, high = int(step["ts"]), int(step["ts"]) + int(step["dur"])
        inside = [run for run in runs if low <= int(run["ts"]) < high]
        drivers.update(run["track_id"] for run in inside)
        expected[low] = union([(int(run["ts"]), int(run["ts"]) + int(run["dur"])) for run in inside])
    assert drivers, "worker threads drive the cards; one may take both when the other card was quick"
    view = make_view(trace)
    for number in range(2 * K):
        found = steps_of(view, f"r{number}")
        assert sum(one.phases["run"] for one in found) > 0
        assert len(found) == 3, "four tokens, the first of them from the prompt"
        for one in found:
            assert one.phases["run"] == expected[trace.metadata.start_ns + one.start]
            assert sum(one.phases.values()) == one.total
