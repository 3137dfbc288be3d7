"""Llama, Qwen2 and Qwen3 checkpoints as decoder artifacts."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from runtime.errors import ModelUnsupportedError
from runtime.simulator.artifact import Header
from runtime.simulator.build import Target
from runtime.simulator.checkpoint import Checkpoint
from runtime.simulator.decoder import DecoderArchitecture

if TYPE_CHECKING:
    import torch

NAMES = {"llama": "Llama", "qwen2": "Qwen2", "qwen3": "Qwen3"}
"""The families built here as the vendor's classes spell them."""
# Scalings that depend on the length of the sequence at hand would need a table per length.
_FIXED_SCALINGS = ("default", "linear", "llama3", "yarn")


def build_decoder(checkpoint: Checkpoint, target: Target) -> None:
    """Write the `.mxq`, its weights and the host's embedding of a text model."""
    header = write_decoder(checkpoint, checkpoint.load_config(), target)
    family = checkpoint.model_type
    target.config |= {
        "model_type": f"mobilint-{family}",
        "architectures": [f"Mobilint{NAMES[family]}ForCausalLM"],
        "npu_prefill_chunk_size": header.prefill_width,
    }
    target.write_mxq(f"{family}.mxq", header)


def write_decoder(
    checkpoint: Checkpoint,
    config: Any,
    target: Target,
    *,
    role: str = "decoder",
    embedding: str = "embed_tokens.weight",
    prefix: str = "model.",
    host_tensors: Mapping[str, torch.Tensor] | None = None,
) -> Header:
    """Write a decoder's weights and the host's embedding, which the vendor's classes look up as `embedding`.

    `config` is the text model's, `prefix` what its tensors' names begin with in the checkpoint, and
    `host_tensors` what else the vendor's classes load. Returns the header of its `.mxq`.
    """
    options = target.options
    context = options.context(config.max_position_embeddings)
    check_decoder(checkpoint, config, context)
    frequencies, scale = rotary_frequencies(config)
    # The text half of an image model has no such field: there a checkpoint without a head is a tied one.
    tied = getattr(config, "tie_word_embeddings", True) and not checkpoint.has("lm_head.weight")
    target.progress("Reading the embedding", 0.0)
    host = target.write_host_weights(
        {embedding: checkpoint.tensor(f"{prefix}embed_tokens.weight"), **(host_tensors or {})}
    )
    tensors = _tensors(checkpoint, config, frequencies, tied, target, prefix)
    weights = target.write_weights("simulated", tensors)
    return Header(
        role=role,
        architecture=asdict(decoder_architecture(config, scale)),
        weights=(*weights, host) if tied else tuple(weights),
        batch=options.max_batch_size,
        max_cache_size=context,
        prefill_width=min(options.prefill_chunk, context),
        tensor_names={"embedding": embedding} if tied else {},
    )


def rotary_frequencies(config: Any) -> tuple[torch.Tensor, float]:
    """Inverse frequencies (head size / 2,) and the factor on the tables, after the config's scaling."""
    from transformers.models.llama.modeling_llama import LlamaRotaryEmbedding

    rotary = LlamaRotaryEmbedding(config)
    return rotary.inv_freq, float(rotary.attention_scaling)


def decoder_architecture(config: Any, scale: float) -> DecoderArchitecture:
    """A decoder's dimensions; `scale` is the factor on its rotary tables."""
    heads = config.num_attention_heads
    return DecoderArchitecture(
        hidden=config.hidden_size,
        layers=config.num_hidden_layers,
        heads=heads,
        kv_heads=config.num_key_value_heads or heads,
        head_dim=getattr(config, "head_dim", None) or config.hidden_size // heads,
        intermediate=config.intermediate_size,
        vocab=config.vocab_size,
        norm_epsilon=config.rms_norm_eps,
        rope_scale=scale,
    )


def _tensors(
    checkpoint: Checkpoint,
    config: Any,
    frequencies: torch.Tensor,
    tied: bool,
    target: Target,
    prefix: str,
) -> Iterator[tuple[str, torch.Tensor]]:
    yield "rope.inverse_frequencies", frequencies
    yield "norm", checkpoint.tensor(f"{prefix}norm.weight")
    if not tied:
        yield "lm_head", checkpoint.tensor("lm_head.weight").T
    for number in range(config.num_hidden_layers):
        target.progress("Packing the layers", number / config.num_hidden_layers)
        ours, theirs = f"layers.{number}.", f"{prefix}layers.{number}."
        yield from layer_tensors(checkpoint, ours, theirs)


def layer_tensors(checkpoint: Checkpoint, ours: str, theirs: str) -> Iterator[tuple[str, torch.Tensor]]:
    """One layer as the decoder takes it; `ours` and `theirs` are what its tensors' names begin with."""
    mlp = theirs + "mlp."
    yield from attention_tensors(checkpoint, ours, theirs)
    yield from _projections(
        checkpoint,
        ours,
        {"gate_up": [mlp + "gate_proj", mlp + "up_proj"], "down": [mlp + "down_proj"]},
    )


def attention_tensors(checkpoint: Checkpoint, ours: str, theirs: str) -> Iterator[tuple[str, torch.Tensor]]:
    """A layer's attention and norms, named as for `layer_tensors`."""
    attention = theirs + "self_attn."
    yield ours + "input_norm", checkpoint.tensor(theirs + "input_layernorm.weight")
    yield ours + "mlp_norm", checkpoint.tensor(theirs + "post_attention_layernorm.weight")
    yield from _projections(
        checkpoint,
        ours,
        {"qkv": [f"{attention}{part}_proj" for part in "qkv"], "output": [attention + "o_proj"]},
    )
    for name in ("query", "key"):
        norm = f"{attention}{name[0]}_norm.weight"
        if checkpoint.has(norm):
            yield f"{ours}{name}_norm", checkpoint.tensor(norm)


def _projections(
    checkpoint: Checkpoint, ours: str, projections: Mapping[str, list[str]]
) -> Iterator[tuple[str, torch.Tensor]]:
    """Each projection's parts side by side, (in, out), and their biases where there are any."""
    for name, parts in projections.items():
        yield ours + name, checkpoint.stacked(f"{part}.weight" for part in parts).T
        if checkpoint.has(f"{parts[0]}.bias"):
            yield f"{ours}{name}_bias", checkpoint.stacked(f"{part}.bias" for part in parts)


def check_decoder(checkpoint: Checkpoint, config: Any, context: int) -> None:
    """Raises ModelUnsupportedError for a text model that no decoder role can run."""
    scaling = config.rope_parameters.get("rope_type", "default")
    window = getattr(config, "sliding_window", None)
    slides = "sliding_attention" in (getattr(config, "layer_types", None) or ())
    reason = ""
    if config.hidden_act != "silu":
        reason = f"its activation {config.hidden_act}"
    elif scaling not in _FIXED_SCALINGS:
        reason = f"its rotary scaling “{scaling}”"
    elif slides and window is not None and window < context:
        reason = f"its sliding window of {window} positions (a context of at most that works)"
    if reason:
        raise ModelUnsupportedError(
            f"The checkpoint {checkpoint.folder} cannot be simulated: {reason} is not supported.",
            remedy="Choose another checkpoint, or build with other options.",
        )
