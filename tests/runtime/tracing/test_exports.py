"""Every export passes the real Perfetto engine's gate, and holds exactly what was recorded."""

from __future__ import annotations

import gzip
import math
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st

from runtime.errors import DiskFullError, ReadOnlyError
from runtime.tracing.files import written_whole
from runtime.tracing.model import Trace
from runtime.tracing.recorder import HostEvent
from runtime.tracing.write_chrome import write_chrome
from runtime.tracing.write_pftrace import write_pftrace
from tests.perfetto import PROBLEMS, assert_accepted, perfetto_query
from tests.runtime.tracing.recordings import (
    ENGINE,
    GUI,
    SPEECH,
    START,
    chat_events,
    make_trace,
    names_of,
    request_events,
    span,
    write_device_file,
)

FORMATS = (".pftrace", ".json", ".json.gz")


def write(trace: Trace, path: Path) -> Path:
    writer: Callable[[Trace, Path], None] = write_pftrace if path.suffix == ".pftrace" else write_chrome
    writer(trace, path)
    return path


@pytest.fixture
def full(tmp_path: Path) -> Trace:
    """Two overlapping answers, a transcription, the device's events with a failed load, a counter."""
    device = write_device_file(
        tmp_path / "npu.json",
        [
            ("B", "create model", ENGINE, 100),
            ("B", "load mxq", ENGINE, 101),
            ("E", "create model", ENGINE, 105),
            ("B", "infer", ENGINE, 1000),
            ("B", "run npu", ENGINE, 1001),
            ("B", "run npu", SPEECH, 1002),
            ("E", "run npu", ENGINE, 1700),
            ("E", "infer", ENGINE, 1701),
            ("E", "run npu", SPEECH, 1800),
        ],
    )
    speech = [
        *request_events("s1", "회의 😀.wav", "transcribe", 0, 9_000_000),
        span("submit", 10, 5, GUI, "s1"),
        span("transcribe window", 500, 8_000_000, SPEECH, "s1", seconds=29.5),
    ]
    return make_trace([*chat_events("1"), *chat_events("2", at=2_500_000), *speech], device)


@pytest.mark.parametrize("suffix", FORMATS)
def test_the_engine_accepts_every_event_arrow_and_counter(full: Trace, tmp_path: Path, suffix: str) -> None:
    path = write(full, tmp_path / f"full{suffix}")
    assert_accepted(path, names_of(full), flows=3)
    (values,) = perfetto_query(path, "select ts, value from counter order by ts, value")
    recorded = sorted(sample for counter in full.counters for sample in counter.samples)
    assert [(row["ts"], row["value"]) for row in values] == recorded


@pytest.mark.parametrize("suffix", FORMATS)
def test_times_are_exact_to_the_nanosecond(full: Trace, tmp_path: Path, suffix: str) -> None:
    path = write(full, tmp_path / f"full{suffix}")
    (rows,) = perfetto_query(path, "select name, ts, dur from slice where name != 'recording'")
    found = Counter((row["name"], row["ts"], row["dur"]) for row in rows)
    assert found == Counter(
        (made.name, made.start_ns, made.duration_ns) for track in full.tracks for made in track.spans
    )


@pytest.mark.parametrize("suffix", FORMATS)
def test_arrows_go_from_each_submit_to_its_own_work(full: Trace, tmp_path: Path, suffix: str) -> None:
    path = write(full, tmp_path / f"full{suffix}")
    key = "debug.request" if suffix == ".pftrace" else "args.request"
    (rows,) = perfetto_query(
        path,
        "select a.name as source, b.name as target,"
        f" extract_arg(a.arg_set_id, '{key}') as sent, extract_arg(b.arg_set_id, '{key}') as done"
        " from flow join slice a on a.id = flow.slice_out join slice b on b.id = flow.slice_in order by sent",
    )
    assert [(row["source"], row["target"], row["sent"], row["done"]) for row in rows] == [
        ("submit", "template", "1", "1"),
        ("submit", "template", "2", "2"),
        ("submit", "transcribe window", "s1", "s1"),
    ]


@pytest.mark.parametrize("suffix", FORMATS)
def test_device_events_have_a_process_of_their_own_that_says_simulated(
    full: Trace, tmp_path: Path, suffix: str
) -> None:
    path = write(full, tmp_path / f"full{suffix}")
    (rows,) = perfetto_query(path, "select name from process where name is not null order by name")
    assert [row["name"] for row in rows] == ["MBLT Desktop", "qbruntime · Simulated ARIES (CPU)"]


@pytest.mark.parametrize("suffix", FORMATS)
def test_an_empty_recording_still_opens(tmp_path: Path, suffix: str) -> None:
    trace = make_trace([])
    assert_accepted(write(trace, tmp_path / f"empty{suffix}"), Counter({"recording": 1}), flows=0)


@pytest.mark.parametrize("suffix", FORMATS)
def test_spans_of_one_thread_that_overlap_are_all_kept(tmp_path: Path, suffix: str) -> None:
    trace = make_trace([span("a", 0, 100), span("b", 50, 100), span("c", 60, 10), span("d", 149, 5)])
    assert_accepted(write(trace, tmp_path / f"overlap{suffix}"), names_of(trace), flows=0)
    assert len(trace.tracks) == 2


