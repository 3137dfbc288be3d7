"""The composition root: the one place where runtime, store, preferences and window are put together."""

from __future__ import annotations

import contextlib
import logging
import os
import platform
import signal
import socket
import sys
from importlib import resources
from pathlib import Path
from types import FrameType
from typing import cast

from PySide6.QtCore import QObject, QSocketNotifier, Slot
from PySide6.QtGui import QIcon
from PySide6.QtWidgets import QApplication

from mblt_desktop import __version__
from mblt_desktop.collector import Collector
from mblt_desktop.configuration import configured
from mblt_desktop.context import AppContext
from mblt_desktop.crash import CrashLog, FaultReporter
from mblt_desktop.devices.monitor import DeviceMonitor
from mblt_desktop.dispatcher import Dispatcher
from mblt_desktop.display import prepare_display
from mblt_desktop.door import Door, hand_over
from mblt_desktop.log import to_file
from mblt_desktop.main_window import MainWindow
from mblt_desktop.model_jobs import RunningJob
from mblt_desktop.paths import Paths, default_paths
from mblt_desktop.settings.preferences import Preferences
from mblt_desktop.store.store import Store
from mblt_desktop.theme import ThemeMode, apply_theme
from runtime.config import DeviceChoice
from runtime.errors import ErrorInfo, StorageError
from runtime.garbage import GARBAGE
from runtime.lanes.thread import RuntimeBridge
from runtime.layout.from_settings import with_parts
from runtime.messages import (
    Event,
    JobFinished,
    LaneFaulted,
    ModelFailed,
    ModelLoaded,
    SetEngineOptions,
)
from runtime.settings.table import ENGINE_KEYS, engine_options
from runtime.tracing.recorder import RECORDER

APP_ID = "io.github.mblt_desktop.MBLTDesktop"
"""The name of the files in packaging/: by it a desktop finds the program's name and icon."""
STOP_SECONDS = 8.0
_log = logging.getLogger(__name__)


class Application(QObject):
    """Everything that lives as long as the window does."""

    def __init__(self, app: QApplication, paths: Paths, device: DeviceChoice | None) -> None:
        super().__init__()
        RECORDER.name_thread("GUI")
        self._collector = Collector(self)
        self._collector.start()
        self.preferences = Preferences(paths.settings_file)
        theme = apply_theme(app, cast("ThemeMode", self.preferences.text("appearance.theme")))
        choice = device or cast("DeviceChoice", self.preferences.text("layout.device"))
        self.store = Store(paths.database)
        self.bridge = RuntimeBridge(configured(paths.data, choice, self.preferences.get))
        self.dispatcher = Dispatcher(self.bridge)
        self.devices = DeviceMonitor(choice)
        self.context = AppContext(
            bridge=self.bridge,
            dispatcher=self.dispatcher,
            store=self.store,
            preferences=self.preferences,
            theme=theme,
            paths=paths,
            devices=self.devices,
        )
        self.window = MainWindow(self.context)
        self._lost: dict[str, list[ErrorInfo]] = {}
        """Why a model could not be loaded or was lost, by its id, until it is loaded again."""
        self._connect()
        self._show_problems()

    def _connect(self) -> None:
        self.window.painted.connect(self._on_painted)
        self.preferences.changed.connect(self._on_preference_changed)
        self.preferences.problem_found.connect(self.window.show_error)
        self.context.jobs.ended.connect(self._on_job_ended)
        self.store.write_failed.connect(self.window.show_error)
        self.store.write_recovered.connect(self._on_write_recovered)
        self.devices.device_failed.connect(self.window.show_error)
        self.dispatcher.lane_faulted.connect(self._on_lane_faulted)
        self.dispatcher.model_failed.connect(self._on_model_failed)
        self.dispatcher.model_loaded.connect(self._on_model_loaded)

    def _show_problems(self) -> None:
        """What had to be put aside or left out while starting."""
        for problem in [*self.preferences.problems, self.store.problem]:
            if problem is not None:
                self.window.show_error(problem)

    def shut_down(self) -> bool:
        """End every lane and save everything; False when a thread did not end in time."""
        self.window.hide()
        for run in self.window.chat.session.runs:
            self.bridge.host.cancel(run.message.id)
        answered = self.devices.close()
        busy = self.bridge.host.stop(STOP_SECONDS)
        # The last events of what was stopped belong into the store.
        self.dispatcher.deliver()
        self.preferences.flush()
        self.store.close()
        self.window.deleteLater()
        ended = answered and not busy
        if ended:  # else a thread that still runs could collect the window, until the program is gone
            self._collector.stop()
        return ended

    @Slot()
    def _on_painted(self) -> None:
        """Only now may the slow packages be imported, each in its own thread."""
        GARBAGE.set_aside()  # the window stays until the end
        self.devices.start()
        self.window.chat.start()

    @Slot(str)
    def _on_preference_changed(self, key: str) -> None:
        if key == "appearance.theme":
            self.context.theme.set_mode(cast("ThemeMode", self.preferences.text(key)))
        elif key in ENGINE_KEYS:
            self.context.submit(SetEngineOptions(engine_options(self.preferences.get)))

    @Slot(object, object)
    def _on_job_ended(self, job: RunningJob, event: Event) -> None:
        """Where the parts of a removed model ran is of no use any more."""
        if job.kind == "remove" and isinstance(event, JobFinished):
            items = cast("tuple[str, ...]", self.preferences.get("layout.parts"))
            self.preferences.set("layout.parts", with_parts(items, job.model_id, ()))

    @Slot()
    def _on_write_recovered(self) -> None:
        for kind in StorageError.__subclasses__():
            self.window.notices.dismiss(kind.code)
        self.window.toast("Everything is saved again")

    @Slot(object)
    def _on_model_failed(self, event: ModelFailed) -> None:
        self._lost.setdefault(event.model_id, []).append(event.error)

    @Slot(object)
    def _on_model_loaded(self, event: ModelLoaded) -> None:
        """What a model was lost for is over when it is there again."""
        for error in self._lost.pop(event.info.model_id, []):
            self.window.notices.take_back(error)

    @Slot(object)
    def _on_lane_faulted(self, event: LaneFaulted) -> None:
        self.window.show_error(event.error)


