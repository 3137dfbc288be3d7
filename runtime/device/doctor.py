"""Is this computer ready? Each check is a function that returns findings: what is so, and how to mend it.

The checks only look; the one for the data folder writes and removes a small file.
"""

from __future__ import annotations

import importlib.util
import os
import platform
import shutil
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from importlib import metadata
from pathlib import Path
from typing import Literal

from runtime.config import RuntimeConfig
from runtime.device import doctor_system
from runtime.errors import MbltError, to_info

Status = Literal["ok", "note", "warning", "failure"]

OLDEST_PYTHON = (3, 10)
TOO_NEW_PYTHON = (3, 13)
_FULL_BYTES = 200 * 1024**2
_TIGHT_BYTES = 3 * 1024**3
_REINSTALL = "Install the program again: pip install --force-reinstall mblt-desktop."


@dataclass(frozen=True, slots=True)
class Finding:
    """What one check found. A failure means that the program cannot be used; `fix` says how to mend it."""

    check: str
    title: str
    status: Status
    summary: str
    fix: str = ""
    detail: str = ""


@dataclass(frozen=True, slots=True)
class Report:
    """All findings, and the device that models would run on."""

    findings: tuple[Finding, ...]
    device: str
    """In words; empty when there is none."""
    simulated: bool

    @property
    def usable(self) -> bool:
        """Whether nothing stands in the way."""
        return all(finding.status != "failure" for finding in self.findings)


Check = Callable[[RuntimeConfig], "Iterator[Finding]"]


def examine(config: RuntimeConfig) -> Report:
    """Run every check. A check that fails in an unforeseen way is a finding as well."""
    from runtime.device.active import active_device

    findings = tuple(finding for check in CHECKS for finding in _run(check, config))
    device = active_device()
    return Report(findings, device.title if device else "", device.simulated if device else False)


def _run(check: Check, config: RuntimeConfig) -> list[Finding]:
    try:
        return list(check(config))
    except Exception as error:  # noqa: BLE001 - one broken check must not hide the others
        info = to_info(error)
        name = check.__name__.strip("_").replace("_", " ")
        summary = f"Could not be checked: {info.summary}"
        return [Finding(name, name.capitalize(), "warning", summary, info.remedy, info.detail)]


# -- programs and libraries ----------------------------------------------------------------------


def _python(_config: RuntimeConfig) -> Iterator[Finding]:
    version = platform.python_version()
    if OLDEST_PYTHON <= sys.version_info[:2] < TOO_NEW_PYTHON:
        yield Finding("python", "Python", "ok", version)
    else:
        yield Finding(
            "python",
            "Python",
            "failure",
            f"{version}; the NPU packages exist for 3.10, 3.11 and 3.12 only.",
            "Install Python 3.12 and make a new environment with it.",
        )


def _packages(_config: RuntimeConfig) -> Iterator[Finding]:
    for check, title, package in (
        ("npu_runtime", "NPU runtime", "mobilint-qb-runtime"),
        ("npu_models", "NPU models", "transformers-mblt"),
        ("speech", "Speech on the CPU", "faster-whisper"),
    ):
        version = _version(package)
        if version:
            yield Finding(check, title, "ok", f"{package} {version}")
        else:
            yield Finding(check, title, "failure", f"{package} is not installed.", _REINSTALL)


def _torch(_config: RuntimeConfig) -> Iterator[Finding]:
    torch, vision = _version("torch"), _version("torchvision")
    if not torch or not vision:
        missing = "torch" if not torch else "torchvision"
        yield Finding("torch", "PyTorch", "failure", f"{missing} is not installed.", _REINSTALL)
    elif vision_minor(torch) is not None and _minor(vision) != (0, vision_minor(torch)):
        wanted = f"0.{vision_minor(torch)}"
        yield Finding(
            "torch",
            "PyTorch",
            "failure",
            f"torch {torch} and torchvision {vision} are not made for each other.",
            f"Install the matching one: pip install 'torchvision=={wanted}.*'.",
        )
    else:
        yield Finding("torch", "PyTorch", "ok", f"torch {torch} with torchvision {vision}")


def vision_minor(torch: str) -> int | None:
    """Minor version of the torchvision made for this torch: 29 for 2.14; None when it cannot be told."""
    version = _minor(torch)
    return version[1] + 15 if version is not None and version[0] == 2 else None


def _minor(version: str) -> tuple[int, int] | None:
    parts = version.split(".")
    if len(parts) < 2 or not (parts[0].isdigit() and parts[1].isdigit()):
        return None
    return int(parts[0]), int(parts[1])


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return ""


def _window(_config: RuntimeConfig) -> Iterator[Finding]:
    spec = importlib.util.find_spec("PySide6")
    if spec is None or not spec.submodule_search_locations:
        yield Finding("qt", "Window", "failure", "PySide6 is not installed.", _REINSTALL)
        return
    display = os.environ.get("WAYLAND_DISPLAY") or os.environ.get("DISPLAY")
    version = _version("PySide6-Essentials")
    plugin = Path(spec.submodule_search_locations[0]) / "Qt" / "plugins" / "platforms" / "libqxcb.so"
    missing = doctor_system.missing_libraries(plugin)
    if missing:
        packages = " ".join(doctor_system.packages_for(missing))
        yield Finding(
            "qt",
            "Window",
            "failure" if display else "warning",
            f"Qt {version} misses {', '.join(missing)}.",
            f"Install it: sudo apt install {packages}",
        )
    elif not display:
        yield Finding("qt", "Window", "note", f"Qt {version}; no display here, so only the commands work.")
    else:
        yield Finding("qt", "Window", "ok", f"Qt {version} on display {display}")