def test_text_goes_out_as_it_is(full: Trace, tmp_path: Path) -> None:
    text = write(full, tmp_path / "full.json").read_text(encoding="utf-8")
    assert "회의 😀.wav" in text
    assert "\\u" not in text
    assert not text.startswith("\ufeff")


def test_the_same_recording_gives_the_same_bytes(full: Trace, tmp_path: Path) -> None:
    first = write(full, tmp_path / "a.json.gz").read_bytes()
    assert write(full, tmp_path / "b.json.gz").read_bytes() == first
    assert gzip.decompress(first) == write(full, tmp_path / "a.json").read_bytes()


names = st.text(
    alphabet=st.one_of(st.characters(), st.sampled_from('"\\\n한😀\ud800')), min_size=1, max_size=12
).filter(lambda text: "\0" not in text and text.strip() != "" and text != "recording")
times = st.integers(0, 10**9)
requests = st.one_of(st.none(), st.sampled_from(("r1", "r2", "r3")))
arguments = st.dictionaries(
    st.sampled_from(("tokens", "text", "x")),
    st.one_of(
        st.integers(-(2**63), 2**63 - 1),
        st.floats(allow_nan=False, allow_infinity=False),
        st.booleans(),
        names,
    ),
    max_size=2,
)


@st.composite
def host_events(draw: st.DrawFn) -> list[HostEvent]:
    """Anything threads may record: spans that nest, touch, overlap or are empty, in any order."""
    pool = draw(st.lists(names, min_size=1, max_size=4))
    events: list[HostEvent] = []
    for _ in range(draw(st.integers(0, 25))):
        name = draw(st.sampled_from([*pool, "submit", "queue"]))
        made = span(name, draw(times), draw(times), draw(st.sampled_from((GUI, ENGINE))), draw(requests))
        events.append((*made[:6], draw(arguments)))
    for request in ("r1", "r2"):
        if draw(st.booleans()):
            events += request_events(request, draw(names), "chat", draw(times), draw(times))
    for _ in range(draw(st.integers(0, 4))):
        value = draw(st.floats(-1e300, 1e300))
        events.append(("counter", draw(st.sampled_from(pool)), START + draw(times), value, GUI, None, {}))
    return events


def shown(text: str, suffix: str) -> str:
    """How a name must come out: on one line, without what UTF-8 or a viewer cannot hold."""
    written = "".join("?" if "\ud800" <= char <= "\udfff" else " " if char < " " else char for char in text)
    words = " ".join(written.split()) or "(no name)"
    # Perfetto 52 shows every backslash of a JSON file twice, so another sign stands for it.
    return words if suffix == ".pftrace" else words.replace("\\", "\N{SET MINUS}")


# Every example starts an engine, so a failing one is shown as it was found.
@settings(
    max_examples=3,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
    phases=[Phase.explicit, Phase.reuse, Phase.generate],
)
@given(events=host_events())
@pytest.mark.parametrize("suffix", FORMATS)
def test_whatever_is_recorded_the_engine_accepts(
    tmp_path: Path, suffix: str, events: list[HostEvent]
) -> None:
    trace = make_trace(events)
    wanted = Counter({shown(name, suffix): 0 for name in names_of(trace)})
    for name, count in names_of(trace).items():
        wanted[shown(name, suffix)] += count
    assert_accepted(write(trace, tmp_path / f"any{suffix}"), wanted, flows=len(trace.flows))


@pytest.mark.slow
@pytest.mark.parametrize(("suffix", "count"), [(".pftrace", 300_000), (".json.gz", 60_000)])
def test_volume(tmp_path: Path, suffix: str, count: int) -> None:
    events = [
        span(f"step {number % 7}", number * 1000, 900, ENGINE, "r1", token=number) for number in range(count)
    ]
    path = write(make_trace(events), tmp_path / f"volume{suffix}")
    problems, found = perfetto_query(
        path, PROBLEMS, "select count(*) as n from slice where name like 'step %'"
    )
    assert problems == []
    assert found == [{"n": count}]


@pytest.mark.parametrize("suffix", FORMATS)
def test_a_write_that_fails_leaves_the_old_file(
    full: Trace, tmp_path: Path, suffix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / f"kept{suffix}"
    path.write_bytes(b"old")

    def full_disk(_descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("os.fsync", full_disk)
    with pytest.raises(DiskFullError, match="is full"):
        write(full, path)
    assert path.read_bytes() == b"old"
    assert [found.name for found in tmp_path.iterdir() if found.name.startswith(".")] == []


def test_a_folder_that_cannot_be_written_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_args: Any, **_options: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", refuse)
    with pytest.raises(ReadOnlyError, match=r"out\.json"), written_whole(tmp_path / "out.json"):
        raise AssertionError("never reached")


def test_a_stopped_write_leaves_nothing(full: Trace, tmp_path: Path) -> None:
    class StopError(Exception):
        pass

    def stop() -> None:
        raise StopError

    with pytest.raises(StopError):
        write_chrome(full, tmp_path / "out.json", stop)
    assert list(tmp_path.glob("*out*")) == []


def test_no_number_that_json_cannot_hold_is_written(tmp_path: Path) -> None:
    trace = make_trace([span("a", 0, 5, x=math.nan)])
    with pytest.raises(ValueError, match="JSON"):
        write_chrome(trace, tmp_path / "out.json")
