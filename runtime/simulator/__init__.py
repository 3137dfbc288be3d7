"""A software NPU under the vendor's real code: right answers and API behaviour, not ARIES timing.

`install` replaces what lies *below* the vendor's Python: the native `Model` and `Accelerator` objects,
device discovery and event tracing of the extension module `qbruntime.qbruntime`. Everything a program
touches (`qbruntime.Model`, `ModelConfig`, the enums, `QbRuntimeError`, `mblt_npu`, `transformers_mblt`) is
the vendor's own code, whether it was imported before or after, because it looks these names up when it
uses them.
"""

from __future__ import annotations

import os
import threading
from typing import Any

from runtime.simulator.device import BOARDS, DeviceUsage, Fleet, NativeAccelerator
from runtime.simulator.events import TRACE
from runtime.simulator.faults import ENVIRONMENT, FAULTS, parse
from runtime.simulator.model import NativeModel, summarise

_LOCK = threading.Lock()
_originals: dict[str, Any] = {}


def install(devices: int = 1, board: str = "aries-rb", memory_bytes: int | None = None) -> None:
    """Put `devices` simulated boards in place of the real ones, for the whole process.

    The same call again does nothing; another one needs `uninstall` first. `memory_bytes` is each board's
    memory, by default its own. Faults named in MBLT_SIM_FAULTS are planned. Raises SettingError for an
    MBLT_SIM_FAULTS that cannot be read, KeyError for an unknown board, RuntimeError for a second fleet.
    """
    import qbruntime.qbruntime as native

    with _LOCK:
        fleet = Fleet(BOARDS[board], devices, memory_bytes)
        if _originals:
            if _describe(NativeAccelerator.fleet) != _describe(fleet):
                raise RuntimeError("another simulated fleet is installed; uninstall it first")
            return
        faults = parse(os.environ.get(ENVIRONMENT, ""))
        NativeAccelerator.fleet = fleet
        for fault in faults:
            FAULTS.inject(fault)
        replacements = {
            "Model": NativeModel,
            "Accelerator": NativeAccelerator,
            "start_tracing_events": TRACE.start,
            "stop_tracing_events": TRACE.stop,
            "get_available_devices": _names,
            "get_available_device_numbers": _numbers,
            "get_model_summary": summarise,
        }
        for name, replacement in replacements.items():
            _originals[name] = getattr(native, name)
            setattr(native, name, replacement)


def uninstall() -> None:
    """Put the real runtime back; for tests. Models made meanwhile must not be used any more."""
    import qbruntime.qbruntime as native

    with _LOCK:
        TRACE.stop()
        FAULTS.clear()
        for name, original in _originals.items():
            setattr(native, name, original)
        _originals.clear()


def is_installed() -> bool:
    """Whether this process runs on simulated boards."""
    return bool(_originals)


def usage() -> tuple[DeviceUsage, ...]:
    """What each simulated board is doing; empty when none is installed."""
    if not _originals:
        return ()
    return tuple(device.usage() for device in NativeAccelerator.fleet.devices)


def _names() -> list[str]:
    return NativeAccelerator.fleet.names()


def _numbers(device_name: str = "auto") -> list[int]:
    return NativeAccelerator.fleet.numbers(device_name)


def _describe(fleet: Fleet) -> tuple[str, list[int]]:
    return fleet.board.name, [device.memory_bytes for device in fleet.devices]
