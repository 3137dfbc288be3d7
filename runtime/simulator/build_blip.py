"""BLIP captioning checkpoints as a vision and a decoder artifact."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from runtime.simulator import build_encoder
from runtime.simulator.artifact import Header
from runtime.simulator.build import Target
from runtime.simulator.build_bert import BERT_LAYER
from runtime.simulator.checkpoint import Checkpoint
from runtime.simulator.encoder import StackArchitecture, as_fields

if TYPE_CHECKING:
    import torch

_EMBEDDINGS = "text_decoder.bert.embeddings."
_VISION_LAYER = {
    "norm1": ["layer_norm1"],
    "qkv": ["self_attn.qkv"],
    "proj": ["self_attn.projection"],
    "norm2": ["layer_norm2"],
    "fc1": ["mlp.fc1"],
    "fc2": ["mlp.fc2"],
}
_DECODER_LAYER = {
    **BERT_LAYER,
    "cross_query": ["crossattention.self.query"],
    "cross_key_value": ["crossattention.self.key", "crossattention.self.value"],
    "cross_proj": ["crossattention.output.dense"],
    "cross_norm": ["crossattention.output.LayerNorm"],
}


def build_blip(checkpoint: Checkpoint, target: Target) -> None:
    """Write both `.mxq` files, their weights and the host's embeddings."""
    config = checkpoint.load_config()
    vision, text = config.vision_config, config.text_config
    for part in (vision, text):
        build_encoder.check_activation(checkpoint, part.hidden_act)
    target.write_host_weights(
        {
            name: checkpoint.tensor(name)
            for name in checkpoint.names(_EMBEDDINGS)
            if not name.endswith("position_ids")
        }
    )
    target.config |= {
        "model_type": "mobilint-blip",
        "architectures": ["MobilintBlipForConditionalGeneration"],
        "text_config": text.to_dict() | {"model_type": "mobilint-blip_text_model"},
        "vision_config": vision.to_dict() | {"model_type": "mobilint-blip_vision_model"},
    }
    target.progress("Packing the vision encoder", 0.1)
    target.write_mxq("vision.mxq", _vision_header(checkpoint, vision, target), prefix="vision_")
    target.progress("Packing the decoder", 0.5)
    target.write_mxq("text.mxq", _text_header(checkpoint, vision, text, target), prefix="text_")


def _vision_header(checkpoint: Checkpoint, vision: Any, target: Target) -> Header:
    stack = _stack(vision)
    weights = target.write_weights("vision", _vision_tensors(checkpoint, stack.layers))
    architecture = as_fields(stack, side=vision.image_size, patch=vision.patch_size)
    return Header(role="blip vision", architecture=architecture, weights=tuple(weights))


def _text_header(checkpoint: Checkpoint, vision: Any, text: Any, target: Target) -> Header:
    stack = _stack(text, norm_last=True)
    weights = target.write_weights("simulated", _text_tensors(checkpoint, stack.layers))
    context = target.options.context(text.max_position_embeddings)
    positions = 1 + (vision.image_size // vision.patch_size) ** 2
    return Header(
        role="blip decoder",
        architecture=as_fields(stack, seen=vision.hidden_size, positions=positions, vocab=text.vocab_size),
        weights=tuple(weights),
        max_cache_size=context,
        # The vendor's class feeds a prompt in one piece.
        prefill_width=context,
    )


def _stack(config: Any, *, norm_last: bool = False) -> StackArchitecture:
    return StackArchitecture(
        hidden=config.hidden_size,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        intermediate=config.intermediate_size,
        activation=config.hidden_act,
        epsilon=config.layer_norm_eps,
        norm_last=norm_last,
    )


def _vision_tensors(checkpoint: Checkpoint, layers: int) -> Iterator[tuple[str, torch.Tensor]]:
    embeddings = "vision_model.embeddings."
    kernel = checkpoint.tensor(f"{embeddings}patch_embedding.weight")
    yield "patch_embed", kernel.reshape(len(kernel), -1)
    yield "patch_embed_bias", checkpoint.tensor(f"{embeddings}patch_embedding.bias")
    for ours, theirs in (("class_embedding", "class_embedding"), ("positions", "position_embedding")):
        yield ours, checkpoint.tensor(embeddings + theirs)[0]
    yield from build_encoder.layers(
        checkpoint, _VISION_LAYER, "layers.", "vision_model.encoder.layers.", layers
    )
    yield from build_encoder.renamed(checkpoint, {"norm": ["vision_model.post_layernorm"]})


def _text_tensors(checkpoint: Checkpoint, layers: int) -> Iterator[tuple[str, torch.Tensor]]:
    bert, head = "text_decoder.bert.encoder.layer.", "text_decoder.cls.predictions."
    yield from build_encoder.layers(checkpoint, _DECODER_LAYER, "layers.", bert, layers)
    names = {"transform": ["transform.dense"], "norm": ["transform.LayerNorm"]}
    yield from build_encoder.renamed(checkpoint, names, "", head)
    # A head that is not stored is the word embedding.
    own = f"{head}decoder.weight"
    yield "head", checkpoint.tensor(own if checkpoint.has(own) else f"{_EMBEDDINGS}word_embeddings.weight")
    yield "head_bias", checkpoint.tensor(f"{head}bias")
