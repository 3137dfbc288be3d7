"""What every pane is given: the runtime, the store, the preferences, and the window's few services."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

from PySide6.QtCore import SignalInstance

from mblt_desktop.devices.monitor import DeviceMonitor
from mblt_desktop.dispatcher import Dispatcher
from mblt_desktop.model_jobs import ModelJobs
from mblt_desktop.paths import Paths
from mblt_desktop.theme import ThemeManager
from runtime.errors import ErrorInfo
from runtime.messages import Command, Event

if TYPE_CHECKING:
    from mblt_desktop.settings.preferences import Preferences
    from mblt_desktop.store.store import Store


class HostLike(Protocol):
    """The part of `runtime.lanes.host.Host` that the window uses."""

    def submit(self, command: Command) -> None:
        """Route a command; never waits."""

    def cancel(self, request_id: str) -> None:
        """Mark a request as no longer wanted."""

    def take_events(self) -> list[Event]:
        """Everything posted since the last call."""

    def stop(self, seconds: float = 10.0) -> list[str]:
        """End the lanes; names of those still busy."""


class BridgeLike(Protocol):
    """The part of `runtime.lanes.thread.RuntimeBridge` that the window uses; tests script their own."""

    @property
    def events_waiting(self) -> SignalInstance:
        """Emitted once per batch of events, from any thread."""

    @property
    def host(self) -> HostLike:
        """The runtime."""


class Shell(Protocol):
    """What the window does for its panes."""

    def show_error(self, error: ErrorInfo) -> None:
        """Show a failure over the current pane until it is dismissed."""

    def navigate(self, pane: str) -> None:
        """Bring a pane to the front: chat, image, microphone, tracing, models or settings."""

    def toast(self, text: str, undo: Callable[[], None] | None = None) -> None:
        """Say something briefly; with `undo`, offer to take it back."""


@dataclass(eq=False)
class AppContext:
    """What the composition root gives a pane; `shell` is set by the window when it is built.

    Without slots: a signal connected to one of its methods keeps a weak reference to it.
    """

    bridge: BridgeLike
    dispatcher: Dispatcher
    store: Store
    preferences: Preferences
    theme: ThemeManager
    paths: Paths
    shell: Shell | None = field(default=None)
    devices: DeviceMonitor = field(default_factory=DeviceMonitor)
    jobs: ModelJobs = field(init=False)
    """Installing, verifying and removing models."""

    def __post_init__(self) -> None:
        self.jobs = ModelJobs(self.dispatcher, self.bridge.host.submit, self.bridge.host.cancel)

    def submit(self, command: Command) -> None:
        """Give the runtime a command; returns at once."""
        self.bridge.host.submit(command)

    def cancel(self, request_id: str) -> None:
        """Ask for a request to end; its final event acknowledges."""
        self.bridge.host.cancel(request_id)

    def show_error(self, error: ErrorInfo) -> None:
        """Show a failure over the current pane."""
        if self.shell is not None:
            self.shell.show_error(error)

    def navigate(self, pane: str) -> None:
        """Bring a pane to the front."""
        if self.shell is not None:
            self.shell.navigate(pane)

    def toast(self, text: str, undo: Callable[[], None] | None = None) -> None:
        """Say something briefly, with a way back when `undo` is given."""
        if self.shell is not None:
            self.shell.toast(text, undo)
