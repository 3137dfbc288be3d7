"""Live readings of real boards through Mobilint's monitoring library, when it can tell.

Two builds of the library exist under the same import name: one counts devices through all families, the other
wants the family with every call. A value that the board does not give is None, never 0.
Untested on hardware: whether utilisation comes as a ratio or in per cent is recognised by its size.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from types import ModuleType
from typing import Any

_FAMILIES = ("MBLTML_DEVICE_ARIES", "MBLTML_DEVICE_REGULUS", "MBLTML_DEVICE_REGULUS_USB")


@dataclass(frozen=True, slots=True)
class Readings:
    """One look at one board; None where it does not say."""

    utilisation: float | None = None
    """0…1."""
    memory_used: int | None = None
    """Bytes."""
    memory_total: int | None = None
    temperature: float | None = None
    """Degrees Celsius."""
    power: float | None = None
    """Watts."""


class ReadingsSource:
    """An initialised monitoring library. Calls may take a while: not for the GUI thread."""

    def __init__(self, library: ModuleType, addresses: list[tuple[int, ...]]) -> None:
        self._library = library
        self._addresses = addresses

    @property
    def devices(self) -> int:
        """Boards it knows."""
        return len(self._addresses)

    @property
    def interface(self) -> str:
        """Which build of the library answers."""
        return "mbltml by family" if len(self._addresses[0]) > 1 else "mbltml"

    def read(self, device: int = 0) -> Readings:
        """Everything the board says now."""
        address = self._addresses[device]
        utilisation = self._number("mbltmlGetTotalUtilization", address)
        if utilisation is not None and utilisation > 1.0:
            utilisation /= 100.0
        return Readings(
            utilisation=utilisation,
            memory_used=_whole(self._number("mbltmlGetMemoryUsage", address)),
            memory_total=_whole(self._number("mbltmlGetMemoryTotal", address)),
            temperature=self._number("mbltmlGetTemperature", address),
            power=self._number("mbltmlGetTotalPower", address),
        )

    def close(self) -> None:
        """Give the library's resources back."""
        _try(self._library.mbltmlShutdown)

    def _number(self, name: str, address: tuple[int, ...]) -> float | None:
        call: Callable[..., Any] | None = getattr(self._library, name, None)
        value = None if call is None else _try(call, *address)
        return float(value) if isinstance(value, (int, float)) else None


def open_source() -> ReadingsSource | None:
    """The monitoring library with at least one board, or None."""
    try:
        import mbltml
    except (ImportError, OSError, AttributeError):  # absent, or two builds installed over each other
        return None
    return source_of(mbltml)


def source_of(library: ModuleType) -> ReadingsSource | None:
    """A source over this build of the library; None when it knows no board."""
    try:
        library.mbltmlInit()
    except Exception:  # noqa: BLE001 - its errors are no common class; any of them means "no readings"
        return None
    addresses = _addresses(library)
    if not addresses:
        _try(library.mbltmlShutdown)
        return None
    return ReadingsSource(library, addresses)


def _addresses(library: ModuleType) -> list[tuple[int, ...]]:
    if not hasattr(library, "mbltmlGetTargetDeviceCount"):
        return [(number,) for number in range(_count(library.mbltmlGetDeviceCount))]
    families = [int(getattr(library, name)) for name in _FAMILIES if hasattr(library, name)]
    return [
        (family, number)
        for family in families
        for number in range(_count(library.mbltmlGetTargetDeviceCount, family))
    ]


def _count(call: Callable[..., Any], *arguments: int) -> int:
    value = _try(call, *arguments)
    return value if isinstance(value, int) else 0


def _try(call: Callable[..., Any], *arguments: int) -> Any:
    try:
        return call(*arguments)
    except Exception:  # noqa: BLE001 - its errors are no common class; any of them means "not told"
        return None


def _whole(value: float | None) -> int | None:
    return None if value is None else int(value)
