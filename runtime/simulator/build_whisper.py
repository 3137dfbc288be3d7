"""Whisper checkpoints as an encoder and a decoder artifact."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import asdict
from typing import TYPE_CHECKING, Any

from runtime.errors import ModelUnsupportedError
from runtime.simulator.artifact import Header
from runtime.simulator.build import Target
from runtime.simulator.checkpoint import Checkpoint
from runtime.simulator.whisper import WhisperArchitecture

if TYPE_CHECKING:
    import torch

_EMBEDDING = "model.decoder.embed_tokens.weight"
_PROJECTIONS = (
    ("self_output", ("self_attn.out_proj",)),
    ("cross_query", ("encoder_attn.q_proj",)),
    ("cross_output", ("encoder_attn.out_proj",)),
    ("up", ("fc1",)),
    ("down", ("fc2",)),
    ("qkv", ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj")),
    ("cross_key_value", ("encoder_attn.k_proj", "encoder_attn.v_proj")),
)
_NORMS = (
    ("self_norm", "self_attn_layer_norm"),
    ("cross_norm", "encoder_attn_layer_norm"),
    ("mlp_norm", "final_layer_norm"),
)


def build_whisper(checkpoint: Checkpoint, target: Target) -> None:
    """Write both `.mxq` files, their weights and the host's embeddings."""
    config = checkpoint.load_config()
    if config.activation_function != "gelu" or config.scale_embedding:
        raise ModelUnsupportedError(
            f"The checkpoint {checkpoint.folder} is not an ordinary Whisper model and cannot be simulated.",
            remedy="Choose another checkpoint.",
        )
    positions = "model.decoder.embed_positions.weight"
    host = target.write_host_weights({name: checkpoint.tensor(name) for name in (_EMBEDDING, positions)})
    target.config |= {
        "model_type": "mobilint-whisper",
        "architectures": ["MobilintWhisperForConditionalGeneration"],
        "npu_prefill_chunk_size": config.max_target_positions,
    }
    target.progress("Packing the encoder", 0.1)
    target.write_mxq(
        "encoder.mxq",
        Header(
            role="whisper encoder",
            architecture=asdict(_architecture(config, "encoder")),
            weights=tuple(target.write_weights("encoder", _encoder_tensors(checkpoint))),
        ),
        prefix="encoder_",
    )
    target.progress("Packing the decoder", 0.5)
    decoder = target.write_weights("decoder", _decoder_tensors(checkpoint, config.decoder_layers))
    target.write_mxq(
        "decoder.mxq",
        Header(
            role="whisper decoder",
            architecture=asdict(_architecture(config, "decoder")),
            weights=(*decoder, host),
            max_cache_size=config.max_target_positions,
            prefill_width=config.max_target_positions,
            tensor_names={"embedding": _EMBEDDING},
        ),
        prefix="decoder_",
    )


def _architecture(config: Any, half: str) -> WhisperArchitecture:
    return WhisperArchitecture(
        hidden=config.d_model,
        layers=getattr(config, f"{half}_layers"),
        heads=getattr(config, f"{half}_attention_heads"),
        intermediate=getattr(config, f"{half}_ffn_dim"),
        frames=config.max_source_positions,
        mels=config.num_mel_bins,
        vocab=config.vocab_size,
    )


def _encoder_tensors(checkpoint: Checkpoint) -> Iterator[tuple[str, torch.Tensor]]:
    for name in checkpoint.names("model.encoder."):
        yield name.removeprefix("model."), checkpoint.tensor(name)


def _decoder_tensors(checkpoint: Checkpoint, layers: int) -> Iterator[tuple[str, torch.Tensor]]:
    for kind, suffix in (("weight", ""), ("bias", "_bias")):
        yield f"decoder.norm{suffix}", checkpoint.tensor(f"model.decoder.layer_norm.{kind}")
        for number in range(layers):
            ours, theirs = f"decoder.layers.{number}.", f"model.decoder.layers.{number}."
            for name, norm in _NORMS:
                yield ours + name + suffix, checkpoint.tensor(f"{theirs}{norm}.{kind}")
            for name, parts in _PROJECTIONS:
                yield ours + name + suffix, _stacked(checkpoint, [theirs + part for part in parts], kind)


def _stacked(checkpoint: Checkpoint, parts: list[str], kind: str) -> torch.Tensor:
    """Projections (in, out) side by side; keys have no bias, which is a bias of zero."""
    import torch

    stacked = torch.cat(
        [
            checkpoint.tensor(f"{part}.{kind}")
            if checkpoint.has(f"{part}.{kind}")
            else torch.zeros(checkpoint.tensor(f"{part}.weight").shape[0])
            for part in parts
        ]
    )
    return stacked.T if kind == "weight" else stacked