# -- the device ----------------------------------------------------------------------------------


def _device(config: RuntimeConfig) -> Iterator[Finding]:
    from runtime.device.active import activate, find_boards

    try:
        boards = find_boards()
    except (ImportError, OSError) as error:
        summary = "The NPU runtime cannot be loaded."
        yield Finding("device", "Device", "failure", summary, _REINSTALL, f"{type(error).__name__}: {error}")
        return
    try:
        device = activate(config.device)
    except MbltError as error:
        yield Finding("device", "Device", "failure", error.summary, error.remedy, error.detail)
    else:
        yield Finding("device", "Device", "ok", f"Models run on: {device.title}")
    yield _board(boards, doctor_system.look_for_boards())


def _board(boards: list[str], seen: doctor_system.BoardTraces) -> Finding:
    """Where the way to a board ends: no card, no driver, no permission, or not seen by the runtime."""
    if boards:
        return Finding("board", "Mobilint board", "ok", ", ".join(boards))
    if seen.refused:
        return Finding(
            "board",
            "Mobilint board",
            "warning",
            f"You may not use {', '.join(seen.refused)}.",
            f"Allow it until the next start: sudo chmod a+rw {' '.join(seen.refused)}. "
            "A udev rule allows it for good.",
        )
    if seen.nodes:
        return Finding(
            "board",
            "Mobilint board",
            "warning",
            f"The driver offers {', '.join(seen.nodes)}, but the NPU runtime does not accept it.",
            "Update driver and firmware to the versions that the NPU runtime 1.5 wants.",
        )
    if seen.cards:
        return Finding(
            "board",
            "Mobilint board",
            "warning",
            f"A card is there (PCI {', '.join(seen.cards)}), but its driver is not loaded.",
            "Install it from Mobilint's repository (sudo apt install mobilint-aries-driver), then restart. "
            "With Secure Boot, its key must be enrolled first.",
        )
    return Finding("board", "Mobilint board", "note", "None in this computer.")


def _monitoring(_config: RuntimeConfig) -> Iterator[Finding]:
    from runtime.device.active import find_boards
    from runtime.device.readings import open_source

    # Without a driver the library complains on standard error before it says so.
    source = open_source() if find_boards() else None
    if source is None:
        yield Finding(
            "monitoring", "Board monitoring", "note", "Not available without a board and its driver."
        )
        return
    source.close()
    yield Finding("monitoring", "Board monitoring", "ok", f"{source.devices} board(s), {source.interface}")


# -- sound, disk, models -------------------------------------------------------------------------


def _sound(_config: RuntimeConfig) -> Iterator[Finding]:
    from runtime.audio.portaudio import devices

    try:
        inputs = devices("input")
    except MbltError as error:
        yield Finding("audio", "Microphone", "warning", error.summary, error.remedy, error.detail)
        return
    if inputs:
        yield Finding("audio", "Microphone", "ok", inputs[0].name)
    else:
        yield Finding(
            "audio", "Microphone", "note", "None found; audio files can still be transcribed.",
            "Plug one in, or check that the sound server runs for this user.",
        )  # fmt: skip


def _disk(config: RuntimeConfig) -> Iterator[Finding]:
    folder = _existing(config.data_dir)
    try:
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".mblt-doctor-"):
            pass
    except OSError as error:
        yield Finding(
            "data", "Data folder", "failure", f"{config.data_dir} cannot be written to ({error.strerror}).",
            "Make it writable, or name another folder in MBLT_DESKTOP_HOME.",
        )  # fmt: skip
    else:
        yield Finding("data", "Data folder", "ok", str(config.data_dir))
    free = shutil.disk_usage(folder).free
    words = f"{free / 1024**3:.1f} GB free"
    if free < _FULL_BYTES:
        yield Finding("disk", "Disk", "failure", words + ".", "Free some space; a model needs about 1 GB.")
    elif free < _TIGHT_BYTES:
        yield Finding("disk", "Disk", "warning", words + "; models may not fit.", "Free some space.")
    else:
        yield Finding("disk", "Disk", "ok", words)


def _existing(folder: Path) -> Path:
    """The folder, or the nearest thing above it that exists: a file there is in the way."""
    return next(path for path in (folder, *folder.parents) if path.exists())


def _models(config: RuntimeConfig) -> Iterator[Finding]:
    from runtime.catalog.library import Library

    rows = Library(config).rows()
    installed = [row.title for row in rows if row.state == "installed"]
    for row in rows:
        if row.state == "partial":
            yield Finding(
                "models", "Models", "warning", f"{row.title} is not complete.",
                f"Fetch it again: mblt-desktop models fetch {row.model_id}", row.note,
            )  # fmt: skip
    if installed:
        yield Finding("models", "Models", "ok", ", ".join(installed))
    else:
        available = next((row.model_id for row in rows if row.state == "available"), "MODEL")
        yield Finding(
            "models", "Models", "warning", "None is installed yet.",
            f"Fetch one: mblt-desktop models fetch {available}",
        )  # fmt: skip


CHECKS: tuple[Check, ...] = (
    _python, _window, _packages, _torch, _device, _monitoring, _sound, _disk, _models,
)  # fmt: skip
