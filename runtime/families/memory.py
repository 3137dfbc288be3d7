"""What to try when a model does not fit into the device's memory, worked out from what was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from runtime.errors import DeviceMemoryError
from runtime.layout.parts import part_named
from runtime.layout.request import LayoutRequest
from runtime.layout.rules import CLUSTERS, CORES_PER_CLUSTER
from runtime.model_folder import read_config

_PLACES = ("core_mode", "target_cores", "target_clusters")


@contextmanager
def smaller_advised(folder: Path, request: LayoutRequest) -> Iterator[None]:
    """The block loads the model; a DeviceMemoryError leaves it with the next smaller layout as its remedy."""
    try:
        yield
    except DeviceMemoryError as error:
        error.remedy = remedy(request, read_config(folder))
        raise


def remedy(request: LayoutRequest, config: dict[str, Any]) -> str:
    """The next smaller batch if fewer copies of the model would do, else a layout on fewer cores."""
    compiled = max(1, int(config.get("max_batch_size") or 1))
    asked = request.max_batch_size or compiled
    copies = -(-asked // compiled)
    if copies > 1:
        fewer = (copies - 1) * compiled
        return (
            f"Load it for {fewer} parallel conversations instead of {asked} (Settings, Device & layout), "
            "or unload another model first."
        )
    smaller = _smaller_part(request, config) if request.parts else _smaller_layout(request, config)
    if smaller:
        return f"Unload another model first, or load it {smaller}, if it was compiled for that."
    return "Unload another model first, or choose a variant with a smaller batch or a shorter context."


def _smaller_part(request: LayoutRequest, config: dict[str, Any]) -> str:
    """The same for the first part, of those placed by themselves, that can do with less."""
    for part in request.parts:
        own = {key: config.get(f"{part.part}_{key}") for key in _PLACES}
        smaller = _smaller_layout(part.layout, own)
        if smaller:
            return f"with its {part_named(part.part).title.lower()} {smaller}"
    return ""


def _smaller_layout(request: LayoutRequest, config: dict[str, Any]) -> str:
    """In words; empty when there is none. What was not asked for is as the model's own config has it."""
    own = request.core_mode == "auto"
    mode = str(config.get("core_mode") or "auto") if own else request.core_mode
    boards = max(1, len(set(request.dev_no)))
    if boards > 1:
        return f"on one board instead of {boards}"
    if mode == "single":
        cores = len(request.target_cores or (own and config.get("target_cores")) or ())
        cores = cores or CLUSTERS * CORES_PER_CLUSTER
        return f"on one core instead of {cores}" if cores > 1 else ""
    named = request.target_clusters or (own and config.get("target_clusters")) or ()
    clusters = len(named) or CLUSTERS
    if mode == "global8":
        return "in global4 mode on one cluster"
    if clusters > 1:
        return f"on one cluster instead of {clusters}"
    return "in single mode on one core"
