"""Every UI test runs offscreen, in a home of its own, and leaves no thread or timer behind."""

from __future__ import annotations

import os

os.environ["QT_QPA_PLATFORM"] = "offscreen"

import gc
import weakref
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest
from PySide6.QtCore import QObject, QThread, QTimer, Signal
from PySide6.QtWidgets import QApplication

from mblt_desktop.context import AppContext
from mblt_desktop.devices.monitor import DeviceMonitor
from mblt_desktop.dispatcher import Dispatcher
from mblt_desktop.paths import Paths, default_paths
from mblt_desktop.settings.preferences import Preferences
from mblt_desktop.store.store import Store
from mblt_desktop.theme import apply_theme, theme_manager
from runtime.errors import ErrorInfo
from runtime.messages import Command, Event


@pytest.fixture(autouse=True)
def paths(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Paths:
    """A fresh home: nothing of the user's, nothing of another test's."""
    monkeypatch.setenv("MBLT_DESKTOP_HOME", str(tmp_path / "home"))
    return default_paths()


@pytest.fixture(autouse=True)
def _light(qapp: QApplication) -> None:
    apply_theme(qapp, "light")


@pytest.fixture(autouse=True)
def _no_leaks(qapp: QApplication, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """A running QThread or an active repeating QTimer at the end of a test is a leak."""
    threads: list[weakref.ref[QThread]] = []
    timers: list[weakref.ref[QTimer]] = []
    start_thread, start_timer = QThread.start, QTimer.start

    def thread_started(thread: QThread, *args: object) -> None:
        threads.append(weakref.ref(thread))
        start_thread(thread, *args)

    def timer_started(timer: QTimer, *args: object) -> None:
        timers.append(weakref.ref(timer))
        start_timer(timer, *args)

    monkeypatch.setattr(QThread, "start", thread_started)
    monkeypatch.setattr(QTimer, "start", timer_started)
    gc.freeze()  # what is there before is not this test's, and makes the collection slow
    yield
    # Widgets that the test handed over with deleteLater() or dropped go first.
    qapp.sendPostedEvents()
    qapp.processEvents()
    gc.collect()
    gc.unfreeze()
    running = [thread for thread in _alive(threads) if _running(thread)]
    active = [timer for timer in _alive(timers) if _active(timer)]
    assert not running, f"threads still running: {[thread.objectName() for thread in running]}"
    assert not active, f"timers still active: {[(timer.objectName(), timer.parent()) for timer in active]}"


def _alive(references: list[weakref.ref]) -> list:
    return [value for value in (reference() for reference in references) if value is not None]


def _running(thread: QThread) -> bool:
    try:
        return thread.isRunning()
    except RuntimeError:  # the C++ side is gone
        return False


def _active(timer: QTimer) -> bool:
    try:
        return timer.isActive() and not timer.isSingleShot()
    except RuntimeError:
        return False


class ScriptedHost:
    """A runtime at the public seam: remembers commands, and posts the events a test tells it to."""

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._events: list[Event] = []
        self.commands: list[Command] = []
        self.cancelled: list[str] = []
        self.stopped = False

    def submit(self, command: Command) -> None:
        self.commands.append(command)

    def cancel(self, request_id: str) -> None:
        self.cancelled.append(request_id)

    def take_events(self) -> list[Event]:
        events, self._events = self._events, []
        return events

    def stop(self, seconds: float = 10.0) -> list[str]:
        self.stopped = True
        return []

    def post(self, *events: Event) -> None:
        """Post events as a runtime thread would."""
        was_empty = not self._events
        self._events.extend(events)
        if was_empty:
            self._wake()

    def sent(self, kind: type) -> list:
        """Commands of one type, in order."""
        return [command for command in self.commands if isinstance(command, kind)]


class ScriptedBridge(QObject):
    """Stands where `runtime.lanes.thread.RuntimeBridge` does."""

    events_waiting = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.host = ScriptedHost(self.events_waiting.emit)


@pytest.fixture
def bridge(qapp: QApplication) -> ScriptedBridge:
    """A scripted runtime."""
    return ScriptedBridge()


@pytest.fixture
def dispatcher(bridge: ScriptedBridge) -> Dispatcher:
    """Delivers the scripted runtime's events."""
    return Dispatcher(bridge)


@dataclass
class RecordingShell:
    """The window's services, remembered."""

    errors: list[ErrorInfo] = field(default_factory=list)
    panes: list[str] = field(default_factory=list)
    toasts: list[tuple[str, Callable[[], None] | None]] = field(default_factory=list)

    def show_error(self, error: ErrorInfo) -> None:
        self.errors.append(error)

    def navigate(self, pane: str) -> None:
        self.panes.append(pane)

    def toast(self, text: str, undo: Callable[[], None] | None = None) -> None:
        self.toasts.append((text, undo))


@pytest.fixture
def shell() -> RecordingShell:
    """What the pane asked of the window."""
    return RecordingShell()


@pytest.fixture
def preferences(paths: Paths) -> Iterator[Preferences]:
    """The settings of the fresh home."""
    preferences = Preferences(paths.settings_file)
    yield preferences
    preferences.flush()


@pytest.fixture
def context(
    bridge: ScriptedBridge,
    dispatcher: Dispatcher,
    paths: Paths,
    preferences: Preferences,
    shell: RecordingShell,
) -> Iterator[AppContext]:
    """What a pane is given, on the scripted runtime."""
    store = Store(paths.database)
    monitor = DeviceMonitor("simulated")
    yield AppContext(bridge, dispatcher, store, preferences, theme_manager(), paths, shell, monitor)
    monitor.close()
    assert store.close()


Post = Callable[..., None]


@pytest.fixture
def post(bridge: ScriptedBridge, dispatcher: Dispatcher) -> Post:
    """Events as a runtime thread posts them, delivered."""

    def deliver(*events: Event) -> None:
        bridge.host.post(*events)
        dispatcher.deliver()

    return deliver
