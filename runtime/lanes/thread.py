"""The bridge to Qt: a lane in a QThread, and one signal when events wait. The only Qt in `runtime`."""

from __future__ import annotations

from PySide6.QtCore import QObject, QThread, Signal

from runtime.config import RuntimeConfig
from runtime.lanes.host import Host
from runtime.lanes.lane import Lane


class RuntimeThread(QThread):
    """Runs one lane; it has no event loop, so no slot of it can starve."""

    def __init__(self, lane: Lane) -> None:
        super().__init__()
        self.setObjectName(f"mblt-{lane.name}")
        self._lane = lane

    def run(self) -> None:
        """Run the lane until it is told to stop."""
        self._lane.run()

    def join(self, seconds: float) -> bool:
        """Wait for the end; False when it did not come in time."""
        return self.wait(int(seconds * 1000))


class RuntimeBridge(QObject):
    """The runtime for the window: `events_waiting` is emitted once per batch, from any thread."""

    events_waiting = Signal()

    def __init__(self, config: RuntimeConfig, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.host = Host(config, self.events_waiting.emit, RuntimeThread)
