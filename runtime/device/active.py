"""Which device this process runs on: a real board, or the simulated one under the vendor's own code.

`activate` decides it once. The vendor's packages are reached through `vendor_backend` and `vendor_stack`,
which refuse to work before that, so that no model meets the wrong device.
"""

from __future__ import annotations

import importlib
import os
import sys
import threading
import warnings
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from dataclasses import dataclass
from types import ModuleType
from typing import Any

from runtime.config import DeviceChoice
from runtime.errors import DeviceError, DeviceNotFoundError
from runtime.garbage import GARBAGE

SIMULATED_BOARD = "aries-rb"
SIMULATED_TITLE = "Simulated ARIES (CPU)"

# Nothing is reported anywhere, and nothing is printed into the answers. (The hub itself stays reachable for
# the catalogue; models are loaded from local folders with local_files_only.)
_QUIET_ENVIRONMENT = {
    "HF_HUB_DISABLE_TELEMETRY": "1",
    "HF_HUB_DISABLE_PROGRESS_BARS": "1",
    "DO_NOT_TRACK": "1",
    "TOKENIZERS_PARALLELISM": "false",
    "TRANSFORMERS_VERBOSITY": "error",
}

_LOCK = threading.RLock()
_active: ActiveDevice | None = None
_boards: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class ActiveDevice:
    """The device every model of this process runs on."""

    title: str
    """In words; says "Simulated" when it is."""
    simulated: bool
    board: str
    """The vendor's device name, e.g. "aries-rb"."""
    devices: int
    """How many such boards; their numbers are 0 … devices - 1."""


def limit_calls(seconds: float) -> None:
    """How long a board's runtime waits for a call; read when it is imported. The user's own value is kept."""
    os.environ.setdefault("QBRUNTIME_NPU_TIMEOUT_MS", str(round(seconds * 1000)))


def activate(choice: DeviceChoice) -> ActiveDevice:
    """Choose the device, once per process; later calls return the same one.

    Raises DeviceNotFoundError for `npu` without a board, and DeviceError when another kind of device is
    already in use.
    """
    global _active
    with _LOCK:
        if _active is None:
            os.environ.update(_QUIET_ENVIRONMENT)
            boards = find_boards()
            _active = _simulated() if use_simulator(choice, boards) else _real(boards)
        if choice != "auto" and _active.simulated != (choice == "simulated"):
            raise DeviceError(
                f"The device “{choice}” was asked for, but this program already runs on {_active.title}.",
                unharmed="Loaded models are unharmed.",
                remedy=f"Quit, then start again with --device {choice}.",
            )
        return _active


def active_device() -> ActiveDevice | None:
    """The chosen device, or None before `activate`."""
    return _active


def use_simulator(choice: DeviceChoice, boards: Sequence[str]) -> bool:
    """Whether `choice` means the simulator when these boards are present."""
    if choice == "npu" and not boards:
        raise DeviceNotFoundError(
            "No Mobilint board was found in this computer.",
            remedy=(
                "Check that the card is seated and its driver is loaded (mblt-desktop doctor tells which is "
                "missing), or start with --device simulated."
            ),
            unharmed="Your models and settings are unharmed.",
        )
    return choice == "simulated" or not boards


def find_boards() -> list[str]:
    """Vendor names of the real boards present, e.g. ["aries-rb"]; empty without any. Asked once."""
    global _boards
    import qbruntime

    from runtime import simulator

    with _LOCK:
        if _boards is None:
            if not os.environ.get("QBRUNTIME_LOG_LEVEL"):
                # Its log goes to stdout, which belongs to --json; every error also arrives as an exception.
                qbruntime.set_log_level(qbruntime.LogLevel.Off)
            if simulator.is_installed():  # it hides the real ones
                return []
            _boards = tuple(str(name) for name in qbruntime.get_available_devices())
        return list(_boards)


def vendor_backend() -> type[Any]:
    """`mblt_npu.MobilintNPUBackend`, which knows the layout rules; imports neither torch nor transformers."""
    _require_active()
    # Rounding up to a whole cluster is said in the layout's notes instead.
    warnings.filterwarnings("ignore", r"target_cores .* rounded up to whole cluster", UserWarning)
    from mblt_npu import MobilintNPUBackend

    backend: type[Any] = MobilintNPUBackend
    return backend


def vendor_stack(importing: Callable[[str], None] = lambda package: None) -> ModuleType:
    """`transformers_mblt` with every architecture registered; the first call imports torch (seconds).

    `importing` is told each large package before it is imported, by the name it is installed with.
    """
    _require_active()
    imported = "transformers_mblt" in sys.modules
    with _LOCK, nullcontext() if imported else GARBAGE.imported_for_good():
        for package in ("torch", "transformers"):
            if package not in sys.modules:
                importing(package)
                importlib.import_module(package)
        # An older transformers does not know every architecture; the others do not care.
        warnings.filterwarnings("ignore", "Skipping Mobilint architecture", RuntimeWarning)
        if "transformers_mblt" not in sys.modules:
            importing("transformers-mblt")
        import transformers_mblt
        from transformers.utils import logging

        from runtime.speech.qwen_asr import qwen_asr_names

        logging.disable_progress_bar()  # the program shows its own; a terminal belongs to the answer
        with qwen_asr_names():
            transformers_mblt.register()
    module: ModuleType = transformers_mblt
    return module


def _require_active() -> None:
    if _active is None:
        raise RuntimeError("activate() must come before the vendor's packages are imported")


def _simulated() -> ActiveDevice:
    from runtime import simulator

    # One core stays free for the window: with every core computing, torch's threads wait for each other in
    # busy loops as soon as anything else runs (measured: docs/decisions.md). Read when torch is loaded.
    os.environ.setdefault("OMP_NUM_THREADS", str(max(1, len(os.sched_getaffinity(0)) - 1)))
    simulator.install(devices=1, board=SIMULATED_BOARD)
    return ActiveDevice(SIMULATED_TITLE, simulated=True, board=SIMULATED_BOARD, devices=1)


def _real(boards: Sequence[str]) -> ActiveDevice:
    import qbruntime

    board = boards[0]
    # The list of names may hold one entry per kind or one per board; the numbers are per board.
    count = max(len(qbruntime.get_available_device_numbers(board)), boards.count(board))
    family = board.split("-")[0].upper()
    title = f"{family} ({board})" if count == 1 else f"{count} {family} boards ({board})"
    return ActiveDevice(title, simulated=False, board=board, devices=count)
