"""Recordings for the tests: made from host events and device files, as the recorder would."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from runtime.tracing.about import ABOUT
from runtime.tracing.journal import Journal
from runtime.tracing.merge import merge
from runtime.tracing.model import ClockReading, Trace
from runtime.tracing.recorder import HostEvent

START = 5_000_000_000_000
GUI, ENGINE, SPEECH = 100, 200, 300
THREADS = {GUI: "Window", ENGINE: "Chat engine", SPEECH: "Speech engine"}


def span(
    name: str, at: int, length: int, thread: int = ENGINE, request: str | None = None, **args: Any
) -> HostEvent:
    """A host span; `at` in ns from the recording's start."""
    return ("span", name, START + at, length, thread, request, args)


def request_events(request: str, title: str, kind: str, at: int, length: int) -> list[HostEvent]:
    """The begin and the end of a request's track."""
    return [
        ("begin", title, START + at, 0, GUI, request, {"kind": kind}),
        ("end", title, START + at + length, 0, ENGINE, request, {}),
    ]


def chat_events(request: str, at: int = 0, tokens: int = 5) -> list[HostEvent]:
    """What one short answer leaves behind."""
    events = request_events(request, f"Answer {request}", "chat", at, 1_000_000 + tokens * 1_000_000)
    events += [
        span("submit", at + 100, 20_000, GUI, request),
        span("queue", at + 100, 300_000, ENGINE, request),
        span("template", at + 310_000, 50_000, ENGINE, request),
        span("tokenise", at + 370_000, 50_000, ENGINE, request),
        span("prefill chunk", at + 430_000, 500_000, ENGINE, request, start=0, tokens=31),
    ]
    for token in range(tokens):
        begin = at + 1_000_000 + token * 1_000_000
        events += [
            span("decode step", begin, 800_000, ENGINE, request, token=token),
            span("sample", begin + 800_000, 100_000, ENGINE, request),
            span("detokenise", begin + 900_000, 10_000, ENGINE, request),
            span("paint", begin + 905_000, 400_000, GUI),
            ("counter", "tokens", START + begin, token + 0.5, ENGINE, None, {}),
        ]
    return events


def make_trace(events: Iterable[HostEvent], device_file: Path | None = None, **changes: Any) -> Trace:
    """A merged recording of these events."""
    events = list(events)
    device = (
        {"title": "Simulated ARIES (CPU)", "simulated": True, "recorded": True, "thread": 1, "brackets": []}
        if device_file is not None
        else {}
    )
    values = {
        "recording_id": "rec",
        "title": "A test",
        "started_at": 1_700_000_000.0,
        "start_ns": START,
        "versions": {"app": "1"},
        "events": events,
        "threads": THREADS,
        "clocks": [ClockReading(START, START + 7, 1_700_000_000_000_000_000)],
        "device": device,
        "stop_ns": START + 60_000_000_000,
        **changes,
    }
    return merge(Journal(**values), device_file or Path("no-device-file"))


def write_device_file(
    path: Path, events: Iterable[tuple[str, str, int, int]], *, closed: bool = True
) -> Path:
    """A file as qbruntime writes it; events are (phase, name, thread, µs from the recording's start)."""
    lines = [
        json.dumps(
            {"name": name, "cat": "", "ph": phase, "pid": 7, "tid": tid, "ts": START // 1000 + at},
            separators=(",", ":"),
        )
        for phase, name, tid, at in events
    ]
    path.write_text("[\n" + ",\n".join(lines) + ("\n]\n" if closed else ""), encoding="utf-8")
    return path


def names_of(trace: Trace) -> Counter[str]:
    """How often each name must be found in an export of `trace`."""
    names = Counter(found.name for track in trace.tracks for found in track.spans)
    names[ABOUT] += 1
    return names
