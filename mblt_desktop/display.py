"""What must be so before Qt opens a window, because Qt itself would only abort."""

from __future__ import annotations

import ctypes
import importlib.util
import os
from collections.abc import MutableMapping
from pathlib import Path

from runtime.device.doctor_system import missing_libraries, packages_for
from runtime.errors import MbltError


class DisplayError(MbltError):
    """There is no place to open a window."""

    code = "display"


def prepare_display(environment: MutableMapping[str, str] = os.environ) -> None:
    """Check that a window can be opened and set what Qt reads at start; raises DisplayError."""
    platform = environment.get("QT_QPA_PLATFORM", "")
    wayland, x11 = environment.get("WAYLAND_DISPLAY"), environment.get("DISPLAY")
    if not platform and not wayland and not x11:
        raise DisplayError(
            "There is no display to open a window on.",
            remedy="Start it from a desktop session, or use the commands: mblt-desktop --help.",
            unharmed="Your data is unharmed.",
        )
    if platform.startswith("xcb") or (not platform and not wayland):
        _check_xcb()
    _choose_input_method(environment)


def _check_xcb() -> None:
    """Load Qt's X11 plugin as Qt would, and say which packages are missing when that fails."""
    spec = importlib.util.find_spec("PySide6")
    if spec is None or not spec.submodule_search_locations:
        return
    plugin = Path(spec.submodule_search_locations[0]) / "Qt" / "plugins" / "platforms" / "libqxcb.so"
    try:
        ctypes.CDLL(str(plugin))
    except OSError as error:
        packages = " ".join(packages_for(missing_libraries(plugin))) or "libxcb-cursor0"
        raise DisplayError(
            "Qt cannot open a window: system libraries are missing.",
            remedy=f"Install them: sudo apt install {packages}",
            unharmed="Your data is unharmed.",
            detail=str(error),
        ) from None


def _choose_input_method(environment: MutableMapping[str, str]) -> None:
    """The Qt wheel has no fcitx plugin; fcitx also speaks the ibus protocol, so Hangul can be typed."""
    wanted = " ".join(environment.get(name, "") for name in ("QT_IM_MODULE", "XMODIFIERS", "GTK_IM_MODULE"))
    if "fcitx" in wanted:
        environment["QT_IM_MODULE"] = "ibus"
