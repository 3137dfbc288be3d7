"""How the tracing pane says times, counts and facts about a recording."""

from __future__ import annotations

import re

from runtime.messages import RecordingInfo
from runtime.tracing.model import Metadata

_UNITS = ((1e9, "s"), (1e6, "ms"), (1e3, "µs"))


def duration(ns: float) -> str:
    """A length of time with three significant digits at most, e.g. "69.7 ms"."""
    for size, unit in _UNITS:
        if abs(ns) >= size * 0.9995:
            value = ns / size
            digits = 2 if value < 9.995 else 1 if value < 99.95 else 0
            return f"{value:.{digits}f} {unit}"
    return f"{ns:.0f} ns"


def clock(seconds: float) -> str:
    """Minutes and seconds of a running recording, e.g. "01:07"."""
    minutes, rest = divmod(int(seconds), 60)
    return f"{minutes:02d}:{rest:02d}"


def share(part: float) -> str:
    """A part of a whole, e.g. "78 %"; what is there but tiny is not called nothing."""
    return "< 1 %" if 0 < part < 0.005 else f"{part:.0%}".replace("%", " %")


def unbroken(text: str) -> str:
    """The text with every number on one line with its unit."""
    return re.sub(r"(?<=\d) (?=%|s\b|ms\b|µs\b|ns\b)", "\u00a0", text)


def events(count: int) -> str:
    """A count of events."""
    return f"{count:,} event" + ("" if count == 1 else "s")


def about_row(info: RecordingInfo) -> str:
    """The second line of a recording in the list."""
    mark = "checked ✓" if info.checked else "not checked"
    return f"{info.duration:.1f} s · {events(info.host_events + info.device_events)} · {mark}"


def row_tip(info: RecordingInfo) -> str:
    """What the list's tooltip says about a recording."""
    device = info.device or "none"
    lines = [
        info.title,
        f"{info.host_events:,} events of the program, {info.device_events:,} of the device",
        f"Device: {device}",
        f"{info.bytes / 1e6:.2f} MB",
        *info.warnings,
    ]
    return "\n".join(lines)


def clock_chip(metadata: Metadata) -> str:
    """How well both clocks are known to agree."""
    if not metadata.device_events:
        return ""
    bound = metadata.clock_bound_ns
    return "clock not checked" if bound is None else f"clock ± {max(1, round(bound / 1000))} µs"
