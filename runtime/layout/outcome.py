"""What came of a layout: what a loaded model really runs on, and requested and effective in words."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

from runtime.layout.parts import PARTS, is_whole_model, part_named, parts_of
from runtime.layout.request import EffectiveLayout, EffectivePart, LayoutRequest, model_decides
from runtime.layout.rules import say_clusters, say_cores

# -- what took effect ----------------------------------------------------------------------------


def effective_from_model(model: Any) -> EffectiveLayout | None:
    """Read the layout from a loaded model's compiled models; None when it has none.

    `model` is a torch module; submodels (encoder and decoder, vision and text) are taken together: their
    modes are joined, their cores united, and the one with most copies counts. `parts` tells them apart.
    """
    found: dict[int, Any] = {}
    for module in model.modules():
        backend = getattr(module, "npu_backend", None)
        if getattr(backend, "mxq_models", None):
            found[id(backend)] = backend
    if not found:
        return None
    backends = list(found.values())
    each = [_read(backend) for backend in backends]
    config = getattr(model, "config", None)
    names = [_part_of(config, backend) for backend in backends]
    return EffectiveLayout(
        board=backends[0].target_device,
        core_mode=_joined(part.core_mode for part in each),
        cores=_united(part.cores for part in each),
        clusters=_united(part.clusters for part in each),
        dev_no=tuple(sorted({int(number) for backend in backends for number in backend.model_dev_no})),
        models=max(len(backend.mxq_models) for backend in backends),
        slots_per_model=max(int(backend.k_per_model) for backend in backends),
        parts=in_order(replace(part, part=name) for name, part in zip(names, each, strict=True) if name),
    )


def _read(backend: Any) -> EffectivePart:
    """One backend's compiled models, for a part that has no name yet."""
    modes: dict[str, None] = {}
    cores: set[str] = set()
    for compiled, device in zip(backend.mxq_models, backend.model_dev_no, strict=True):
        modes[compiled.get_core_mode().name.lower()] = None
        cores.update(
            f"{device}:{_index(core.cluster)}:{_index(core.core)}" for core in compiled.get_target_cores()
        )
    clusters = {core.rpartition(":")[0] for core in cores}
    if not cores:
        clusters.update(backend.to_dict().get("target_clusters", ()))
    return EffectivePart("", " + ".join(modes), tuple(sorted(cores)), tuple(sorted(clusters)))


def _part_of(config: Any, backend: Any) -> str:
    """The part that a backend runs: the one whose compiled file it is; empty when the model has none."""
    family = str(getattr(config, "model_type", "")).removeprefix("mobilint-")
    for part in parts_of(family):
        if getattr(config, f"{part.name}_mxq_path", None) == backend.mxq_path:
            return part.name
    return ""


def in_order(parts: Iterable[EffectivePart]) -> tuple[EffectivePart, ...]:
    """The parts in the order in which data passes through them."""
    order = [part.name for known in PARTS.values() for part in known]
    return tuple(sorted(parts, key=lambda part: order.index(part.part)))


def _joined(modes: Iterable[str]) -> str:
    return " + ".join(dict.fromkeys(modes))


def _united(items: Iterable[tuple[str, ...]]) -> tuple[str, ...]:
    return tuple(sorted({one for some in items for one in some}))


def _index(member: Any) -> int:
    """0 for Cluster0 or Core0, and so on; the native values are something else."""
    return int(member.name[-1])


# -- in words ------------------------------------------------------------------------------------


def say_request(request: LayoutRequest) -> str:
    """What was asked for, e.g. "global4 on cluster 0:0", or "encoder single on core 0:0:0, decoder …"."""
    parts = ", ".join(
        f"{part_named(part.part).title.lower()} {_say_one(part.layout)}" for part in request.parts
    )
    if parts and is_whole_model({part.part for part in request.parts}):
        return parts
    return f"{_say_one(request)}, but {parts}" if parts else _say_one(request)


def _say_one(request: LayoutRequest) -> str:
    cores, clusters = request.target_cores, request.target_clusters
    if cores and (request.core_mode == "single" or not clusters):
        return f"{request.core_mode} on {say_cores(cores)}"
    if clusters:
        return f"{request.core_mode} on {say_clusters(clusters)}"
    if model_decides(request):
        return "auto, as the model says"
    devices = ", ".join(str(number) for number in request.dev_no)
    return f"{request.core_mode} on the whole device {devices}"


def say_effective(layout: EffectiveLayout) -> str:
    """What took effect, e.g. "single on cores 0:0:0, 0:0:1, room for 8 conversations in 2 copies".

    Parts that run in different places are said one by one.
    """
    places = {(part.core_mode, part.cores, part.clusters) for part in layout.parts}
    where = _say_place(layout)
    if len(places) > 1:
        where = "; ".join(
            f"{part_named(part.part).title.lower()} {_say_place(part)}" for part in layout.parts
        )
    room = layout.models * layout.slots_per_model
    conversations = "1 conversation" if room == 1 else f"{room} conversations"
    copies = "" if layout.models == 1 else f" in {layout.models} copies"
    return f"{where}{';' if len(places) > 1 else ','} room for {conversations}{copies}"


def _say_place(layout: EffectiveLayout | EffectivePart) -> str:
    where = "cores that the NPU software picks"
    if "single" in layout.core_mode and layout.cores:
        where = say_cores(layout.cores)
    elif layout.clusters:
        where = say_clusters(layout.clusters)
    return f"{layout.core_mode} on {where}"