def run_app(files: list[Path] | None = None, device: DeviceChoice | None = None) -> int:
    """Open the window and stay until it is closed; returns the exit status."""
    prepare_display()
    paths = default_paths()
    wanted = [path.absolute() for path in files or ()]
    if hand_over(paths.data, wanted):
        sys.stdout.write("MBLT Desktop is open already; its window was brought to the front.\n")
        return 0
    with to_file(paths.logs):
        return _open_window(paths, wanted, device)


def _open_window(paths: Paths, files: list[Path], device: DeviceChoice | None) -> int:
    _log.info("MBLT Desktop %s begins, with Python %s", __version__, platform.python_version())
    crash_log = CrashLog(paths.crash_log)
    crashed = crash_log.open()
    app = QApplication(sys.argv[:1])
    app.setApplicationName("MBLT Desktop")
    app.setApplicationVersion(__version__)
    app.setDesktopFileName(APP_ID)
    app.setWindowIcon(QIcon(str(resources.files("resources") / "app.svg")))
    reporter = FaultReporter()
    reporter.install()
    whole = Application(app, paths, device)
    reporter.fault_found.connect(whole.window.show_error)
    if crashed is not None:
        whole.window.show_error(crashed)
    whole.window.show()
    whole.window.open_files(files)
    door = Door(paths.data)
    door.files_received.connect(whole.window.come_with)
    waker = SignalWaker(app)
    status = app.exec()
    waker.close()
    door.close()
    ended = whole.shut_down()
    reporter.uninstall()
    crash_log.close()
    _log.info("MBLT Desktop ends%s", "" if ended else "; a thread still hangs")
    if not ended:
        # A lane hangs in the driver. Its QThread must not be destroyed while it runs; all is saved.
        os._exit(status)
    return status


class SignalWaker(QObject):
    """Ends the program on Ctrl+C and SIGTERM. Costs nothing while no signal comes."""

    def __init__(self, app: QApplication) -> None:
        super().__init__(app)
        self._app = app
        self._ours, self._interpreters = socket.socketpair()
        for end in (self._ours, self._interpreters):
            end.setblocking(False)
        self._notifier = QSocketNotifier(self._ours.fileno(), QSocketNotifier.Type.Read, self)
        self._notifier.activated.connect(self._on_signal)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, self._quit)
        # The interpreter only looks at signals when Python code runs; this lets Qt's loop run some.
        signal.set_wakeup_fd(self._interpreters.fileno())

    def close(self) -> None:
        """Give the signals back."""
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGINT, signal.SIGTERM):
            signal.signal(number, signal.SIG_DFL)
        self._notifier.setEnabled(False)
        self._ours.close()
        self._interpreters.close()

    @Slot()
    def _on_signal(self) -> None:
        with contextlib.suppress(OSError):
            self._ours.recv(64)

    def _quit(self, _number: int, _frame: FrameType | None) -> None:
        self._app.closeAllWindows()
        self._app.quit()
