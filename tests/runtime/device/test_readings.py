"""Readings of the monitoring library: both of its builds, and what a board does not tell."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from runtime.device.readings import Readings, source_of


class NotTold(Exception):
    pass


def refuse(*_args: object) -> object:
    raise NotTold


def library(**members: Any) -> Any:
    """A stand-in with the names of the real `mbltml`."""
    return SimpleNamespace(**{"mbltmlInit": lambda: None, "mbltmlShutdown": lambda: None, **members})


def test_without_a_driver_there_are_no_readings() -> None:
    assert source_of(library(mbltmlInit=refuse)) is None
    shut: list[bool] = []
    none = library(mbltmlGetDeviceCount=lambda: 0, mbltmlShutdown=lambda: shut.append(True))
    assert source_of(none) is None
    assert shut, "a library without boards is closed again"


def test_the_older_build_takes_the_device_number() -> None:
    source = source_of(
        library(
            mbltmlGetDeviceCount=lambda: 2,
            mbltmlGetTotalUtilization=lambda number: (0.5, 71.0)[number],
            mbltmlGetMemoryUsage=lambda number: 1024 * (number + 1),
            mbltmlGetMemoryTotal=lambda number: 4096,
            mbltmlGetTemperature=refuse,
        )
    )
    assert source is not None
    assert source.devices == 2
    assert source.read(0) == Readings(0.5, 1024, 4096, None, None)
    assert source.read(1).utilisation == 0.71


def test_the_newer_build_takes_the_family_as_well() -> None:
    counts = {1: 0, 2: 1}
    source = source_of(
        library(
            MBLTML_DEVICE_ARIES=1,
            MBLTML_DEVICE_REGULUS=2,
            mbltmlGetTargetDeviceCount=counts.__getitem__,
            mbltmlGetTemperature=lambda family, number: family * 20 + number,
        )
    )
    assert source is not None
    assert source.devices == 1
    assert source.interface == "mbltml by family"
    assert source.read() == Readings(temperature=40.0)


def test_zero_is_a_value_and_not_told_is_none() -> None:
    source = source_of(library(mbltmlGetDeviceCount=lambda: 1, mbltmlGetTotalUtilization=lambda number: 0.0))
    assert source is not None
    assert source.read().utilisation == 0.0
    assert source.read().memory_used is None
