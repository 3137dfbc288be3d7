"""Qwen3-MoE checkpoints as the many artifacts of a mixture of experts.

The vendor packs the thousands of files of a release by layer; here each stays a file of its own, which holds
a kilobyte of description and names the weights it shares with the others.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from runtime.errors import ModelUnsupportedError, SettingError
from runtime.simulator.artifact import Header, WeightFile
from runtime.simulator.build import Target
from runtime.simulator.build_decoder import (
    attention_tensors,
    check_decoder,
    decoder_architecture,
    rotary_frequencies,
)
from runtime.simulator.checkpoint import Checkpoint
from runtime.simulator.moe import ExpertArchitecture, HeadArchitecture

if TYPE_CHECKING:
    import torch

_SINGLE = ("single",)
"""The only core mode that the vendor runs the networks of a mixture in."""
_EMBEDDING = "embed_tokens.weight"
_OUTPUTS = ("residual", "expert_in", "gate")
_SHARED_TENSORS = (
    "input_norm",
    "qkv",
    "qkv_bias",
    "output",
    "output_bias",
    "query_norm",
    "key_norm",
    "mlp_norm",
    "router",
)


def build_qwen3_moe(checkpoint: Checkpoint, target: Target) -> None:
    """Write every layer's shared and expert `.mxq`, the head's, their weights and the host's embedding."""
    config = checkpoint.load_config()
    options = target.options
    context = options.context(config.max_position_embeddings)
    check_decoder(checkpoint, config, context)
    _check(checkpoint, config, target)
    frequencies, scale = rotary_frequencies(config)
    architecture = replace(
        decoder_architecture(config, scale), layers=1, intermediate=config.moe_intermediate_size
    )
    shared = Header(
        role="moe shared",
        architecture={**asdict(architecture), "experts": config.num_experts},
        weights=tuple(target.write_weights("shared", _shared_tensors(checkpoint, config, frequencies))),
        max_cache_size=context,
        prefill_width=min(options.prefill_chunk, context),
    )
    expert = Header(
        role="moe expert",
        architecture=asdict(ExpertArchitecture(config.hidden_size, config.moe_intermediate_size)),
        weights=tuple(target.write_weights("experts", _expert_tensors(checkpoint, config, target))),
    )
    for layer in range(config.num_hidden_layers):
        names = {f"layers.0.{name}": f"layers.{layer}.{name}" for name in _SHARED_TENSORS}
        target.write_header(f"shared-{layer}.mxq", replace(shared, tensor_names=names), _SINGLE)
        for number in range(config.num_experts):
            names = {name: f"layers.{layer}.experts.{number}.{name}" for name in ("gate_up", "down")}
            target.write_header(f"expert-{layer}-{number}.mxq", replace(expert, tensor_names=names), _SINGLE)
    host = target.write_host_weights({_EMBEDDING: checkpoint.tensor("model.embed_tokens.weight")})
    target.write_header("lm_head.mxq", _head(checkpoint, config, target, host), _SINGLE)
    target.config |= _configuration(target, shared.prefill_width)


def _check(checkpoint: Checkpoint, config: Any, target: Target) -> None:
    if target.options.max_batch_size > 1:
        raise SettingError(
            "max_batch_size",
            "A mixture of experts answers one conversation at a time.",
            remedy="Use max_batch_size 1.",
        )
    if "single" not in target.options.core_modes:
        raise SettingError(
            "core_modes",
            "A mixture of experts runs in the core mode single only.",
            remedy="Add single to the core modes.",
        )
    if config.mlp_only_layers or config.decoder_sparse_step != 1:
        raise ModelUnsupportedError(
            f"The checkpoint {checkpoint.folder} cannot be simulated: some of its layers have no experts, "
            "which transformers-mblt does not run.",
            remedy="Choose another checkpoint.",
        )


def _configuration(target: Target, chunk: int) -> dict[str, Any]:
    board = target.options.board
    everywhere = [f"0:{cluster}:{core}" for cluster, core in board.cores]
    roles = {
        "shared": ("shared-{layer}.mxq", everywhere[:1]),
        "expert": ("expert-{layer}-{expert}.mxq", everywhere),
        "lm_head": ("lm_head.mxq", everywhere[:1]),
    }
    configuration: dict[str, Any] = {
        "model_type": "mobilint-qwen3_moe",
        "architectures": ["MobilintQwen3MoEForCausalLM"],
        "npu_prefill_chunk_size": chunk,
        "moe_shared_output_order": {"default": list(_OUTPUTS)},
    }
    for role, (path, cores) in roles.items():
        configuration |= {
            f"{role}_mxq_path": path,
            f"{role}_core_mode": "single",
            f"{role}_target_cores": cores,
            f"{role}_target_device": board.name,
        }
    return configuration


def _head(checkpoint: Checkpoint, config: Any, target: Target, host: WeightFile) -> Header:
    tied = config.tie_word_embeddings and not checkpoint.has("lm_head.weight")
    tensors = [("norm", checkpoint.tensor("model.norm.weight"))]
    if not tied:
        tensors.append(("lm_head", checkpoint.tensor("lm_head.weight").T))
    weights = target.write_weights("head", tensors)
    return Header(
        role="moe head",
        architecture=asdict(HeadArchitecture(config.hidden_size, config.vocab_size, config.rms_norm_eps)),
        weights=(*weights, host) if tied else tuple(weights),
        tensor_names={"embedding": _EMBEDDING} if tied else {},
    )


def _shared_tensors(
    checkpoint: Checkpoint, config: Any, frequencies: torch.Tensor
) -> Iterator[tuple[str, torch.Tensor]]:
    yield "rope.inverse_frequencies", frequencies
    for number in range(config.num_hidden_layers):
        ours, theirs = f"layers.{number}.", f"model.layers.{number}."
        yield from attention_tensors(checkpoint, ours, theirs)
        yield f"{ours}router", checkpoint.tensor(f"{theirs}mlp.gate.weight").T


def _expert_tensors(
    checkpoint: Checkpoint, config: Any, target: Target
) -> Iterator[tuple[str, torch.Tensor]]:
    for layer in range(config.num_hidden_layers):
        target.progress("Packing the experts", layer / config.num_hidden_layers)
        for number in range(config.num_experts):
            ours, theirs = f"layers.{layer}.experts.{number}.", f"model.layers.{layer}.mlp.experts.{number}."
            halves = (f"{theirs}gate_proj.weight", f"{theirs}up_proj.weight")
            yield f"{ours}gate_up", checkpoint.stacked(halves).T
            yield f"{ours}down", checkpoint.tensor(f"{theirs}down_proj.weight").T
