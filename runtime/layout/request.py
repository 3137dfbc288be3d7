"""Device layout: what somebody asks for, and what it means on a board.

The grammar and rules are the vendor's (`mblt_npu`), asked directly, plus the gaps it leaves open: aliases of
native enum values ("0:0:4" would become core 3), numbers of boards that do not exist, and values it drops or
rounds without a word.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Literal, TypeAlias, get_args

from runtime.errors import LayoutError
from runtime.layout import rules as layout_rules
from runtime.layout.parts import is_whole_model, part_named
from runtime.layout.rules import CLUSTERS, CORES_PER_CLUSTER

CoreMode = Literal["auto", "single", "multi", "global4", "global8"]
CORE_MODES: tuple[CoreMode, ...] = get_args(CoreMode)
KwargValue: TypeAlias = "str | int | list[int] | list[str]"

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
    parts: tuple[PartLayout, ...] = ()
    """Parts that are placed by themselves; every other part follows the values above."""


@dataclass(frozen=True, slots=True)
class PartLayout:
    """What the user asked for one part of a model, such as "encoder"."""

    part: str
    layout: LayoutRequest
    """Has no parts and no batch size of its own: conversations are counted for the whole model."""


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
    parts: tuple[tuple[str, NormalisedLayout], ...] = ()
    """Each part that is placed by itself, with its own layout."""


@dataclass(frozen=True, slots=True)
class EffectivePart:
    """What one part of a loaded model really runs on."""

    part: str
    core_mode: str
    cores: tuple[str, ...]
    clusters: tuple[str, ...]


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
    """Compiled models launched side by side (N); of several parts, the most that one has."""
    slots_per_model: int
    """KV slots of each (K)."""
    parts: tuple[EffectivePart, ...] = ()
    """Each part of a model that has several; the values above take them together."""


# -- request to kwargs ---------------------------------------------------------------------------


def validate(request: LayoutRequest, board: str, devices: int) -> NormalisedLayout:
    """Check a request against the vendor's rules and a computer with `devices` such boards.

    Raises LayoutError with the setting's key. `runtime.device.active.activate` must have run before. Whether
    a model has the parts that are named is known to `runtime.layout.check`.
    """
    whole = _validate_one(request, board, devices)
    if not request.parts:
        return whole
    parts: dict[str, NormalisedLayout] = {}
    for part in request.parts:
        if part.part in parts:
            raise layout_rules.twice(part_named(part.part).title)
        batch = request.max_batch_size if part_named(part.part).conversations else None
        try:
            own = _validate_one(replace(part.layout, max_batch_size=batch), board, devices)
        except LayoutError as error:
            raise layout_rules.in_part(part_named(part.part).title, error) from error
        parts[part.part] = own
    notes = [f"{part_named(name).title}: {note}" for name, own in parts.items() for note in own.notes]
    common = () if is_whole_model(set(parts)) else whole.notes
    return replace(whole, parts=tuple(parts.items()), notes=(*common, *notes, *_shared_cores(parts)))


def _validate_one(request: LayoutRequest, board: str, devices: int) -> NormalisedLayout:
    from runtime.device.active import vendor_backend

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
        model_decides=model_decides(request),
        notes=notes_on(request, board),
    )


def _shared_cores(parts: dict[str, NormalisedLayout]) -> list[str]:
    """A note for each two parts with cores in common; the vendor allows it, and they take turns there."""
    notes = []
    names = [name for name, layout in parts.items() if layout.core_mode != "auto"]
    for place, one in enumerate(names):
        for other in names[place + 1 :]:
            common = tuple(sorted(cores_of(parts[one]) & cores_of(parts[other])))
            if common:
                where = layout_rules.say_cores(common)
                both = f"{part_named(one).title} and {part_named(other).title.lower()}"
                notes.append(f"{both} share {where}, where they take turns.")
    return notes


def cores_of(layout: NormalisedLayout) -> frozenset[str]:
    """Every core, as `d:c:k`, that the layout may use; of a mode that takes clusters, all of theirs."""
    whole = (f"{cluster}:{core}" for cluster in layout.clusters for core in range(CORES_PER_CLUSTER))
    return frozenset((*layout.cores, *whole))


def from_pretrained_kwargs(
    layout: NormalisedLayout, prefixes: Iterable[str] = ("",)
) -> dict[str, KwargValue]:
    """The layout as keyword arguments of `from_pretrained`.

    `prefixes` name the submodels of a family: ("encoder_", "decoder_") for Whisper, ("vision_", "text_") for
    image models. Each takes the layout of its part, else the one for all. What was not asked for is left out,
    so that the model's own values stay.
    """
    parts = dict(layout.parts)
    kwargs: dict[str, KwargValue] = {}
    for prefix in prefixes:
        own = _kwargs(parts.get(prefix.removesuffix("_"), layout))
        if layout.max_batch_size is not None:
            own["max_batch_size"] = layout.max_batch_size
        kwargs.update((prefix + key, value) for key, value in own.items())
    return kwargs


def _kwargs(layout: NormalisedLayout) -> dict[str, KwargValue]:
    own: dict[str, KwargValue] = {"target_device": layout.board}
    if not layout.model_decides:
        own["core_mode"] = layout.core_mode
        own["dev_no"] = layout.dev_no[0] if len(layout.dev_no) == 1 else list(layout.dev_no)
        if layout.cores:
            own["target_cores"] = list(layout.cores)
        else:
            own["target_clusters"] = list(layout.clusters)
    return own


def model_decides(request: LayoutRequest) -> bool:
    """Whether nothing is asked for, so that the model's own layout stays."""
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
