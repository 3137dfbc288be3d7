"""The gate a recording passes before it is called checked: read back, it holds what was recorded, whole."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass
from pathlib import Path

from runtime.tracing.files import Checkpoint
from runtime.tracing.model import Metadata, Trace, nest
from runtime.tracing.read import read_trace


@dataclass(frozen=True, slots=True)
class CheckReport:
    """What a file holds and what is wrong with it; `problems` is empty for a sound one."""

    metadata: Metadata
    spans: int
    counter_values: int
    flows: int
    names: dict[str, int]
    """How many spans there are of each name."""
    problems: tuple[str, ...]


def check_file(path: Path, checkpoint: Checkpoint = lambda: None) -> CheckReport:
    """Read `path` and check it.

    Raises:
        TraceError: it cannot be read at all.
        StorageError: the file cannot be opened.
    """
    return check_trace(read_trace(path, checkpoint))


def check_trace(trace: Trace) -> CheckReport:
    """Check a trace that was read from a file."""
    names = Counter(span.name for track in trace.tracks for span in track.spans)
    values = sum(len(counter.samples) for counter in trace.counters)
    device = sum(len(track.spans) for track in trace.tracks if track.kind == "device")
    problems = list(trace.damage)
    told = trace.metadata
    if (found := names.total() - device + values) != told.host_events:
        problems.append(f"{told.host_events} host events were recorded, but {found} are in the file.")
    if device != told.device_events:
        problems.append(f"{told.device_events} device events were recorded, but {device} are in the file.")
    problems.extend(_track_problems(trace))
    problems.extend(_flow_problems(trace))
    if not all(math.isfinite(value) for counter in trace.counters for _time, value in counter.samples):
        problems.append("A counter holds a value that is not a number.")
    return CheckReport(told, names.total(), values, len(trace.flows), dict(names), tuple(problems))


def _track_problems(trace: Trace) -> list[str]:
    problems = []
    for track in trace.tracks:
        if any(span.duration_ns < 0 for span in track.spans):
            problems.append(f"A span on “{track.title}” ends before it begins.")
        if track.spans and len(nest(track.spans)) > 1:
            problems.append(f"Spans on “{track.title}” overlap without nesting.")
    return problems


def _flow_problems(trace: Trace) -> list[str]:
    backwards = sum(
        1 for flow in trace.flows if trace.span_at(flow.target).start_ns < trace.span_at(flow.source).start_ns
    )
    return [f"{backwards} arrows point back in time."] if backwards else []
