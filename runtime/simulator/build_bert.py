"""BERT checkpoints (masked text) as one artifact."""

from __future__ import annotations

from dataclasses import asdict

from runtime.simulator import build_encoder
from runtime.simulator.artifact import Header
from runtime.simulator.build import Target
from runtime.simulator.checkpoint import Checkpoint
from runtime.simulator.encoder import StackArchitecture

_DECODER = "cls.predictions.decoder.weight"
BERT_LAYER = {
    "norm1": ["attention.output.LayerNorm"],
    "qkv": ["attention.self.query", "attention.self.key", "attention.self.value"],
    "proj": ["attention.output.dense"],
    "norm2": ["output.LayerNorm"],
    "fc1": ["intermediate.dense"],
    "fc2": ["output.dense"],
}


def build_bert(checkpoint: Checkpoint, target: Target) -> None:
    """Write the layers as a `.mxq`, and what the host does itself: embeddings and the prediction head."""
    config = checkpoint.load_config()
    build_encoder.check_activation(checkpoint, config.hidden_act)
    arch = StackArchitecture(
        hidden=config.hidden_size,
        layers=config.num_hidden_layers,
        heads=config.num_attention_heads,
        intermediate=config.intermediate_size,
        activation=config.hidden_act,
        epsilon=config.layer_norm_eps,
        norm_last=True,
    )
    names = checkpoint.names("bert.embeddings.") + checkpoint.names("cls.predictions.")
    host = {name: checkpoint.tensor(name) for name in names if not name.endswith("position_ids")}
    if config.tie_word_embeddings:
        host.pop(_DECODER, None)
    target.write_host_weights(host)
    layers = build_encoder.layers(checkpoint, BERT_LAYER, "layers.", "bert.encoder.layer.", arch.layers)
    target.config |= {"model_type": "mobilint-bert", "architectures": ["MobilintBertForMaskedLM"]}
    header = Header(
        role="bert",
        architecture=asdict(arch),
        weights=tuple(target.write_weights("simulated", layers)),
        prefill_width=config.max_position_embeddings,
    )
    target.write_mxq("bert.mxq", header)
