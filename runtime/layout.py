"""Device layout: what somebody asks for, what it means on a board, and what took effect.

The grammar and rules are the vendor's (`mblt_npu`), asked directly, plus the gaps it leaves open: aliases of
native enum values ("0:0:4" would become core 3), numbers of boards that do not exist, and values it drops or
rounds without a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

from runtime import layout_rules
from runtime.errors import LayoutError

CoreMode = Literal["auto", "single", "multi", "global4", "global8"]
KwargValue: TypeAlias = "str | int | list[int] | list[str]"

CLUSTERS = 2
CORES_PER_CLUSTER = 4
_BATCH_MODES = ("auto", "single")
_LONGEST_INDEX = 9


@dataclass(frozen=True, slots=True)
class LayoutRequest:
    """What the user asked for. Empty tuples mean "the whole device"."""

    core_mode: CoreMode = "auto"
    target_cores: tuple[str, ...] = ()
    """Canonical `d:c:k` items; used by single."""
    target_clusters: tuple[str, ...] = ()
    """Canonical `d:c` items; used by auto, multi, global4 and global8."""
    dev_no: tuple[int, ...] = (0,)
    max_batch_size: int | None = None
    """None takes the artifact's own."""


@dataclass(frozen=True, slots=True)
class NormalisedLayout:
    """A request that the vendor's rules and the board allow, spelled out."""

    board: str
    core_mode: CoreMode
    cores: tuple[str, ...]
    """Every core it may use, as `d:c:k`; empty unless the mode is single."""
    clusters: tuple[str, ...]
    """Every cluster it may use, as `d:c`; empty in single mode."""
    dev_no: tuple[int, ...]
    max_batch_size: int | None
    model_decides: bool
    """Nothing was asked for, so the model's own layout stays as it is."""
    notes: tuple[str, ...] = ()
    """What differs from the request, in words."""


@dataclass(frozen=True, slots=True)
class EffectiveLayout:
    """What the loaded model really runs on."""

    board: str
    """The vendor's device name, e.g. "aries-rb"."""
    core_mode: str
    cores: tuple[str, ...]
    clusters: tuple[str, ...]
    dev_no: tuple[int, ...]
    models: int
    """Compiled models launched side by side (N)."""
    slots_per_model: int
    """KV slots of each (K)."""


# -- request to kwargs ---------------------------------------------------------------------------


def validate(request: LayoutRequest, board: str, devices: int) -> NormalisedLayout:
    """Check a request against the vendor's rules and a computer with `devices` such boards.

    Raises LayoutError with the setting's key. `runtime.devices.activate` must have run before.
    """
    from runtime.devices import vendor_backend

    _check_numbers(request, devices)
    cores = [_plain(item) for item in request.target_cores]
    clusters = [_plain(item) for item in request.target_clusters]
    dev_no = tuple(dict.fromkeys(request.dev_no))
    try:
        backend = vendor_backend()(
            target_device=board,
            core_mode=request.core_mode,
            dev_no=dev_no[0] if len(dev_no) == 1 else list(dev_no),
            target_cores=cores or None,
            target_clusters=clusters or None,
            max_batch_size=request.max_batch_size or 1,
        )
        canonical = backend.to_dict()
    except (ValueError, TypeError) as error:
        raise layout_rules.explain(error) from error
    _check_aliases("target_cores", cores)
    _check_aliases("target_clusters", clusters)
    return NormalisedLayout(
        board=canonical["target_device"],
        core_mode=request.core_mode,
        cores=tuple(canonical.get("target_cores", ())),
        clusters=tuple(canonical.get("target_clusters", ())),
        dev_no=dev_no,
        max_batch_size=request.max_batch_size,
        model_decides=_model_decides(request),
        notes=notes_on(request, board),
    )


