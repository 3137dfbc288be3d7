"""Reads `.pftrace` files: packets one by one, so that a cut file gives everything before the cut."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from runtime.errors import TraceError
from runtime.tracing.about import ABOUT, KEY, About, parse_about
from runtime.tracing.assemble import Collector
from runtime.tracing.files import Checkpoint
from runtime.tracing.model import ClockReading, Span, Trace
from runtime.tracing.recorder import Args
from runtime.tracing.write_pftrace import BOOTTIME, MONOTONIC, REALTIME, STATE_CLEARED, TRACKS_FROM

_PACKET = 0x0A


@dataclass(slots=True)
class _Sequence:
    """State of one packet sequence."""

    names: dict[int, str] = field(default_factory=dict)
    annotations: dict[int, str] = field(default_factory=dict)
    track: int = 0


class _CutError(Exception):
    """The data ends, or stops making sense, inside a packet."""


def read_pftrace(data: bytes, path: Path, checkpoint: Checkpoint) -> Trace:
    """Read a whole file.

    Raises:
        TraceError: it is no Perfetto trace, or holds no track event.
    """
    reader = _Reader(path)
    packets = 0
    try:
        for packet in _packets(data):
            packets += 1
            if packets % 4096 == 0:
                checkpoint()
            reader.take(packet)
    except _CutError as error:
        if not packets:
            raise TraceError(
                f"{path.name} is not a Perfetto trace.",
                remedy="Choose a .pftrace, .json or .json.gz file.",
                unharmed="The file is unchanged.",
            ) from error
        reader.collector.cut = True
    trace = reader.collector.finish()
    trace.clocks = reader.clocks
    return trace


def find_about(head: bytes) -> About | None:
    """The note about itself at the start of a file of this program."""
    try:
        for packet in _packets(head):
            if packet.HasField("track_event") and packet.track_event.name == ABOUT:
                return _about(packet.track_event)
    except _CutError:
        pass
    return None


def _packets(data: bytes) -> Iterator[Any]:
    from google.protobuf.message import DecodeError
    from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket

    place = 0
    while place < len(data):
        if data[place] != _PACKET:
            raise _CutError
        length, start = _varint(data, place + 1)
        place = start + length
        if place > len(data):
            raise _CutError
        packet: Any = TracePacket()
        try:
            packet.ParseFromString(data[start:place])
        except DecodeError as error:
            raise _CutError from error
        yield packet


def _varint(data: bytes, place: int) -> tuple[int, int]:
    value = shift = 0
    while place < len(data) and shift < 64:
        byte = data[place]
        value |= (byte & 0x7F) << shift
        place += 1
        if byte < 0x80:
            return value, place
        shift += 7
    raise _CutError


def _about(event: Any) -> About | None:
    for annotation in event.debug_annotations:
        if annotation.name == KEY:
            return parse_about(annotation.string_value)
    return None


class _Reader:
    def __init__(self, path: Path) -> None:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TrackEvent

        self._begin: int = TrackEvent.TYPE_SLICE_BEGIN
        self._end: int = TrackEvent.TYPE_SLICE_END
        self._instant: int = TrackEvent.TYPE_INSTANT
        self._counter: int = TrackEvent.TYPE_COUNTER
        self.collector = Collector(path)
        self.clocks: list[ClockReading] = []
        self._sequences: dict[int, _Sequence] = {}
        self._counters: dict[int, str] = {}

    def take(self, packet: Any) -> None:
        """Take one packet in."""
        sequence = self._sequences.setdefault(packet.trusted_packet_sequence_id, _Sequence())
        if packet.sequence_flags & STATE_CLEARED:
            sequence.names.clear()
            sequence.annotations.clear()
        if packet.HasField("trace_packet_defaults"):
            sequence.track = packet.trace_packet_defaults.track_event_defaults.track_uuid
        if packet.HasField("interned_data"):
            data = packet.interned_data
            sequence.names.update((entry.iid, _text(entry.name)) for entry in data.event_names)
            sequence.annotations.update(
                (entry.iid, _text(entry.name)) for entry in data.debug_annotation_names
            )
        if packet.HasField("track_event"):
            self._event(packet, sequence)
        elif packet.HasField("track_descriptor"):
            self._describe(packet.track_descriptor)
        elif packet.HasField("clock_snapshot"):
            clocks = {clock.clock_id: clock.timestamp for clock in packet.clock_snapshot.clocks}
            if clocks.keys() >= {MONOTONIC, BOOTTIME, REALTIME}:
                self.clocks.append(ClockReading(clocks[MONOTONIC], clocks[BOOTTIME], clocks[REALTIME]))

    def _describe(self, descriptor: Any) -> None:
        uuid = descriptor.uuid
        name = _text(descriptor.name or descriptor.static_name or descriptor.thread.thread_name)
        if descriptor.HasField("counter"):
            self._counters[uuid] = name or f"Counter {len(self._counters) + 1}"
        elif not self._known(uuid):
            if descriptor.HasField("thread"):
                tid = descriptor.thread.tid
                self.collector.track(uuid, name or f"Thread {tid}", "thread", tid)
            elif descriptor.HasField("process"):
                name = _text(descriptor.process.process_name) or f"Process {descriptor.process.pid}"
                self.collector.track(uuid, name, "thread")
            elif name:
                self.collector.track(uuid, name, "thread")

    def _known(self, uuid: int) -> bool:
        """Whether the file's own note has told what this track is."""
        about = self.collector.about
        return about is not None and 0 <= uuid - TRACKS_FROM < len(about.tracks)

    def _event(self, packet: Any, sequence: _Sequence) -> None:
        event = packet.track_event
        time_ns = packet.timestamp
        uuid = event.track_uuid if event.HasField("track_uuid") else sequence.track
        if event.type == self._end:
            self.collector.end(uuid, time_ns)
        elif event.type == self._counter:
            self._count(uuid, time_ns, event)
        elif event.type in (self._begin, self._instant):
            self._slice(uuid, time_ns, event, sequence)
        else:
            self.collector.strays += 1

    def _slice(self, uuid: int, time_ns: int, event: Any, sequence: _Sequence) -> None:
        name = _text(event.name) or sequence.names.get(event.name_iid, "(no name)")
        if name == ABOUT and self.collector.about is None and (about := _about(event)) is not None:
            self.collector.adopt(about, [TRACKS_FROM + number for number in range(len(about.tracks))])
            return
        args = _args(event, sequence) if event.debug_annotations else {}
        request = args.pop("request", None)
        span = Span(name, time_ns, 0, str(request) if request is not None else None, args)
        if event.type == self._instant:
            span.instant = True
            self.collector.add(uuid, span)
        else:
            self.collector.begin(uuid, span)
        for arrow in event.flow_ids:
            self.collector.arrow_from(arrow, span)
        for arrow in event.terminating_flow_ids:
            self.collector.arrow_to(arrow, span)

    def _count(self, uuid: int, time_ns: int, event: Any) -> None:
        whole = event.HasField("counter_value")
        value = float(event.counter_value if whole else event.double_counter_value)
        if math.isfinite(value):
            self.collector.count(self._counters.get(uuid, "counter"), time_ns, value)
        else:
            self.collector.strays += 1


def _args(event: Any, sequence: _Sequence) -> Args:
    args: Args = {}
    for annotation in event.debug_annotations:
        name = _text(annotation.name) or sequence.annotations.get(annotation.name_iid, "")
        kind = annotation.WhichOneof("value")
        if name and kind in ("bool_value", "int_value", "uint_value", "double_value", "string_value"):
            value = getattr(annotation, kind)
            args[name] = _text(value) if kind == "string_value" else value
    return args


def _text(value: str | bytes) -> str:
    """A text field as text: what is no UTF-8 comes as bytes from the library."""
    return value if isinstance(value, str) else value.decode("utf-8", "replace")
