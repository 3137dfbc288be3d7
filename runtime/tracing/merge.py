"""Puts a journal and a device's event file together into one `Trace` on one time base."""

from __future__ import annotations

from collections import Counter as Counts
from collections import defaultdict
from dataclasses import dataclass, field
from pathlib import Path

from runtime.tracing.clocks import suspended_ns
from runtime.tracing.journal import Journal
from runtime.tracing.model import LIMIT_WORDS, Counter, Flow, Metadata, Span, Trace, Track, nest, order
from runtime.tracing.npu import NO_CLOCK, DeviceRecording, read_device_file
from runtime.tracing.npu_events import DeviceEvents
from runtime.tracing.recorder import COUNTER, INSTANT, REQUEST_BEGIN, REQUEST_END, TRUNCATED, HostEvent

REQUEST_SPANS = frozenset(("queue",))
"""Waiting belongs to the request's own track: meanwhile the thread works on others."""
SUBMIT = "submit"
RECOVERED = "The program ended before the recording was stopped; this is what had been written by then."
REFUSED = "{count} counter values were not numbers and were left out."
SUSPENDED = "The computer slept for {seconds:.0f} s during the recording; that time is not on the timeline."


@dataclass(slots=True)
class _Sorted:
    """Host events by where they go."""

    threads: dict[int, list[Span]] = field(default_factory=lambda: defaultdict(list))
    requests: dict[str, list[Span]] = field(default_factory=lambda: defaultdict(list))
    roots: dict[str, Span] = field(default_factory=dict)
    kinds: dict[str, str] = field(default_factory=dict)
    counters: dict[str, list[tuple[int, float]]] = field(default_factory=lambda: defaultdict(list))


def merge(journal: Journal, device_file: Path) -> Trace:
    """The whole recording. `device_file` may be missing when no device took part."""
    device = _device(journal, device_file)
    stop_ns = journal.stop_ns if journal.stop_ns is not None else _last_ns(journal, device.events)
    sorted_events = _sort(journal.events, stop_ns)
    tracks = [
        *_request_tracks(sorted_events),
        *_thread_tracks(sorted_events.threads, journal.threads),
        *_device_tracks(device.events, journal.threads),
    ]
    counters = [Counter(name, sorted(samples)) for name, samples in sorted(sorted_events.counters.items())]
    metadata = Metadata(
        recording_id=journal.recording_id,
        title=journal.title,
        started_at=journal.started_at,
        start_ns=journal.start_ns,
        duration_ns=max(0, stop_ns - journal.start_ns),
        device=str(journal.device.get("title", "")),
        simulated=bool(journal.device.get("simulated", False)),
        host_events=sum(len(track.spans) for track in tracks if track.kind != "device")
        + sum(len(counter.samples) for counter in counters),
        device_events=device.events.count,
        clock_bound_ns=device.relation.bound_ns if device.relation else None,
        repaired=device.events.repaired,
        skipped=device.events.skipped,
        refused=journal.refused,
        versions=journal.versions,
        warnings=tuple(_warnings(journal, device)),
    )
    return Trace(metadata, tracks, counters, find_flows(tracks), journal.clocks)


def find_flows(tracks: list[Track]) -> list[Flow]:
    """An arrow from each `submit` to the first work done for that request on any thread."""
    submits: list[tuple[int, int]] = []
    first: dict[str, tuple[int, int]] = {}
    for track_index, track in enumerate(tracks):
        if track.kind != "thread":
            continue
        for index, span in enumerate(track.spans):
            if span.request is None or span.instant:
                continue
            if span.name == SUBMIT:
                submits.append((track_index, index))
            elif (best := first.get(span.request)) is None or (
                span.start_ns < tracks[best[0]].spans[best[1]].start_ns
            ):
                first[span.request] = (track_index, index)
    flows = []
    for place in submits:
        submit = tracks[place[0]].spans[place[1]]
        target = first.get(submit.request or "")
        if target is not None and tracks[target[0]].spans[target[1]].start_ns >= submit.start_ns:
            flows.append(Flow(place, target))
    return flows


