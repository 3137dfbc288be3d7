"""The vendor's caches as the engine needs them: what they are made of, and how they get onto the device."""

from __future__ import annotations

import hashlib
import json
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from runtime.catalog.manifest import read_manifest
from runtime.errors import DeviceError, ModelError, loses_model
from runtime.families.faults import device_faults
from runtime.kv.cache import KvCache
from runtime.kv.store import KvRejectedError, ModelKey
from runtime.messages import ModelInfo
from runtime.simulator.quantised import precision

_ARTIFACT = ("*.mxq", "*.safetensors", "*.json")


@dataclass(frozen=True, slots=True)
class Part:
    """One network's KV of a conversation, and the slot that it is meant for."""

    layer: Any
    mxq_model: Any
    cache_id: int


def parts(cache: KvCache) -> list[Part]:
    """Every KV of a cache: one, or those of a base and its draft, or one for each layer of a mixture."""
    from transformers_mblt.utils.cache_utils import MobilintEagle3Cache, MobilintMixtureOfExpertsCache

    held = cast("Any", cache)
    if isinstance(held, MobilintEagle3Cache):
        return [
            Part(held.base_layer, held.base_mxq_model, 0),
            Part(held.draft_layer, held.draft_mxq_model, 0),
        ]
    if isinstance(held, MobilintMixtureOfExpertsCache):
        pairs = zip(held.shared_layers, held.shared_mxq_models, strict=True)
        return [Part(layer, mxq_model, 0) for layer, mxq_model in pairs]
    return [Part(layer, held.model_of(row), held.slot_of(row)[1]) for row, layer in enumerate(held.layers)]


def load(cache: KvCache) -> float:
    """Put the cache's KV onto its slots now, not with the next call; returns the seconds that took.

    Whoever had the slots is saved first, which is not counted: that had to be done in any case. Raises
    KvRejectedError when the KV is lost or does not fit, DeviceError when it is the device that is lost.
    """
    from transformers_mblt.utils.cache_residency import MobilintCacheStateError, bind_cache_layers

    bindings = [(part.layer, part.mxq_model, part.cache_id) for part in parts(cache)]
    try:
        with device_faults("a conversation's KV"):
            for layer, mxq_model, cache_id in bindings:
                _evict_owner(mxq_model, cache_id, layer)
            started = time.perf_counter()
            bind_cache_layers(bindings)
            return time.perf_counter() - started
    except (MobilintCacheStateError, DeviceError) as error:
        if loses_model(error):
            raise
        raise KvRejectedError(str(error)) from error


def model_key(info: ModelInfo, cache: KvCache) -> ModelKey:
    """What must be equal for KV to be loaded back: the files, the layout and the shapes of the KV.

    Files are told apart by size and time of change, and by the hashes in an installed model's manifest.
    """
    folder = Path(info.folder)
    files = sorted(path for pattern in _ARTIFACT for path in folder.rglob(pattern))
    stats = [(str(path.relative_to(folder)), path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    layout = repr(info.layout)
    shapes = [repr(_signature(part.mxq_model)) for part in parts(cache)]
    computed_in = precision() if info.simulated else ""
    whole = json.dumps([info.model_id, info.device, computed_in, layout, stats, _stated(folder), shapes])
    return ModelKey(info.model_id, layout, hashlib.sha256(whole.encode()).hexdigest()[:32])


def _stated(folder: Path) -> list[tuple[str, str]]:
    """Every file with its SHA-256, as an installed model's manifest has it; empty without a manifest."""
    try:
        return [(record.path, record.sha256) for record in read_manifest(folder).files]
    except ModelError:
        return []


def _signature(mxq_model: Any) -> object:
    from transformers_mblt.utils.cache_residency import mxq_kv_signature

    return mxq_kv_signature(mxq_model)


def _evict_owner(mxq_model: Any, cache_id: int, layer: Any) -> None:
    from transformers_mblt.utils import cache_residency

    if cache_residency.owner(mxq_model, cache_id) is not layer:
        cache_residency.evict(mxq_model, cache_id)
