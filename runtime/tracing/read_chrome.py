"""Reads Chrome JSON traces: this program's exports, qbruntime's event files, others as far as they go."""

from __future__ import annotations

import json
import math
from decimal import Decimal
from pathlib import Path
from typing import Any

from runtime.errors import TraceError
from runtime.tracing.about import ABOUT, APP_PID, DEVICE_PID, KEY, parse_about
from runtime.tracing.assemble import Collector
from runtime.tracing.files import Checkpoint
from runtime.tracing.model import Span, Trace
from runtime.tracing.npu_events import pair
from runtime.tracing.recorder import Args
from runtime.tracing.write_chrome import FIRST_TID

_MAX_US = Decimal(2**63 // 1000 - 1)


def read_chrome(data: bytes, path: Path, checkpoint: Checkpoint) -> Trace:
    """Read a whole file.

    Raises:
        TraceError: it is no such file, or holds no event.
    """
    elements, cut = _elements(data, path)
    collector = Collector(path, cut=cut)
    if _is_device_file(elements):
        events = pair(elements)
        for tid, spans in events.spans.items():
            collector.track(tid, f"NPU · thread {tid}", "device", tid)
            for span in spans:
                collector.add(tid, span)
        collector.strays = events.skipped
        return collector.finish()
    reader = _Reader(collector)
    for number, element in enumerate(elements):
        if number % 4096 == 0:
            checkpoint()
        reader.take(element)
    return collector.finish()


def _elements(data: bytes, path: Path) -> tuple[list[Any], bool]:
    """The file's events, and whether it was cut."""
    text = data.decode("utf-8-sig", "replace")
    cut = False
    try:
        value = json.loads(text, parse_float=Decimal, parse_constant=_refuse)
    except RecursionError as error:
        raise _not_a_trace(path) from error
    except ValueError:
        value, cut = _whole_lines(text), True
    if isinstance(value, dict):
        value = value.get("traceEvents")
    if not isinstance(value, list) or not value:
        raise _not_a_trace(path)
    return value, cut


def _whole_lines(text: str) -> list[Any]:
    """The elements of a damaged array that stand on lines of their own, as every writer we know puts them."""
    found = []
    for line in text.splitlines():
        stripped = line.strip().lstrip("[").rstrip(",]")
        if not stripped.startswith("{"):
            continue
        try:
            found.append(json.loads(stripped, parse_float=Decimal, parse_constant=_refuse))
        except (ValueError, RecursionError):
            continue
    return found


def _refuse(name: str) -> Any:
    raise ValueError(f"{name} is not JSON")


def _not_a_trace(path: Path) -> TraceError:
    return TraceError(
        f"{path.name} is not a trace in Chrome's JSON format.",
        remedy="Choose a .pftrace, .json or .json.gz file.",
        unharmed="The file is unchanged.",
    )


def _is_device_file(elements: list[Any]) -> bool:
    """qbruntime's files hold begins and ends only, with an empty category."""
    events = [element for element in elements if isinstance(element, dict) and "ph" in element]
    return bool(events) and all(event["ph"] in ("B", "E") and event.get("cat") == "" for event in events)


class _Reader:
    def __init__(self, collector: Collector) -> None:
        self._collector = collector
        self._last: dict[Any, Span] = {}

    def take(self, element: Any) -> None:
        """Take one element in; what is no event is counted."""
        if not isinstance(element, dict) or not isinstance(element.get("name", ""), str):
            self._collector.strays += 1
            return
        phase = element.get("ph")
        if phase == "M":
            self._name(element)
            return
        time_ns = _ns(element.get("ts"))
        if time_ns is None or not self._event(phase, element, time_ns):
            self._collector.strays += 1

    def _event(self, phase: Any, element: dict[str, Any], time_ns: int) -> bool:
        key = _key(element)
        if phase == "X":
            length = _ns(element.get("dur"))
            if length is None:
                return False
            self._add(key, _span(element, time_ns, length))
        elif phase in ("i", "I"):
            if not self._take_about(element):
                span = _span(element, time_ns, 0)
                span.instant = True
                self._add(key, span)
        elif phase in ("B", "b"):
            self._collector.begin(key, _span(element, time_ns, 0))
        elif phase in ("E", "e"):
            self._collector.end(key, time_ns)
        elif phase == "C":
            return self._count(element, time_ns)
        elif phase in ("s", "f"):
            return self._arrow(phase, element, key)
        else:
            return False
        return True

    def _add(self, key: Any, span: Span) -> None:
        self._collector.add(key, span)
        self._last[key] = span

    def _arrow(self, phase: str, element: dict[str, Any], key: Any) -> bool:
        """An arrow belongs to the span written just before it on the same track."""
        span = self._last.get(key)
        if span is None:
            return False
        arrow = str(element.get("id"))
        if phase == "s":
            self._collector.arrow_from(arrow, span)
        else:
            self._collector.arrow_to(arrow, span)
        return True

    def _count(self, element: dict[str, Any], time_ns: int) -> bool:
        args = element.get("args")
        found = False
        for series, value in args.items() if isinstance(args, dict) else ():
            if isinstance(value, int | Decimal) and not isinstance(value, bool) and math.isfinite(value):
                name = str(element.get("name", "counter"))
                title = name if series == "value" else f"{name} {series}"
                self._collector.count(title, time_ns, float(value))
                found = True
        return found

    def _name(self, element: dict[str, Any]) -> None:
        args = element.get("args")
        if element.get("name") == "thread_name" and isinstance(args, dict) and self._collector.about is None:
            tid = element.get("tid")
            number = tid if isinstance(tid, int) else 0
            self._collector.track(_key(element), str(args.get("name", "")), "thread", number)

    def _take_about(self, element: dict[str, Any]) -> bool:
        """This program's own note: from here on the tracks are known exactly."""
        args = element.get("args")
        if element.get("name") != ABOUT or self._collector.about is not None or not isinstance(args, dict):
            return False
        about = parse_about(str(args.get(KEY)))
        if about is None:
            return False
        keys = [
            ("async", number + 1)
            if note.kind == "request"
            else (DEVICE_PID if note.kind == "device" else APP_PID, FIRST_TID + number)
            for number, note in enumerate(about.tracks)
        ]
        self._collector.adopt(about, keys)
        return True


def _key(element: dict[str, Any]) -> Any:
    if element.get("ph") in ("b", "e", "n"):
        return "async", _plain(element.get("id"))
    return _plain(element.get("pid")), _plain(element.get("tid"))


def _plain(value: Any) -> Any:
    return value if isinstance(value, int | str) else None


def _span(element: dict[str, Any], time_ns: int, length_ns: int) -> Span:
    args = _args(element.get("args"))
    request = args.pop("request", None)
    return Span(
        str(element.get("name", "")), time_ns, length_ns, str(request) if request is not None else None, args
    )


def _args(value: Any) -> Args:
    args: Args = {}
    for name, raw in value.items() if isinstance(value, dict) else ():
        if isinstance(raw, Decimal):
            args[name] = float(raw)
        elif isinstance(raw, str | int):
            args[name] = raw
    return args


def _ns(value: Any) -> int | None:
    """Microseconds as whole ns, exactly; None for what is no time."""
    if isinstance(value, bool) or not isinstance(value, int | Decimal):
        return None
    return int(value * 1000) if 0 <= value <= _MAX_US else None
