"""The vendor's caches as the engine needs them: how to load them, and which may be kept on the disk."""

from __future__ import annotations

import hashlib
import json
import time
from pathlib import Path
from typing import Any, cast

from runtime.errors import DeviceError, DeviceLostError, DeviceStalledError
from runtime.families.base import KvCache
from runtime.families.faults import device_faults
from runtime.kv_store import KvRejectedError, ModelKey
from runtime.messages import ModelInfo
from runtime.simulator.quantised import precision

_ARTIFACT = ("*.mxq", "*.safetensors", "*.json")


def load(cache: KvCache) -> float:
    """Put the cache's KV onto its slot now, not with the next call; returns the seconds that took.

    Whoever had the slot is saved first, which is not counted: that had to be done in any case. Raises
    KvRejectedError when the KV is lost or does not fit, DeviceError when it is the device that is lost.
    """
    vendor_cache = cast("Any", cache)
    bind = getattr(vendor_cache, "bind_rows", None)
    if bind is None:  # the caches of several submodels bind themselves
        return 0.0
    from transformers_mblt.utils.cache_residency import MobilintCacheStateError

    try:
        with device_faults("a conversation's KV"):
            for row, layer in enumerate(vendor_cache.layers):
                _evict_owner(vendor_cache.model_of(row), vendor_cache.slot_of(row)[1], layer)
            started = time.perf_counter()
            bind(vendor_cache, range(len(vendor_cache.layers)))
            return time.perf_counter() - started
    except (DeviceLostError, DeviceStalledError):
        raise
    except (MobilintCacheStateError, DeviceError) as error:
        raise KvRejectedError(str(error)) from error


def can_be_kept(cache: KvCache) -> bool:
    """Whether the files hold all there is to the cache: a speculating or mixed model's has more state."""
    return hasattr(cache, "bind_rows")


def model_key(info: ModelInfo, cache: KvCache) -> ModelKey:
    """What must be equal for KV to be loaded back: the files, the layout and the shapes of the KV."""
    files = sorted(path for pattern in _ARTIFACT for path in Path(info.folder).glob(pattern))
    stats = [(path.name, path.stat().st_size, path.stat().st_mtime_ns) for path in files]
    layout = repr(info.layout)
    shapes = [repr(_signature(layer.mxq_model)) for layer in cast("Any", cache).layers]
    computed_in = precision() if info.simulated else ""
    whole = json.dumps([info.model_id, info.device, computed_in, layout, stats, shapes])
    return ModelKey(info.model_id, layout, hashlib.sha256(whole.encode()).hexdigest()[:32])


def _signature(mxq_model: Any) -> object:
    from transformers_mblt.utils.cache_residency import mxq_kv_signature

    return mxq_kv_signature(mxq_model)


def _evict_owner(mxq_model: Any, cache_id: int, layer: Any) -> None:
    from transformers_mblt.utils import cache_residency

    if cache_residency.owner(mxq_model, cache_id) is not layer:
        cache_residency.evict(mxq_model, cache_id)
