"""How the runtime starts out: the same limits for the window and for a command, from the user's settings."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import cast

from mblt_desktop.settings import file
from runtime.config import DeviceChoice, RuntimeConfig
from runtime.errors import ErrorInfo, SettingError
from runtime.settings.table import SETTINGS, engine_options
from runtime.settings.types import SettingValue


def configured(data_dir: Path, device: DeviceChoice, get: Callable[[str], SettingValue]) -> RuntimeConfig:
    """The runtime's limits, and how it keeps KV, as `get` (by setting key) returns them."""
    return RuntimeConfig(
        data_dir,
        device,
        engine_options(get),
        stall_seconds=float(cast("int", get("advanced.stall_seconds"))),
        load_stall_seconds=float(cast("int", get("advanced.load_stall_seconds"))),
    )


def settings_of(path: Path) -> tuple[Callable[[str], SettingValue], list[ErrorInfo]]:
    """The values of a settings file by key, for a command, and what was wrong with the file.

    The default stands for what is not in it, or is not taken.
    """
    stored, problems = file.read(path)

    def get(key: str) -> SettingValue:
        setting = SETTINGS[key]
        try:
            return setting.check(stored[key]) if key in stored else setting.default
        except SettingError:
            return setting.default

    return get, problems
