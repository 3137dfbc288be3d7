"""Reads the event file of `qbruntime.start_tracing_events` and pairs its begins and ends into spans.

The file is a bare JSON array, one `{"name","cat","ph":"B"|"E","pid","tid","ts"}` per line, `ts` in whole
microseconds of the monotonic clock. Real files hold surprises that are repaired or skipped, and counted:

* a load that fails leaves `B load mxq` without its `E`, so an `E` is matched by *name* down the stack and
  whatever it skips ends with its parent, marked as truncated;
* `{"err": "Too long"}` stands in for an event whose text was too long;
* a killed process leaves the array cut anywhere, or empty.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime.tracing.model import Span
from runtime.tracing.recorder import TRUNCATED

NS_PER_US = 1000


@dataclass(slots=True)
class DeviceEvents:
    """Spans by native thread id, each list in the order the spans began."""

    spans: dict[int, list[Span]] = field(default_factory=dict)
    repaired: int = 0
    """Spans without an end of their own, and ends without a span."""
    skipped: int = 0
    """Elements that are no events."""

    @property
    def count(self) -> int:
        """All spans."""
        return sum(len(spans) for spans in self.spans.values())


@dataclass(slots=True)
class _Thread:
    spans: list[Span] = field(default_factory=list)
    stack: list[Span] = field(default_factory=list)
    last_ns: int = 0


def parse(path: Path) -> DeviceEvents:
    """Read a whole event file; never fails on its content.

    Raises:
        OSError: the file cannot be read.
    """
    with path.open(encoding="utf-8", errors="replace") as file:
        return pair(_elements(file))


def pair(elements: Iterable[Any]) -> DeviceEvents:
    """Turn begin and end elements into spans."""
    result = DeviceEvents()
    threads: dict[int, _Thread] = {}
    for element in elements:
        event = _event(element)
        if event is None:
            result.skipped += 1
            continue
        phase, name, tid, time_ns = event
        thread = threads.setdefault(tid, _Thread())
        # One thread's clock does not run backwards; a smaller time would give a negative duration.
        thread.last_ns = time_ns = max(time_ns, thread.last_ns)
        if phase == "B":
            span = Span(name, time_ns, 0)
            thread.spans.append(span)
            thread.stack.append(span)
        else:
            result.repaired += _end(thread.stack, name, time_ns)
    for tid, thread in threads.items():
        result.repaired += _close(thread.stack, 0, thread.last_ns)
        result.spans[tid] = thread.spans
    return result


def _end(stack: list[Span], name: str, time_ns: int) -> int:
    """End the innermost span of that name; returns how many repairs that took."""
    for place in range(len(stack) - 1, -1, -1):
        if stack[place].name == name:
            repairs = _close(stack, place + 1, time_ns)
            span = stack.pop()
            span.duration_ns = time_ns - span.start_ns
            return repairs
    return 1


def _close(stack: list[Span], keep: int, time_ns: int) -> int:
    """End every span above the first `keep`, marked as truncated."""
    orphans = stack[keep:]
    del stack[keep:]
    for span in orphans:
        span.duration_ns = time_ns - span.start_ns
        span.args = {TRUNCATED: True}
    return len(orphans)


def _event(element: Any) -> tuple[str, str, int, int] | None:
    if not isinstance(element, dict):
        return None
    phase, name, tid, time = (element.get(key) for key in ("ph", "name", "tid", "ts"))
    if phase not in ("B", "E") or not isinstance(name, str):
        return None
    if not isinstance(tid, int) or not isinstance(time, int) or not 0 <= time < 2**53:
        return None
    return phase, name, tid, time * NS_PER_US


def _elements(lines: Iterable[str]) -> Iterator[Any]:
    """One element per line, as the runtime prints them; a line that is no JSON counts as one bad element."""
    for line in lines:
        text = line.strip().rstrip(",")
        if text in ("", "[", "]"):
            continue
        try:
            yield json.loads(text)
        except ValueError:
            yield None
