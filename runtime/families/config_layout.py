"""What a model's own config.json says about cores, when that is why the model cannot be loaded."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runtime.device.active import ActiveDevice, vendor_backend
from runtime.errors import DeviceError, DeviceMemoryError, ModelDamagedError
from runtime.layout import rules as layout_rules
from runtime.layout.request import CORE_MODES
from runtime.model_folder import read_config

_FIELDS = ("core_mode", "target_cores", "target_clusters", "dev_no", "max_batch_size")


@contextmanager
def layout_named(folder: Path, active: ActiveDevice) -> Iterator[None]:
    """The block loads the model; a failure that a wrong value in config.json explains names file and key.

    Only then is it looked at: a value that nothing reads does no harm.
    """
    try:
        yield
    except DeviceMemoryError:
        raise
    except (ModelDamagedError, DeviceError) as error:
        for prefix, values in _groups(read_config(folder)):
            wrong = _wrong(prefix, values, active)
            if wrong is not None:
                what, remedy = wrong
                raise ModelDamagedError(
                    f"{folder / 'config.json'}: {what}",
                    remedy=f"{remedy} Or fetch the model again.",
                    detail=error.detail or error.summary,
                ) from error
        raise


def _groups(config: Mapping[str, Any], path: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """For each network its prefix, such as "encoder_" or "text_config.", and its fields without it."""
    found: dict[str, dict[str, Any]] = {}
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _groups(value, f"{path}{key}.")
        for field in _FIELDS:
            if key.endswith(field) and value is not None:
                found.setdefault(key.removesuffix(field), {})[field] = value
    for prefix, values in found.items():
        yield path + prefix, values


def _wrong(prefix: str, values: dict[str, Any], active: ActiveDevice) -> tuple[str, str] | None:
    """What is wrong with the values of a network, and what to do; None when nothing is."""
    mode = values.get("core_mode", "auto")
    if not isinstance(mode, str) or mode not in CORE_MODES:
        return (
            f"{prefix}core_mode is “{mode}”, which is not a core mode.",
            f"Make it one of {', '.join(CORE_MODES)}.",
        )
    numbers = values.get("dev_no", 0)
    for number in numbers if isinstance(numbers, list) else [numbers]:
        if not isinstance(number, int) or not 0 <= number < active.devices:
            remedy = "Choose cores of another device (Settings, Device & layout), or correct it."
            return f"{prefix}dev_no is {number}, a device that this computer does not have.", remedy
    try:
        vendor_backend()(**{"target_device": active.board, "dev_no": None, **values}).to_dict()
    except (ValueError, TypeError) as error:
        refusal = layout_rules.explain(error)
        named = next((field for field in _FIELDS[1:3] if field in refusal.detail), "core_mode")
        return f"{prefix}{named} is wrong. {refusal.summary}", refusal.remedy
    return None