def _sort(events: list[HostEvent], stop_ns: int) -> _Sorted:
    result = _Sorted()
    for kind, name, time_ns, extent, thread, request, args in events:
        if kind == COUNTER:
            result.counters[name].append((time_ns, float(extent)))
        elif kind == REQUEST_BEGIN and request is not None:
            result.kinds.setdefault(request, str(args.get("kind", "")))
            result.roots.setdefault(request, Span(name, time_ns, -1, request, args))
        elif kind == REQUEST_END and request is not None:
            if (root := result.roots.get(request)) is not None:
                root.duration_ns = max(0, time_ns - root.start_ns)
                root.args = {**root.args, **args}
        else:
            span = Span(name, time_ns, max(0, int(extent)), request, args, kind == INSTANT)
            if request is not None and name in REQUEST_SPANS:
                result.requests[request].append(span)
            else:
                result.threads[thread].append(span)
    for root in result.roots.values():
        if root.duration_ns < 0:
            root.duration_ns = max(0, stop_ns - root.start_ns)
            root.args = {**root.args, TRUNCATED: True}
    return result


def _request_tracks(events: _Sorted) -> list[Track]:
    """One track per request: the request itself, and inside it what happened to it off every thread."""
    lanes: dict[str, list[list[Span]]] = {}
    for request in dict.fromkeys((*events.roots, *events.requests)):
        children = events.requests.get(request, [])
        root = events.roots.get(request)
        if root is not None:
            # The submit may have been noted a moment before the request's own begin.
            start = min([root.start_ns, *(child.start_ns for child in children)])
            end = max([root.end_ns, *(child.end_ns for child in children)])
            root.start_ns, root.duration_ns = start, end - start
        lanes[request] = nest([*([root] if root is not None else []), *children])
    by_start = sorted(lanes, key=lambda request: order(lanes[request][0][0]))
    titles = _request_titles(events, by_start)
    return [
        Track(titles[request], "request", 0, request, lane) for request in by_start for lane in lanes[request]
    ]


def _request_titles(events: _Sorted, requests: list[str]) -> dict[str, str]:
    """What each request is called; those of the same name are numbered in the order they came."""
    names = {
        request: root.name if (root := events.roots.get(request)) is not None else "Request"
        for request in requests
    }
    shared = Counts(names.values())
    seen: Counts[str] = Counts()
    titles = {}
    for request, name in names.items():
        seen[name] += 1
        title = f"{name} {seen[name]}" if shared[name] > 1 else name
        kind = events.kinds.get(request, "")
        titles[request] = title if not kind or kind.casefold() == name.casefold() else f"{title} · {kind}"
    return titles


def _thread_tracks(threads: dict[int, list[Span]], names: dict[int, str]) -> list[Track]:
    tracks = []
    for tid, spans in sorted(threads.items(), key=lambda item: (names.get(item[0], "~"), item[0])):
        title = names.get(tid, f"Thread {tid}")
        for number, lane in enumerate(nest(spans)):
            tracks.append(
                Track(title if number == 0 else f"{title} (overlapping)", "thread", tid, None, lane)
            )
    return tracks


def _device_tracks(events: DeviceEvents, names: dict[int, str]) -> list[Track]:
    """One track per driving thread; the runtime's events carry no core number."""
    return [
        Track(f"NPU · {names.get(tid, f'thread {tid}')}", "device", tid, None, spans)
        for tid, spans in sorted(events.spans.items())
        if spans
    ]


def _device(journal: Journal, path: Path) -> DeviceRecording:
    if not journal.device.get("recorded", False):
        return DeviceRecording(DeviceEvents(), None, str(journal.device.get("warning", "")))
    brackets = [(int(before), int(after)) for before, after in journal.device.get("brackets", [])]
    return read_device_file(path, brackets, int(journal.device.get("thread", 0)))


def _last_ns(journal: Journal, events: DeviceEvents) -> int:
    last = journal.start_ns
    for kind, _name, time_ns, extent, *_rest in journal.events:
        last = max(last, time_ns if kind == COUNTER else time_ns + int(extent))
    for spans in events.spans.values():
        last = max([last, *(span.end_ns for span in spans)])
    return last


def _warnings(journal: Journal, device: DeviceRecording) -> list[str]:
    words = []
    if journal.stop_ns is None:
        words.append(RECOVERED)
    if journal.limit in LIMIT_WORDS:
        words.append(LIMIT_WORDS[journal.limit])
    # Without a single device event there is nothing whose clock could be doubted.
    if device.warning and not (device.warning == NO_CLOCK and not device.events.count):
        words.append(device.warning)
    if journal.refused:
        words.append(REFUSED.format(count=journal.refused))
    slept = suspended_ns(journal.clocks)
    if slept > 1_000_000_000:
        words.append(SUSPENDED.format(seconds=slept / 1e9))
    return words
