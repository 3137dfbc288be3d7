"""A Llama, Qwen2 or Qwen3 checkpoint and an EAGLE-3 draft for it as base, draft and fc artifacts.

A draft is a checkpoint as the method's authors publish them: the `config.json` of a one-layer Llama, and in
its safetensors `midlayer.*`, `fc.weight`, `norm.weight`, `lm_head.weight`, `d2t` and `t2d` (which of the
base's tokens its own, smaller vocabulary holds), and `embed_tokens.weight` unless it shares the base's.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from runtime.errors import ModelUnsupportedError, SettingError
from runtime.simulator.artifact import Header
from runtime.simulator.build import Target
from runtime.simulator.build_decoder import (
    NAMES,
    decoder_architecture,
    layer_tensors,
    rotary_frequencies,
    write_decoder,
)
from runtime.simulator.checkpoint import Checkpoint
from runtime.simulator.eagle3 import FEATURES, ProjectorArchitecture

if TYPE_CHECKING:
    import torch

_BASE, _DRAFT = "eagle3_base_model.", "eagle3_draft_model."
_LAYER = "midlayer."


def build_eagle3(base: Checkpoint, draft: Checkpoint, target: Target) -> None:
    """Write the three `.mxq` files, their weights and what the host reads of both checkpoints."""
    config, draft_config = base.load_config(), draft.load_config()
    _check(base, draft, config, draft_config, target)
    header = write_decoder(
        base,
        config,
        target,
        role="eagle3 base",
        embedding=f"{_BASE}embed_tokens.weight",
        host_tensors=_host_tensors(base, draft, draft_config),
    )
    family = base.model_type
    known = getattr(draft_config, "draft_vocab_size", config.vocab_size)
    target.config |= {
        "model_type": f"mobilint-{family}-eagle3",
        "architectures": [f"Mobilint{NAMES[family]}Eagle3ForCausalLM"],
        "npu_prefill_chunk_size": header.prefill_width,
        "draft_config": draft_config.to_dict(),
        "eagle3_tree_depth": 5,
        "eagle3_tree_top_k": min(8, known),
    }
    features = {"features": _features(draft, config.num_hidden_layers)}
    target.write_mxq(
        "base.mxq", replace(header, architecture={**header.architecture, **features}), prefix="base_"
    )
    target.write_mxq("draft.mxq", _drafted(draft, draft_config, header, known, target), prefix="draft_")
    width = config.hidden_size
    projector = Header(
        role="eagle3 fc",
        architecture=asdict(ProjectorArchitecture(FEATURES * width, width)),
        weights=tuple(target.write_weights("fc", [("fc", draft.tensor("fc.weight").T)])),
    )
    target.write_mxq("fc.mxq", projector, prefix="fc_")


def _drafted(draft: Checkpoint, draft_config: Any, header: Header, known: int, target: Target) -> Header:
    """The draft's network, its weights written; it knows so many of the tokens."""
    frequencies, scale = rotary_frequencies(draft_config)
    architecture = replace(decoder_architecture(draft_config, scale), vocab=known)
    return replace(
        header,
        role="eagle3 draft",
        architecture=asdict(architecture),
        weights=tuple(target.write_weights("draft", _draft_tensors(draft, frequencies))),
        tensor_names={},
    )


def _check(base: Checkpoint, draft: Checkpoint, config: Any, draft_config: Any, target: Target) -> None:
    if base.model_type not in NAMES:
        raise ModelUnsupportedError(
            f"The family “{base.model_type}” of {base.folder} takes no EAGLE-3 draft.",
            remedy=f"Choose one of {', '.join(sorted(NAMES))}, or leave the draft out.",
        )
    if target.options.max_batch_size > 1:
        raise SettingError(
            "max_batch_size",
            "An EAGLE-3 model answers one conversation at a time.",
            remedy="Use max_batch_size 1.",
        )
    if (
        draft.model_type != "llama"
        or draft_config.num_hidden_layers != 1
        or draft_config.hidden_act != "silu"
    ):
        raise _unsupported(draft, "it is not a draft of one Llama layer")
    if (draft_config.hidden_size, draft_config.vocab_size) != (config.hidden_size, config.vocab_size):
        raise _unsupported(draft, f"it is not a draft for {base.folder.name}, whose sizes differ")


def _features(draft: Checkpoint, layers: int) -> list[int]:
    """The layers of the base whose inputs the draft was trained on: given, or early, middle and late."""
    nested = draft.config.get("eagle_config")
    known = draft.config | (nested if isinstance(nested, dict) else {})
    features = known.get("eagle_aux_hidden_state_layer_ids") or [2, layers // 2, layers - 3]
    if len(features) != FEATURES or not all(
        isinstance(number, int) and 0 < number < layers for number in features
    ):
        raise _unsupported(draft, f"it needs the layers {features} of a base that has {layers}")
    return list(features)


def _host_tensors(base: Checkpoint, draft: Checkpoint, config: Any) -> dict[str, torch.Tensor]:
    """The draft's embedding and the two maps between the vocabularies."""
    import torch

    own = draft.has("embed_tokens.weight")
    embedding = draft.tensor("embed_tokens.weight") if own else base.tensor("model.embed_tokens.weight")
    size = getattr(config, "draft_vocab_size", config.vocab_size)
    offsets = torch.zeros(size, dtype=torch.long)
    known = torch.ones(config.vocab_size, dtype=torch.bool)
    if size != config.vocab_size:
        offsets, known = draft.tensor("d2t").long(), draft.tensor("t2d").bool()
    if len(offsets) != size or len(known) != config.vocab_size:
        raise _unsupported(draft, "its maps between the vocabularies have other lengths")
    return {
        f"{_DRAFT}embed_tokens.weight": embedding,
        f"{_DRAFT}d2t": offsets,
        f"{_DRAFT}t2d": known,
    }


def _draft_tensors(draft: Checkpoint, frequencies: torch.Tensor) -> Iterator[tuple[str, torch.Tensor]]:
    yield "rope.inverse_frequencies", frequencies
    yield "norm", draft.tensor("norm.weight")
    yield "lm_head", draft.tensor("lm_head.weight").T
    yield "feature_norm", draft.tensor(f"{_LAYER}hidden_norm.weight")
    yield from layer_tensors(draft, "layers.0.", _LAYER)


def _unsupported(draft: Checkpoint, reason: str) -> ModelUnsupportedError:
    return ModelUnsupportedError(
        f"The EAGLE-3 draft {draft.folder} cannot be used: {reason}.",
        remedy="Choose the draft that was made for this model.",
    )