def from_pretrained_kwargs(
    layout: NormalisedLayout, prefixes: Iterable[str] = ("",)
) -> dict[str, KwargValue]:
    """The layout as keyword arguments of `from_pretrained`.

    `prefixes` name the submodels of a family: ("encoder_", "decoder_") for Whisper, ("vision_", "text_") for
    image models. What was not asked for is left out, so that the model's own values stay.
    """
    own: dict[str, KwargValue] = {"target_device": layout.board}
    if not layout.model_decides:
        own["core_mode"] = layout.core_mode
        own["dev_no"] = layout.dev_no[0] if len(layout.dev_no) == 1 else list(layout.dev_no)
        if layout.cores:
            own["target_cores"] = list(layout.cores)
        else:
            own["target_clusters"] = list(layout.clusters)
    if layout.max_batch_size is not None:
        own["max_batch_size"] = layout.max_batch_size
    return {prefix + key: value for prefix in prefixes for key, value in own.items()}


def _model_decides(request: LayoutRequest) -> bool:
    return (
        request.core_mode == "auto"
        and not request.target_cores
        and not request.target_clusters
        and set(request.dev_no) == {0}
    )


def _check_numbers(request: LayoutRequest, devices: int) -> None:
    if not request.dev_no:
        raise LayoutError(
            "layout.dev_no",
            "No device number is given.",
            remedy="Name at least one device, such as 0.",
            unharmed=layout_rules.UNHARMED,
        )
    for number in request.dev_no:
        if isinstance(number, bool) or not isinstance(number, int) or not 0 <= number < devices:
            there = "only device 0" if devices == 1 else f"the devices 0 to {devices - 1}"
            raise LayoutError(
                "layout.dev_no",
                f"There is no device {number}.",
                remedy=f"This computer has {there}.",
                unharmed=layout_rules.UNHARMED,
            )
    batch = request.max_batch_size
    if batch is None:
        return
    if isinstance(batch, bool) or not isinstance(batch, int) or batch < 1:
        raise LayoutError(
            "layout.max_batch_size",
            f"A model cannot hold {batch} parallel conversations.",
            remedy="Give 1 or more, or leave it to the model.",
            unharmed=layout_rules.UNHARMED,
        )
    if batch > 1 and request.core_mode not in _BATCH_MODES:
        raise LayoutError(
            "layout.max_batch_size",
            f"Several parallel conversations do not go together with the mode {request.core_mode}.",
            remedy="Choose the automatic or the single mode, or 1 conversation.",
            unharmed=layout_rules.UNHARMED,
            detail=f"Batch execution only supports core mode single or auto, got '{request.core_mode}'.",
        )


def _plain(item: str) -> str:
    """Drop leading zeros, which the vendor would keep in the device part; leave everything else to it."""
    parts = item.split(":") if isinstance(item, str) else []
    if parts and all(part.isascii() and part.isdigit() and len(part) <= _LONGEST_INDEX for part in parts):
        return ":".join(str(int(part)) for part in parts)
    return item


def _check_aliases(field: str, items: list[str]) -> None:
    """Refuse what the vendor takes for a native enum value or a non-ASCII digit."""
    limits = (CLUSTERS, CORES_PER_CLUSTER) if field == "target_cores" else (CLUSTERS,)
    for item in items:
        if not isinstance(item, str):
            continue
        indices = item.split(":")[-len(limits) :]
        inside = all(
            len(index) <= _LONGEST_INDEX and int(index) < limit
            for index, limit in zip(indices, limits, strict=True)
        )
        if not item.isascii() or not inside:
            raise layout_rules.bad_item(field, item)


def notes_on(request: LayoutRequest, board: str = "aries-rb") -> tuple[str, ...]:
    """What of a request will be dropped, rounded or has no effect, in words; needs no device."""
    mode, cores, clusters = request.core_mode, request.target_cores, request.target_clusters
    single = mode == "single"
    notes = []
    if cores and clusters:
        notes.append(f"The named {'clusters' if single else 'cores'} are not used in {mode} mode.")
    if mode == "auto" and (cores or clusters):
        notes.append(
            "In automatic mode the NPU software picks the cores that the model was compiled for; "
            "what is named here only chooses the board."
        )
    elif not single and not clusters and not board.startswith("regulus"):
        notes += [
            f"Rounded up to all cores of cluster {cluster}: {mode} mode uses whole clusters."
            for cluster, chosen in sorted(_by_cluster(cores).items())
            if len(chosen) < CORES_PER_CLUSTER
        ]
    return tuple(notes)


