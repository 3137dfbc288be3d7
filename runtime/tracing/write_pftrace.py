"""Writes a recording as a native Perfetto trace (`.pftrace`), the primary format.

Packets go straight to the file, so a recording of any length needs no second copy in memory. One packet
sequence carries everything; span names are written once and then referred to by number.
"""

from __future__ import annotations

from pathlib import Path
from typing import IO, Any, Final

from runtime.tracing.about import (
    ABOUT,
    APP_PID,
    APP_PROCESS,
    DEVICE_PID,
    about_args,
    device_process,
    label,
    printable,
)
from runtime.tracing.files import Checkpoint, written_whole
from runtime.tracing.model import Trace, Track, walk
from runtime.tracing.recorder import Args, Scalar

# Numbers of Perfetto's BuiltinClock.
REALTIME: Final = 1
MONOTONIC: Final = 3
BOOTTIME: Final = 6

SEQUENCE: Final = 1
STATE_CLEARED: Final = 1
NEEDS_STATE: Final = 2

# Track numbers (uuids): unique within the file is enough.
APP_TRACK: Final = 1
DEVICE_TRACK: Final = 2
ABOUT_TRACK: Final = 3
REQUESTS_TRACK: Final = 4
COUNTERS_FROM: Final = 1_000
TRACKS_FROM: Final = 1_000_000


def write_pftrace(trace: Trace, path: Path, checkpoint: Checkpoint = lambda: None) -> None:
    """Write `trace` to `path`, which appears only when it is complete.

    Raises:
        StorageError: the file cannot be written; what was there before is untouched.
    """
    with written_whole(path) as file:
        _Writer(file, trace, checkpoint).write()


