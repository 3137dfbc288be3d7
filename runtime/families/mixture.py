"""Qwen3-MoE: a text model whose layers pick a few of many expert networks for each token.

Every layer is a compiled model with a KV cache of its own, every expert is another, and so is the head. They
run one sequence at a time, in single mode, within the context that the vendor serves.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, cast

from runtime.config import DeviceChoice
from runtime.errors import LayoutError
from runtime.families.base import Progress
from runtime.families.causal_lm import CausalLm
from runtime.families.model_info import eos_ids, model_info
from runtime.families.opening import Opening
from runtime.kv.cache import KvCache
from runtime.layout.outcome import in_order
from runtime.layout.request import (
    EffectiveLayout,
    EffectivePart,
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

    def _batch(self, lengths: Sequence[int], caches: Sequence[KvCache]) -> tuple[Any, dict[str, Any]]:
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
    _refuse_what_it_cannot(layout)
    layout = replace(layout, max_batch_size=None)
    first = layout if layout.model_decides else _on_first_core(layout)
    return {
        **from_pretrained_kwargs(first, ("shared_", "lm_head_")),
        **from_pretrained_kwargs(layout, ("expert_",)),
    }


def _refuse_what_it_cannot(layout: NormalisedLayout) -> None:
    if (layout.max_batch_size or 1) > 1:
        raise LayoutError(
            "layout.max_batch_size",
            f"A mixture of experts holds one conversation at a time, not {layout.max_batch_size}.",
            remedy="Leave the number of parallel conversations to the model, or set it to 1.",
            unharmed=_UNHARMED,
        )
    for one in (layout, *(own for _part, own in layout.parts)):
        if one.core_mode != "single" and not one.model_decides:
            raise LayoutError(
                "layout.core_mode" if one is layout else "layout.parts",
                f"A mixture of experts runs in single mode only, not in {one.core_mode}.",
                remedy="Choose the single mode, or leave the layout to the model.",
                unharmed=_UNHARMED,
            )
    head = dict(layout.parts).get("lm_head")
    if head is not None and len({core.split(":")[0] for core in head.cores}) > 1:
        raise LayoutError(
            "layout.parts",
            "The head of a mixture of experts runs on one board only.",
            remedy="Choose cores of one board for it.",
            unharmed=_UNHARMED,
        )


def _on_first_core(layout: NormalisedLayout) -> NormalisedLayout:
    core = layout.cores[0]
    return replace(layout, cores=(core,), dev_no=(int(core.split(":")[0]),))


def effective_layout(backend: Any) -> EffectiveLayout:
    """Where the networks of a loaded mixture run, taken together and by part."""
    cores: set[str] = set()
    parts = []
    for name, role in backend.role_backends.items():
        own = tuple(role.to_dict().get("target_cores", ()))
        cores.update(own)
        parts.append(EffectivePart(name, role.core_mode, own, _clusters(own)))
    return EffectiveLayout(
        board=backend.target_device,
        core_mode=backend.core_mode,
        cores=tuple(sorted(cores)),
        clusters=_clusters(cores),
        dev_no=tuple(sorted({int(core.split(":")[0]) for core in cores})),
        models=1,
        slots_per_model=1,
        parts=in_order(parts),
    )


def _clusters(cores: Iterable[str]) -> tuple[str, ...]:
    return tuple(sorted({core.rpartition(":")[0] for core in cores}))