def _by_cluster(cores: Iterable[str]) -> dict[str, set[str]]:
    found: dict[str, set[str]] = {}
    for core in cores:
        cluster, _, index = _plain(core).rpartition(":")
        found.setdefault(cluster, set()).add(index)
    return found


# -- what took effect ----------------------------------------------------------------------------


def effective_from_model(model: Any) -> EffectiveLayout | None:
    """Read the layout from a loaded model's compiled models; None when it has none.

    `model` is a torch module; submodels (encoder and decoder, vision and text) are taken together: their
    modes are joined, their cores united, their compiled models added up.
    """
    backends: dict[int, Any] = {}
    for module in model.modules():
        backend = getattr(module, "npu_backend", None)
        if getattr(backend, "mxq_models", None):
            backends[id(backend)] = backend
    if not backends:
        return None
    modes: dict[str, None] = {}
    cores: set[str] = set()
    clusters: set[str] = set()
    for backend in backends.values():
        for compiled, device in zip(backend.mxq_models, backend.model_dev_no, strict=True):
            mode = compiled.get_core_mode().name.lower()
            modes[mode] = None
            used = [
                f"{device}:{_index(core.cluster)}:{_index(core.core)}" for core in compiled.get_target_cores()
            ]
            cores.update(used)
            clusters.update(core.rpartition(":")[0] for core in used)
        if not cores:
            clusters.update(backend.to_dict().get("target_clusters", ()))
    all_backends = list(backends.values())
    return EffectiveLayout(
        board=all_backends[0].target_device,
        core_mode=" + ".join(modes),
        cores=tuple(sorted(cores)),
        clusters=tuple(sorted(clusters)),
        dev_no=tuple(sorted({int(number) for backend in all_backends for number in backend.model_dev_no})),
        models=sum(len(backend.mxq_models) for backend in all_backends),
        slots_per_model=max(int(backend.k_per_model) for backend in all_backends),
    )


def _index(member: Any) -> int:
    """0 for Cluster0 or Core0, and so on; the native values are something else."""
    return int(member.name[-1])


# -- in words ------------------------------------------------------------------------------------


def say_request(request: LayoutRequest) -> str:
    """What was asked for, e.g. "global4 on cluster 0:0"."""
    cores, clusters = request.target_cores, request.target_clusters
    if cores and (request.core_mode == "single" or not clusters):
        return f"{request.core_mode} on {_say_cores(cores)}"
    if clusters:
        return f"{request.core_mode} on {_say_clusters(clusters)}"
    if _model_decides(request):
        return "auto, as the model says"
    devices = ", ".join(str(number) for number in request.dev_no)
    return f"{request.core_mode} on the whole device {devices}"


def say_effective(layout: EffectiveLayout) -> str:
    """What took effect, e.g. "single on cores 0:0:0, 0:0:1, room for 8 conversations in 2 copies"."""
    where = "cores that the NPU software picks"
    if "single" in layout.core_mode and layout.cores:
        where = _say_cores(layout.cores)
    elif layout.clusters:
        where = _say_clusters(layout.clusters)
    room = layout.models * layout.slots_per_model
    conversations = "1 conversation" if room == 1 else f"{room} conversations"
    copies = "" if layout.models == 1 else f" in {layout.models} copies"
    return f"{layout.core_mode} on {where}, room for {conversations}{copies}"


def say_outcome(request: LayoutRequest, layout: EffectiveLayout) -> str:
    """Requested → effective, in one line."""
    return f"{say_request(request)} → {say_effective(layout)}"


def _say_cores(cores: tuple[str, ...]) -> str:
    return _say_items("core", cores, CLUSTERS * CORES_PER_CLUSTER)


def _say_clusters(clusters: tuple[str, ...]) -> str:
    return _say_items("cluster", clusters, CLUSTERS)


def _say_items(noun: str, items: tuple[str, ...], per_device: int) -> str:
    devices = sorted({item.split(":")[0] for item in items})
    if len(items) == per_device * len(devices):
        return f"all {noun}s of device {', '.join(devices)}"
    return f"{noun}{'' if len(items) == 1 else 's'} {', '.join(items)}"
