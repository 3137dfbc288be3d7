"""A layout as the settings and the command line hold it.

One part of a model is text: `encoder=single@0:0:0,0:0:1` on the command line. The settings file has the
model's id in front: `tiny/encoder=single@0:0:0`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import cast

from runtime.layout.request import CORE_MODES, CoreMode, LayoutRequest, PartLayout
from runtime.settings.types import SettingValue

PART_PATTERN = rf"(?:[^/=]+/)?[a-z_]+=(?:{'|'.join(CORE_MODES)})(?:@[^@]+)?"


def layout_request(get: Callable[[str], SettingValue], model_id: str = "") -> LayoutRequest:
    """The layout that `get` (by setting key) returns for a model; not yet validated against a board."""
    mode = cast("CoreMode", get("layout.core_mode"))
    cores = cast("tuple[str, ...]", get("layout.cores"))
    clusters = cast("tuple[str, ...]", get("layout.clusters"))
    dev_no = cast("tuple[int, ...] | None", get("layout.dev_no"))
    batch = cast("int | None", get("layout.max_batch_size"))
    if dev_no is None:
        dev_no = devices_named(cores, 3) if mode == "single" and cores else devices_named(clusters, 2)
        dev_no = dev_no or devices_named(cores, 3) or (0,)
    parts = parts_for(cast("tuple[str, ...]", get("layout.parts")), model_id, dev_no)
    return LayoutRequest(mode, cores, clusters, dev_no, batch, parts)


def parts_for(items: Iterable[str], model_id: str, dev_no: tuple[int, ...]) -> tuple[PartLayout, ...]:
    """The parts of one model: items that match `PART_PATTERN` and name it, or no model at all.

    A part that names no board is on `dev_no`, those of the layout for all.
    """
    parts = []
    for item in items:
        left, _, right = item.partition("=")
        model, _, part = left.rpartition("/")
        if model in ("", model_id):
            mode, _, targets = right.partition("@")
            named = tuple(target.strip() for target in targets.split(",") if target.strip())
            parts.append(PartLayout(part, part_request(cast("CoreMode", mode), named, dev_no)))
    return tuple(parts)


def part_request(mode: CoreMode, targets: tuple[str, ...], dev_no: tuple[int, ...]) -> LayoutRequest:
    """A part's mode with the cores (single) or clusters (all other modes) that it may use."""
    if mode == "single":
        return LayoutRequest(mode, targets, (), devices_named(targets, 3) or dev_no)
    return LayoutRequest(mode, (), targets, devices_named(targets, 2) or dev_no)


def with_parts(
    items: Iterable[str], model_id: str, parts: Iterable[tuple[str, CoreMode, tuple[str, ...]]]
) -> tuple[str, ...]:
    """The items with the parts of that model replaced by these: name, mode, cores or clusters."""
    others = [item for item in items if not item.startswith(f"{model_id}/")]
    own = [
        f"{model_id}/{part}={mode}" + (f"@{','.join(targets)}" if targets else "")
        for part, mode, targets in parts
    ]
    return (*others, *own)


def devices_named(items: tuple[str, ...], parts: int) -> tuple[int, ...]:
    """The device numbers that full items ("d:c:k" or "d:c") begin with; empty when any item has none."""
    split = [item.split(":") for item in items]
    if not all(len(fields) == parts and fields[0].isascii() and fields[0].isdigit() for fields in split):
        return ()
    return tuple(sorted({int(fields[0]) for fields in split}))
