"""The user's settings: read at start, kept in memory, written behind the window's back."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import QObject, QThreadPool, QTimer, Signal, Slot

from mblt_desktop.settings import file
from runtime.errors import ErrorInfo, MbltError, SettingError, to_info
from runtime.settings.table import SETTINGS
from runtime.settings.types import SettingValue

WRITE_DELAY_MS = 300


class Preferences(QObject):
    """Typed values by key. Lives in the GUI thread; only the writing happens elsewhere.

    What the file holds beyond this table (of a newer version, or damaged by hand) is written back unchanged.
    """

    changed = Signal(str)
    """A setting's key."""
    problem_found = Signal(object)
    """An ErrorInfo: the settings could not be saved."""
    _written = Signal(object)

    def __init__(self, path: Path, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._path = path
        self._stored, self.problems = file.read(path)
        self._values: dict[str, SettingValue] = {}
        for key, setting in SETTINGS.items():
            if key in self._stored:
                try:
                    self._values[key] = setting.check(self._stored[key])
                except SettingError as error:
                    self.problems.append(_ignored(error, path))
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(1)
        self._timer = QTimer(self)
        self._timer.setSingleShot(True)
        self._timer.setInterval(WRITE_DELAY_MS)
        self._timer.timeout.connect(self._write_later)
        self._written.connect(self._on_written)
        self._failing = False

    @property
    def path(self) -> Path:
        """The settings file."""
        return self._path

    def get(self, key: str) -> SettingValue:
        """The value in use: the user's, or the default."""
        setting = SETTINGS[key]
        return self._values.get(key, setting.default)

    def flag(self, key: str) -> bool:
        """The value of a switch."""
        return bool(self.get(key))

    def text(self, key: str) -> str:
        """The value of a text or choice; empty when it is left open."""
        value = self.get(key)
        return value if isinstance(value, str) else ""

    def is_set(self, key: str) -> bool:
        """Whether the user chose something else than the default."""
        return key in self._values

    def set(self, key: str, value: object) -> None:
        """Change a setting; raises SettingError when it does not take the value."""
        setting = SETTINGS[key]
        checked = setting.check(value)
        if checked == setting.default:
            self.reset(key)
        elif self.get(key) != checked:
            self._values[key] = checked
            self._stored[key] = list(checked) if isinstance(checked, tuple) else checked
            self._tell(key)

    def reset(self, key: str) -> None:
        """Go back to the default."""
        if key in self._stored:
            del self._stored[key]
            self._values.pop(key, None)
            self._tell(key)

    def flush(self) -> None:
        """Write now and wait for it; for the end of the program."""
        pending = self._timer.isActive() or self._failing
        self._timer.stop()
        self._pool.waitForDone()
        if pending:
            self._on_written(_write(self._path, dict(self._stored)))

    def _tell(self, key: str) -> None:
        self._timer.start()
        self.changed.emit(key)

    @Slot()
    def _write_later(self) -> None:
        path, values, done = self._path, dict(self._stored), self._written
        self._pool.start(lambda: done.emit(_write(path, values)))

    @Slot(object)
    def _on_written(self, problem: ErrorInfo | None) -> None:
        """Say a failure once; the next change tries again."""
        if problem is not None and not self._failing:
            self.problems.append(problem)
            self.problem_found.emit(problem)
        self._failing = problem is not None


def _write(path: Path, values: dict[str, object]) -> ErrorInfo | None:
    try:
        file.write(path, values)
    except MbltError as error:
        return error.info
    except Exception as error:  # noqa: BLE001 - the top of a background job
        return to_info(error)
    return None


def _ignored(error: SettingError, path: Path) -> ErrorInfo:
    return SettingError(
        error.setting,
        f"{error.summary[:-1]} in {path}.",
        remedy=f"{error.remedy} The default is used until you set it again.",
        unharmed="All other settings are as you left them.",
    ).info
