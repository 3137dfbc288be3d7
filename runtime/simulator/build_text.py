"""EXAONE 3.5, EXAONE 4 and Cohere 2 checkpoints as decoder artifacts: Llama's layers in another arrangement.

Each is shown to the Llama builder under Llama's names. EXAONE 3.5 needs no more: it is a Llama whose own code
transformers does not carry, so its configuration class is the one that transformers-mblt brings along.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, replace
from typing import TYPE_CHECKING, Any

from runtime.errors import ModelUnsupportedError
from runtime.simulator.artifact import Header
from runtime.simulator.build import Target
from runtime.simulator.build_decoder import write_decoder
from runtime.simulator.checkpoint import Checkpoint
from runtime.simulator.hybrid_decoder import LayerKinds

if TYPE_CHECKING:
    import torch

    from runtime.simulator.checkpoint import Change

_EXAONE_LAYER = {
    "input_layernorm": "ln_1",
    "self_attn.q_proj": "attn.attention.q_proj",
    "self_attn.k_proj": "attn.attention.k_proj",
    "self_attn.v_proj": "attn.attention.v_proj",
    "self_attn.o_proj": "attn.attention.out_proj",
    "post_attention_layernorm": "ln_2",
    "mlp.gate_proj": "mlp.c_fc_0",
    "mlp.up_proj": "mlp.c_fc_1",
    "mlp.down_proj": "mlp.c_proj",
}


def build_exaone(checkpoint: Checkpoint, target: Target) -> None:
    """Write the artifact of an EXAONE 3.5 (or 3.0, or Deep) checkpoint."""
    config = _exaone_config(checkpoint)
    names = {
        "model.embed_tokens.weight": "transformer.wte.weight",
        "model.norm.weight": "transformer.ln_f.weight",
        "lm_head.weight": "lm_head.weight",
    }
    for number in range(config.num_hidden_layers):
        for llama, exaone in _EXAONE_LAYER.items():
            names[f"model.layers.{number}.{llama}.weight"] = f"transformer.h.{number}.{exaone}.weight"
    header = write_decoder(checkpoint.renamed(names), config, target, embedding="wte.weight")
    _finish(target, header, "exaone", "Exaone")


def build_exaone4(checkpoint: Checkpoint, target: Target) -> None:
    """Write the artifact of an EXAONE 4 checkpoint, of the sliding or of the plain kind."""
    config = checkpoint.load_config()
    window = config.sliding_window or 0
    slides = [kind == "sliding_attention" for kind in config.layer_types]
    kinds = LayerKinds(
        windows=[window if sliding else 0 for sliding in slides],
        # Where some layers slide, the others do without positions.
        turns=[sliding or not window for sliding in slides],
    )
    norms = {
        "input_layernorm": "post_attention_layernorm",
        "post_attention_layernorm": "post_feedforward_layernorm",
    }
    view = _with_norms(checkpoint, norms, config.num_hidden_layers)
    llama = llama_config(config, config.rms_norm_eps)
    header = write_decoder(view, llama, target, role="exaone4 decoder")
    header = replace(header, architecture={**header.architecture, **asdict(kinds)})
    _finish(target, header, "exaone4", "Exaone4")


def build_cohere2(checkpoint: Checkpoint, target: Target) -> None:
    """Write the artifact of a Cohere 2 checkpoint; the host scales its logits."""
    config = checkpoint.load_config()
    header = write_cohere2(checkpoint, config, target, embedding="embed_tokens.weight")
    _finish(target, header, "cohere2", "Cohere2")


def write_cohere2(checkpoint: Checkpoint, config: Any, target: Target, *, embedding: str) -> Header:
    """Write a Cohere 2 decoder and the host's embedding, as `write_decoder` does."""
    slides = [kind == "sliding_attention" for kind in config.layer_types]
    kinds = LayerKinds(windows=[config.sliding_window if sliding else 0 for sliding in slides], turns=slides)
    norms = {"input_layernorm": "input_layernorm", "post_attention_layernorm": "input_layernorm"}
    view = _with_norms(checkpoint, norms, config.num_hidden_layers, _pair_halves(config))
    llama = llama_config(config, config.layer_norm_eps)
    header = write_decoder(view, llama, target, role="cohere2 decoder", embedding=embedding)
    return replace(header, architecture={**header.architecture, **asdict(kinds)})


def _exaone_config(checkpoint: Checkpoint) -> Any:
    from transformers_mblt.models.exaone.original.configuration_exaone import ExaoneConfig

    try:
        config = ExaoneConfig(**checkpoint.config)
        scaling = dict(config.rope_scaling or {})
        rope = {"rope_type": scaling.pop("type", "default"), "rope_theta": config.rope_theta, **scaling}
    except (TypeError, ValueError) as error:
        raise ModelUnsupportedError(
            f"The configuration {checkpoint.folder / 'config.json'} cannot be used.",
            remedy="Check that the checkpoint is complete.",
            detail=f"{type(error).__name__}: {error}",
        ) from error
    config.rope_parameters, config.hidden_act = rope, config.activation_function
    return llama_config(config, config.layer_norm_epsilon)


def llama_config(config: Any, epsilon: float) -> Any:
    """A Llama configuration of the same dimensions, for `write_decoder`; `epsilon` is that of the norms."""
    from transformers import LlamaConfig

    same = (
        "vocab_size",
        "hidden_size",
        "intermediate_size",
        "num_hidden_layers",
        "num_attention_heads",
        "num_key_value_heads",
        "hidden_act",
        "max_position_embeddings",
        "tie_word_embeddings",
        "rope_parameters",
    )
    head_dim = getattr(config, "head_dim", None)
    return LlamaConfig(
        **{name: getattr(config, name) for name in same}, head_dim=head_dim, rms_norm_eps=epsilon
    )


def _with_norms(
    checkpoint: Checkpoint, norms: Mapping[str, str], layers: int, change: Change | None = None
) -> Checkpoint:
    """The checkpoint with the two norms of each of its layers under Llama's names."""
    names = {name: name for name in checkpoint.names("")}
    for number in range(layers):
        for llama, own in norms.items():
            names[f"model.layers.{number}.{llama}.weight"] = f"model.layers.{number}.{own}.weight"
    return checkpoint.renamed(names, change)


def _pair_halves(config: Any) -> Change:
    """Cohere turns neighbouring channels as pairs, Llama the halves of a head: sort queries and keys."""
    heads = {"q_proj": config.num_attention_heads, "k_proj": config.num_key_value_heads}

    def change(name: str, tensor: torch.Tensor) -> torch.Tensor:
        count = next((heads[part] for part in name.split(".") if part in heads), None)
        if count is None:
            return tensor
        return tensor.reshape(count, -1, 2, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)

    return change


def _finish(target: Target, header: Header, family: str, title: str) -> None:
    target.config |= {
        "model_type": f"mobilint-{family}",
        "architectures": [f"Mobilint{title}ForCausalLM"],
        "npu_prefill_chunk_size": header.prefill_width,
    }
    target.write_mxq(f"{family}.mxq", header)