class _Writer:
    def __init__(self, file: IO[bytes], trace: Trace, checkpoint: Checkpoint) -> None:
        from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import TracePacket, TrackEvent

        self._packet_type: Any = TracePacket
        self._begin: int = TrackEvent.TYPE_SLICE_BEGIN
        self._end: int = TrackEvent.TYPE_SLICE_END
        self._instant: int = TrackEvent.TYPE_INSTANT
        self._counter: int = TrackEvent.TYPE_COUNTER
        self._file = file
        self._trace = trace
        self._checkpoint = checkpoint
        self._names: dict[str, int] = {}
        self._threads: set[int] = set()
        self._flows: dict[tuple[int, int], list[int]] = {}
        self._flow_ends: dict[tuple[int, int], list[int]] = {}
        for number, flow in enumerate(trace.flows, 1):
            self._flows.setdefault(flow.source, []).append(number)
            self._flow_ends.setdefault(flow.target, []).append(number)

    def write(self) -> None:
        self._write_clocks()
        self._describe_processes()
        self._write_about()
        for index, track in enumerate(self._trace.tracks):
            self._describe_track(index, track)
            self._write_spans(index, track)
        for index, counter in enumerate(self._trace.counters):
            self._describe_counter(COUNTERS_FROM + index, counter.name)
            for time_ns, value in counter.samples:
                packet = self._event(time_ns, self._counter, COUNTERS_FROM + index)
                packet.track_event.double_counter_value = value
                self._put(packet)

    # -- packets ---------------------------------------------------------------------------------

    def _packet(self) -> Any:
        packet = self._packet_type()
        packet.trusted_packet_sequence_id = SEQUENCE
        return packet

    def _event(self, time_ns: int, kind: int, track: int) -> Any:
        packet = self._packet()
        packet.timestamp = time_ns
        packet.sequence_flags = NEEDS_STATE
        packet.track_event.type = kind
        packet.track_event.track_uuid = track
        return packet

    def _put(self, packet: Any) -> None:
        data = packet.SerializeToString()
        self._file.write(b"\x0a" + _varint(len(data)) + data)

    # -- what comes first ------------------------------------------------------------------------

    def _write_clocks(self) -> None:
        first = self._packet()
        first.sequence_flags = STATE_CLEARED
        first.first_packet_on_sequence = True
        if self._trace.clocks:
            # Without a reading the engine could not relate this clock to its own.
            first.trace_packet_defaults.timestamp_clock_id = MONOTONIC
        self._put(first)
        for reading in self._trace.clocks:
            packet = self._packet()
            packet.clock_snapshot.primary_trace_clock = MONOTONIC
            for clock, value in (
                (MONOTONIC, reading.monotonic),
                (BOOTTIME, reading.boottime),
                (REALTIME, reading.realtime),
            ):
                packet.clock_snapshot.clocks.add(clock_id=clock, timestamp=value)
            self._put(packet)

    def _describe_processes(self) -> None:
        metadata = self._trace.metadata
        app = self._descriptor(APP_TRACK, 0, "")
        app.track_descriptor.process.pid = APP_PID
        app.track_descriptor.process.process_name = APP_PROCESS
        self._put(app)
        if any(track.kind == "device" for track in self._trace.tracks):
            device = self._descriptor(DEVICE_TRACK, 0, "")
            device.track_descriptor.process.pid = DEVICE_PID
            device.track_descriptor.process.process_name = label(device_process(metadata))
            if metadata.simulated:
                device.track_descriptor.process.process_labels.append("simulated, not hardware times")
            self._put(device)
        self._put(self._descriptor(ABOUT_TRACK, APP_TRACK, "About this recording"))
        if any(track.kind == "request" for track in self._trace.tracks):
            self._put(self._descriptor(REQUESTS_TRACK, APP_TRACK, "Requests"))

    def _write_about(self) -> None:
        packet = self._event(self._trace.metadata.start_ns, self._instant, ABOUT_TRACK)
        packet.track_event.name = ABOUT
        _annotate(packet.track_event, about_args(self._trace))
        self._put(packet)

    # -- tracks ----------------------------------------------------------------------------------

    def _descriptor(self, uuid: int, parent: int, name: str) -> Any:
        packet = self._packet()
        packet.track_descriptor.uuid = uuid
        if parent:
            packet.track_descriptor.parent_uuid = parent
        if name:
            packet.track_descriptor.name = label(name)
        return packet

    def _describe_track(self, index: int, track: Track) -> None:
        parent = {"request": REQUESTS_TRACK, "thread": APP_TRACK, "device": DEVICE_TRACK}[track.kind]
        packet = self._descriptor(TRACKS_FROM + index, parent, track.title)
        descriptor = packet.track_descriptor
        if track.kind == "thread" and 0 < track.tid < 2**31 and track.tid not in self._threads:
            self._threads.add(track.tid)
            descriptor.ClearField("parent_uuid")
            descriptor.thread.pid = APP_PID
            descriptor.thread.tid = track.tid
            descriptor.thread.thread_name = label(track.title)
        descriptor.sibling_order_rank = index
        # Two requests may well have the same title; each keeps its own line.
        descriptor.sibling_merge_behavior = descriptor.SIBLING_MERGE_BEHAVIOR_NONE
        self._put(packet)

    def _describe_counter(self, uuid: int, name: str) -> None:
        packet = self._descriptor(uuid, APP_TRACK, name)
        packet.track_descriptor.counter.SetInParent()
        self._put(packet)

    def _write_spans(self, index: int, track: Track) -> None:
        uuid = TRACKS_FROM + index
        for step, (span, place) in enumerate(walk(track.spans)):
            if step % 4096 == 0:
                self._checkpoint()
            if place is None:
                self._put(self._event(span.end_ns, self._end, uuid))
                continue
            packet = self._event(span.start_ns, self._instant if span.instant else self._begin, uuid)
            self._name(packet, span.name)
            event = packet.track_event
            if span.request is not None:
                _annotate(event, {"request": span.request})
            if span.args:
                _annotate(event, span.args)
            if self._trace.flows:
                event.flow_ids.extend(self._flows.get((index, place), ()))
                event.terminating_flow_ids.extend(self._flow_ends.get((index, place), ()))
            self._put(packet)

    def _name(self, packet: Any, name: str) -> None:
        number = self._names.get(name)
        if number is None:
            number = self._names[name] = len(self._names) + 1
            packet.interned_data.event_names.add(iid=number, name=label(name))
        packet.track_event.name_iid = number


def _annotate(event: Any, args: Args) -> None:
    for name, value in args.items():
        annotation = event.debug_annotations.add(name=printable(name))
        _set_value(annotation, value)


def _set_value(annotation: Any, value: Scalar) -> None:
    if isinstance(value, bool):
        annotation.bool_value = value
    elif isinstance(value, int):
        annotation.int_value = value
    elif isinstance(value, float):
        annotation.double_value = value
    else:
        annotation.string_value = printable(value)


def _varint(number: int) -> bytes:
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)
