"""The device as the window sees it: chosen, watched and asked about layouts in a thread of its own."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from PySide6.QtCore import QObject, QThreadPool, QTimer, Signal, Slot

from runtime.config import DeviceChoice
from runtime.device.active import ActiveDevice
from runtime.errors import ErrorInfo, to_info
from runtime.layout.request import LayoutRequest, NormalisedLayout

if TYPE_CHECKING:
    from runtime.device.readings import Readings, ReadingsSource

READING_INTERVAL_MS = 2000
_CLOSE_MS = 500
"""A question may hang in the driver, or wait for the packages that a load imports."""


class DeviceMonitor(QObject):
    """Knows the device after `start`, and its readings when a real board tells them.

    All signals arrive in the window's thread. Nothing here loads the vendor's packages before `start`.
    """

    device_known = Signal(object)
    """An ActiveDevice."""
    device_failed = Signal(object)
    """An ErrorInfo: there is no such device."""
    readings_changed = Signal(object)
    """Readings; a value that the board does not tell is None. Never emitted for the simulated device."""
    layout_checked = Signal(object, str, object)
    """A LayoutRequest with the model's folder, and the NormalisedLayout it means or the ErrorInfo that
    refuses it."""
    _activated = Signal(object)
    _read = Signal(object)

    def __init__(self, choice: DeviceChoice = "auto", parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._choice = choice
        self.device: ActiveDevice | None = None
        self.error: ErrorInfo | None = None
        self._source: ReadingsSource | None = None
        self._reading = False
        self._started = False
        self._pool = QThreadPool(self)
        self._pool.setMaxThreadCount(1)
        self._timer = QTimer(self)
        self._timer.setInterval(READING_INTERVAL_MS)
        self._timer.timeout.connect(self._on_interval)
        self._activated.connect(self._on_activated)
        self._read.connect(self._on_read)

    @property
    def choice(self) -> DeviceChoice:
        """What was asked for."""
        return self._choice

    def start(self) -> None:
        """Choose the device, in the background; after the first window is painted. Again: nothing happens."""
        if not self._started:
            self._started = True
            self._pool.start(self._activate)

    def check_layout(self, request: LayoutRequest, folder: str = "") -> None:
        """Ask what a layout would mean; answered by `layout_checked`, in the order of asking.

        With the model's folder, its parts are looked at, too.
        """
        self._pool.start(lambda: self._check(request, folder))

    def close(self) -> bool:
        """Stop watching; False when a question to the device is still unanswered after a moment."""
        self._timer.stop()
        self._pool.clear()
        if not self._pool.waitForDone(_CLOSE_MS):
            return False
        if self._source is not None:
            self._source.close()
            self._source = None
        return True

    # -- in the pool's thread --------------------------------------------------------------------

    def _activate(self) -> None:
        from runtime.device.active import activate
        from runtime.device.readings import open_source

        try:
            device = activate(self._choice)
            self._source = None if device.simulated else open_source()
        except Exception as error:  # noqa: BLE001 - the top of a background job; shown by the window
            self._activated.emit(to_info(error))
            return
        self._activated.emit(device)

    def _check(self, request: LayoutRequest, folder: str) -> None:
        from runtime.device.active import activate
        from runtime.layout.check import validate_for
        from runtime.layout.request import validate

        answer: NormalisedLayout | ErrorInfo
        try:
            device = activate(self._choice)
            if folder:
                answer = validate_for(Path(folder), request, device.board, device.devices)
            else:
                answer = validate(request, device.board, device.devices)
        except Exception as error:  # noqa: BLE001 - the top of a background job; shown beside the setting
            answer = to_info(error)
        self.layout_checked.emit(request, folder, answer)

    def _take_reading(self) -> None:
        if self._source is not None:
            self._read.emit(self._source.read())

    # -- in the window's thread ------------------------------------------------------------------

    @Slot(object)
    def _on_activated(self, outcome: ActiveDevice | ErrorInfo) -> None:
        if isinstance(outcome, ErrorInfo):
            self.error = outcome
            self.device_failed.emit(outcome)
            return
        self.device = outcome
        self.device_known.emit(outcome)
        if self._source is not None:
            self._timer.start()
            self._on_interval()

    @Slot()
    def _on_interval(self) -> None:
        """A board that answers slowly is not asked twice at once."""
        if not self._reading:
            self._reading = True
            self._pool.start(self._take_reading)

    @Slot(object)
    def _on_read(self, readings: Readings) -> None:
        self._reading = False
        self.readings_changed.emit(readings)


def say_readings(readings: Readings | None) -> list[tuple[str, str]]:
    """Name and value of each reading for a status bar; "—" for what is not known."""
    values = readings
    memory = None
    if values is not None and values.memory_used is not None:
        used = f"{values.memory_used / 1024**3:.1f}"
        total = values.memory_total
        memory = f"{used} GB" if total is None else f"{used} of {total / 1024**3:.1f} GB"
    utilisation = None if values is None else values.utilisation
    temperature = None if values is None else values.temperature
    return [
        ("NPU", "—" if utilisation is None else f"{utilisation:.0%}".replace("%", " %")),
        ("Memory", memory or "—"),
        ("Temp", "—" if temperature is None else f"{temperature:.0f} °C"),
    ]
