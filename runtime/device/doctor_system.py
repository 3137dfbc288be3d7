"""What the readiness check asks of the operating system: device nodes, PCI cards, shared libraries."""

from __future__ import annotations

import os
import shutil
import subprocess
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

DEV = Path("/dev")
PCI = Path("/sys/bus/pci/devices")
PCI_VENDOR = "0x209f"
"""Mobilint."""

_NODES = ("aries[0-9]*", "regulus*")
_LDD_SECONDS = 20

# Debian and Ubuntu packages of the libraries that Qt's X11 platform plugin links and minimal systems lack.
_PACKAGES = {
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-util.so.1": "libxcb-util1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxcb.so.1": "libxcb1",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libX11.so.6": "libx11-6",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxkbcommon.so.0": "libxkbcommon0",
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libGLX.so.0": "libglx0",
    "libOpenGL.so.0": "libopengl0",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libdbus-1.so.3": "libdbus-1-3",
    "libglib-2.0.so.0": "libglib2.0-0",
}


@dataclass(frozen=True, slots=True)
class BoardTraces:
    """How far the way to a board goes on this computer."""

    cards: tuple[str, ...]
    """PCI addresses of Mobilint cards."""
    nodes: tuple[str, ...]
    """Device nodes that the driver made."""
    refused: tuple[str, ...]
    """Those of them this user may not open."""


def look_for_boards(dev: Path = DEV, pci: Path = PCI) -> BoardTraces:
    """Cards on the PCI bus and nodes of the driver, without opening any."""
    nodes = sorted(path for pattern in _NODES for path in dev.glob(pattern))
    cards = sorted(vendor.parent.name for vendor in pci.glob("*/vendor") if _text(vendor) == PCI_VENDOR)
    refused = [path for path in nodes if not os.access(path, os.R_OK | os.W_OK)]
    return BoardTraces(tuple(cards), tuple(map(str, nodes)), tuple(map(str, refused)))


def missing_libraries(library: Path) -> list[str]:
    """Shared libraries that `library` needs and the system does not have; empty when it cannot be told."""
    ldd = shutil.which("ldd")
    if ldd is None or not library.is_file():
        return []
    try:
        # The C locale keeps "not found" in English.
        done = subprocess.run(
            [ldd, str(library)],
            capture_output=True,
            text=True,
            timeout=_LDD_SECONDS,
            check=False,
            env={**os.environ, "LC_ALL": "C"},
        )
    except (OSError, subprocess.TimeoutExpired):
        return []
    lines = (line.split("=>") for line in done.stdout.splitlines())
    return sorted({parts[0].strip() for parts in lines if len(parts) > 1 and "not found" in parts[1]})


def packages_for(libraries: Iterable[str]) -> list[str]:
    """Debian and Ubuntu packages that hold these libraries; the file's own name when it is not known."""
    return sorted({_PACKAGES.get(name, name) for name in libraries})


def _text(path: Path) -> str:
    try:
        return path.read_text(encoding="ascii", errors="replace").strip()
    except OSError:
        return ""
