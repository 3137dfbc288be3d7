"""Qwen3-MoE: a text model whose layers pick a few of many expert networks for each token.

Every layer is a compiled model with a KV cache of its own, every expert is another, and so is the head. They
run one sequence at a time, in single mode, within the context that the vendor serves.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from runtime.config import DeviceChoice
from runtime.errors import LayoutError
from runtime.families.base import KvCache, Progress
from runtime.families.causal_lm import CausalLm, eos_ids, model_info
from runtime.families.opening import Opening
from runtime.layout import (
    EffectiveLayout,
    LayoutRequest,
    NormalisedLayout,
    from_pretrained_kwargs,
)

LONGEST_CONTEXT = 4096
_UNHARMED = "Nothing was loaded; other models and your conversations are unharmed."


class Mixture(CausalLm):
    """A loaded mixture of experts; it holds one conversation at a time."""

    def new_cache(self) -> KvCache:
        """An empty cache for one conversation: one KV a layer, which the vendor moves together."""
        return cast("KvCache", self.vendor_model.build_mobilint_cache())

    def place(self, cache: KvCache, slot: int) -> KvCache:
        """There is one slot."""
        return cache

    def _find_slots(self) -> list[tuple[int, int]]:
        return [(0, 0)]

    def _batch(self, ids: Any, caches: Sequence[KvCache]) -> tuple[Any, dict[str, Any]]:
        return caches[0], {}


def load_mixture(
    model_id: str, folder: Path, family: str, layout: LayoutRequest, device: DeviceChoice, progress: Progress
) -> Mixture:
    """Load a mixture of experts; raises ModelError, LayoutError or DeviceError, with all the words."""
    opening = Opening(folder, layout, device, progress)
    from transformers import AutoModelForCausalLM, AutoTokenizer

    kwargs = role_kwargs(opening.layout)
    (tokenizer,) = opening.read("its tokenizer files", AutoTokenizer)
    model = opening.load(AutoModelForCausalLM, kwargs)
    first = model.get_shared_mxq_models()[0]
    info = model_info(
        model_id, folder, family, "chat", model, opening.active, opening.seconds, compiled=first
    )
    info = replace(
        info,
        layout=effective_layout(model.npu_backend),
        context_length=min(info.context_length, LONGEST_CONTEXT),
    )
    return Mixture(model, tokenizer, info, eos_ids(model, tokenizer))


def role_kwargs(layout: NormalisedLayout) -> dict[str, Any]:
    """The layout as the vendor's keyword arguments for the three kinds of networks.

    The experts get every core asked for; the layers and the head, which run one after the other, the first
    one. Raises LayoutError for what a mixture cannot do.
    """
    if (layout.max_batch_size or 1) > 1:
        raise LayoutError(
            "layout.max_batch_size",
            f"A mixture of experts holds one conversation at a time, not {layout.max_batch_size}.",
            remedy="Leave the number of parallel conversations to the model, or set it to 1.",
            unharmed=_UNHARMED,
        )
    layout = replace(layout, max_batch_size=None)
    if layout.model_decides:
        return dict(from_pretrained_kwargs(layout, ("shared_", "expert_", "lm_head_")))
    if layout.core_mode != "single":
        raise LayoutError(
            "layout.core_mode",
            f"A mixture of experts runs in single mode only, not in {layout.core_mode}.",
            remedy="Choose the single mode, or leave the layout to the model.",
            unharmed=_UNHARMED,
        )
    first = layout.cores[0]
    one = replace(layout, cores=(first,), dev_no=(int(first.split(":")[0]),))
    return {
        **from_pretrained_kwargs(one, ("shared_", "lm_head_")),
        **from_pretrained_kwargs(layout, ("expert_",)),
    }


def effective_layout(backend: Any) -> EffectiveLayout:
    """Where the networks of a loaded mixture run, taken together."""
    cores: set[str] = set()
    for role in backend.role_backends.values():
        cores.update(role.to_dict().get("target_cores", ()))
    return EffectiveLayout(
        board=backend.target_device,
        core_mode=backend.core_mode,
        cores=tuple(sorted(cores)),
        clusters=tuple(sorted({core.rpartition(":")[0] for core in cores})),
        dev_no=tuple(sorted({int(core.split(":")[0]) for core in cores})),
        models=1,
        slots_per_model=1,
    )
