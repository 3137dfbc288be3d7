"""Aya Vision checkpoints as two artifacts: the vision network for one tile, and a Cohere 2 decoder."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from runtime.errors import ModelUnsupportedError
from runtime.simulator import build_encoder
from runtime.simulator.artifact import Header
from runtime.simulator.build import Target
from runtime.simulator.build_text import write_cohere2
from runtime.simulator.checkpoint import Checkpoint
from runtime.simulator.encoder import StackArchitecture, as_fields

if TYPE_CHECKING:
    import torch

SIGLIP_LAYER = {
    "norm1": ["layer_norm1"],
    "qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "proj": ["self_attn.out_proj"],
    "norm2": ["layer_norm2"],
    "fc1": ["mlp.fc1"],
    "fc2": ["mlp.fc2"],
}
_PROJECTOR = {"norm": ["layernorm"], "first": ["linear_1"], "second": ["linear_2"]}


def build_aya_vision(checkpoint: Checkpoint, target: Target) -> None:
    """Write both `.mxq` files, their weights and the host's embedding."""
    config = checkpoint.load_config()
    _check(checkpoint, config)
    vision = config.vision_config
    stack = StackArchitecture(
        hidden=vision.hidden_size,
        layers=vision.num_hidden_layers,
        heads=vision.num_attention_heads,
        intermediate=vision.intermediate_size,
        activation=vision.hidden_act,
        epsilon=vision.layer_norm_eps,
    )
    text = write_cohere2(
        _text_view(checkpoint), config.text_config, target, embedding="language_model.embed_tokens.weight"
    )
    weights = target.write_weights("vision", _vision_tensors(checkpoint, stack.layers))
    target.config |= {
        "model_type": "mobilint-aya_vision",
        "architectures": ["MobilintAyaVisionForConditionalGeneration"],
        "text_npu_prefill_chunk_size": text.prefill_width,
        "text_config": config.text_config.to_dict() | {"model_type": "mobilint-cohere2"},
        "vision_config": vision.to_dict() | {"model_type": "mobilint-siglip_vision_model"},
    }
    target.write_mxq("text.mxq", text, prefix="text_")
    architecture = as_fields(
        stack,
        side=vision.image_size,
        patch=vision.patch_size,
        square=config.downsample_factor,
        wide=getattr(config, "alignment_intermediate_size", config.text_config.hidden_size),
        text=config.text_config.hidden_size,
        projector_epsilon=config.adapter_layer_norm_eps,
    )
    header = Header(role="aya vision", architecture=architecture, weights=tuple(weights))
    target.write_mxq("vision.mxq", header, prefix="vision_")


def _check(checkpoint: Checkpoint, config: Any) -> None:
    build_encoder.check_activation(checkpoint, config.vision_config.hidden_act)
    if config.vision_feature_select_strategy != "full" or config.vision_feature_layer != -1:
        raise ModelUnsupportedError(
            f"The checkpoint {checkpoint.folder} cannot be simulated: it feeds the text model from the layer "
            f"{config.vision_feature_layer} by “{config.vision_feature_select_strategy}”, where the vendor's "
            "class knows all patches of the last layer only.",
            remedy="Choose another checkpoint.",
        )


def _text_view(checkpoint: Checkpoint) -> Checkpoint:
    """The text model's tensors under Cohere 2's own names."""
    layer = "layers.0.input_layernorm.weight"
    body = build_encoder.prefix_of(checkpoint, layer, "language_model.model.", "model.language_model.")
    names = {f"model.{name.removeprefix(body)}": name for name in checkpoint.names(body)}
    for head in ("language_model.lm_head.weight", "lm_head.weight"):
        if checkpoint.has(head):
            names["lm_head.weight"] = head
    return checkpoint.renamed(names)


def _vision_tensors(checkpoint: Checkpoint, layers: int) -> Iterator[tuple[str, torch.Tensor]]:
    patch = "embeddings.patch_embedding.weight"
    tower = build_encoder.prefix_of(
        checkpoint,
        patch,
        "vision_tower.vision_model.",
        "vision_tower.",
        "model.vision_tower.vision_model.",
        "model.vision_tower.",
    )
    kernel = checkpoint.tensor(tower + patch)
    yield "patch_embed", kernel.reshape(len(kernel), -1)
    yield "patch_embed_bias", checkpoint.tensor(f"{tower}embeddings.patch_embedding.bias")
    yield "positions", checkpoint.tensor(f"{tower}embeddings.position_embedding.weight")
    yield from build_encoder.layers(checkpoint, SIGLIP_LAYER, "layers.", f"{tower}encoder.layers.", layers)
    projector = build_encoder.prefix_of(
        checkpoint, "linear_1.weight", "multi_modal_projector.", "model.multi_modal_projector."
    )
    yield from build_encoder.renamed(checkpoint, _PROJECTOR, "projector.", projector)
