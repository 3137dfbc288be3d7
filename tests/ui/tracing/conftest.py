"""Recordings on disk and as views, for the tracing pane."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from mblt_desktop.paths import Paths
from runtime.messages import RecordingInfo
from runtime.tracing import index
from runtime.tracing.model import Trace
from runtime.tracing.read import read_trace
from runtime.tracing.view import TraceView, make_view
from runtime.tracing.write_pftrace import write_pftrace
from tests.runtime.tracing.recordings import ENGINE, chat_events, make_trace, write_device_file


@pytest.fixture
def trace(tmp_path: Path) -> Trace:
    """Two answers with the device's events, on the simulated device."""
    device = [
        event
        for token in range(5)
        for event in (
            ("B", "run npu", ENGINE, 1100 + 1000 * token),
            ("E", "run npu", ENGINE, 1700 + 1000 * token),
        )
    ]
    path = write_device_file(tmp_path / "npu.json", device)
    return make_trace([*chat_events("1"), *chat_events("2", at=10_000_000)], path, stop_ns=None)


@pytest.fixture
def view(trace: Trace) -> TraceView:
    """The same, ready to draw."""
    return make_view(trace)


@pytest.fixture
def save(paths: Paths, trace: Trace) -> Callable[[str], RecordingInfo]:
    """Puts the recording into the folder under a name."""

    def save_as(name: str) -> RecordingInfo:
        paths.recordings.mkdir(parents=True, exist_ok=True)
        path = paths.recordings / f"{name}.pftrace"
        write_pftrace(trace, path)
        index.write_beside(path, title=f"Title of {name}", checked=True)
        return index.read_info(path)

    return save_as


def view_of(path: str) -> TraceView:
    """A file as the recorder lane would read it."""
    return make_view(read_trace(Path(path)))
