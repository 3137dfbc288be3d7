"""What every loaded class of transformers-mblt has: slots of its KV, caches for them, and device memory."""

from __future__ import annotations

from typing import Any, cast

from runtime.kv.cache import KvCache


def slots_of(models: int, per_model: int) -> list[tuple[int, int]]:
    """Every (model, cache id), models in turn, so that few conversations spread over many cards."""
    return [(model, cache_id) for cache_id in range(per_model) for model in range(models)]


def new_slot_cache(model: Any, slot: tuple[int, int] = (0, 0)) -> KvCache:
    """A one-row cache of the class the model's family uses, on one (model, cache id)."""
    backend = model.npu_backend
    return cast(
        "KvCache",
        model.get_mobilint_cache_cls()(
            backend.mxq_models,
            per_model_batch=backend.k_per_model,
            slots=[slot],
            **model.get_mobilint_cache_kwargs(),
        ),
    )


def dispose_model(model: Any) -> None:
    """Dispose every submodel that can be: composite wrappers have no `dispose` of their own.

    One that fails keeps none of the others on the device. Raises the first failure, when all had their turn.
    """
    failures: list[Exception] = []
    for module in model.modules():
        dispose = getattr(module, "dispose", None)
        if callable(dispose):
            try:
                dispose()
            except Exception as error:  # noqa: BLE001 - the vendor's, of any class; raised below
                failures.append(error)
    if failures:
        raise failures[0]
