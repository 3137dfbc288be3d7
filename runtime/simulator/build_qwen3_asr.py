"""Qwen3-ASR checkpoints as an encoder for one second of sound and a text decoder.

Both forms are read: the one of its authors (`thinker_config`, and so in the artifact, for their configuration
classes are the ones the vendor's build upon) and the one of transformers.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

from runtime.errors import ModelUnsupportedError
from runtime.simulator import build_encoder
from runtime.simulator.artifact import Header
from runtime.simulator.build import Target
from runtime.simulator.build_decoder import write_decoder
from runtime.simulator.build_text import llama_config
from runtime.simulator.checkpoint import Checkpoint
from runtime.simulator.encoder import StackArchitecture, as_fields
from runtime.simulator.qwen3_asr import CONVOLUTIONS, FRAMES

if TYPE_CHECKING:
    import torch

_LAYER = {
    "norm1": ["self_attn_layer_norm"],
    "qkv": ["self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"],
    "proj": ["self_attn.out_proj"],
    "norm2": ["final_layer_norm"],
    "fc1": ["fc1"],
    "fc2": ["fc2"],
}
_TOWER = ("thinker.audio_tower.", "model.audio_tower.")
_TEXT = ("thinker.model.", "model.language_model.")
_HEAD = ("thinker.lm_head.weight", "lm_head.weight")
_EPSILON = 1e-5
"""Of the encoder's norms, which its configuration does not name."""
_DEFAULTS = {"audio_token_id": 151676, "pad_token_id": 151645, "eos_token_id": [151643, 151645]}


def build_qwen3_asr(checkpoint: Checkpoint, target: Target) -> None:
    """Write both `.mxq` files, their weights and the host's embedding."""
    thinker = _thinker(checkpoint)
    try:
        audio, text = thinker["audio_config"], _text_config(thinker["text_config"])
        sound = _sound(checkpoint, audio)
    except (KeyError, TypeError, ValueError) as error:
        raise ModelUnsupportedError(
            f"The configuration {checkpoint.folder / 'config.json'} cannot be used.",
            remedy="Check that the checkpoint is complete.",
            detail=f"{type(error).__name__}: {error}",
        ) from error
    header = write_decoder(
        _text_view(checkpoint), text, target, embedding="thinker.model.embed_tokens.weight"
    )
    weights = target.write_weights("encoder", _encoder_tensors(checkpoint, audio["encoder_layers"]))
    kinds = {"audio_config": "audio_encoder", "text_config": "text"}
    for name, kind in kinds.items():
        thinker[name] = {**thinker[name], "model_type": f"mobilint-qwen3_asr_{kind}"}
    thinker["text_config"]["npu_prefill_chunk_size"] = header.prefill_width
    target.config = {
        "model_type": "mobilint-qwen3_asr",
        "architectures": ["MobilintQwen3ASRForConditionalGeneration"],
        "support_languages": checkpoint.config.get("support_languages"),
        "thinker_config": {**thinker, "model_type": "mobilint-qwen3_asr_thinker"},
    }
    target.write_mxq("decoder.mxq", header, prefix="decoder_")
    encoder = Header(role="qwen3-asr encoder", architecture=sound, weights=tuple(weights))
    target.write_mxq("encoder.mxq", encoder, prefix="encoder_")


def _thinker(checkpoint: Checkpoint) -> dict[str, Any]:
    """The configuration as its authors nest it."""
    raw = checkpoint.config
    if isinstance(raw.get("thinker_config"), dict):
        return dict(raw["thinker_config"])
    config = checkpoint.load_config()
    audio, text = config.audio_config.to_dict(), config.text_config.to_dict()
    rope = dict(text.pop("rope_parameters", None) or {})
    text["rope_theta"] = rope.pop("rope_theta", 1000000.0)
    text["rope_scaling"] = {"rope_type": "default", **rope}
    # What transformers calls positions of one chunk is no limit to what is heard.
    audio.pop("max_position_embeddings", None)
    tokens = {name: getattr(config, name, default) for name, default in _DEFAULTS.items()}
    return {**tokens, "audio_config": audio, "text_config": text}


def _text_config(text: Mapping[str, Any]) -> Any:
    rope = dict(text.get("rope_scaling") or {})
    # Sound has one axis of positions, on which the three of the reference agree.
    rope_type = rope.get("rope_type", rope.get("type", "default"))
    parameters = {"rope_type": rope_type, "rope_theta": text["rope_theta"]}
    return llama_config(SimpleNamespace(**{**text, "rope_parameters": parameters}), text["rms_norm_eps"])


def _sound(checkpoint: Checkpoint, audio: Mapping[str, Any]) -> dict[str, Any]:
    build_encoder.check_activation(checkpoint, audio["activation_function"])
    if 2 * audio["n_window"] != FRAMES or audio.get("scale_embedding"):
        raise ModelUnsupportedError(
            f"The checkpoint {checkpoint.folder} cannot be simulated: it hears {2 * audio['n_window']} "
            f"frames at a time, and the vendor's class {FRAMES}.",
            remedy="Choose another checkpoint.",
        )
    stack = StackArchitecture(
        hidden=audio["d_model"],
        layers=audio["encoder_layers"],
        heads=audio["encoder_attention_heads"],
        intermediate=audio["encoder_ffn_dim"],
        activation=audio["activation_function"],
        epsilon=_EPSILON,
    )
    channels = audio["downsample_hidden_size"]
    return as_fields(stack, mels=audio["num_mel_bins"], channels=channels, out=audio["output_dim"])


def _text_view(checkpoint: Checkpoint) -> Checkpoint:
    body = build_encoder.prefix_of(checkpoint, "norm.weight", *_TEXT)
    names = {f"model.{name.removeprefix(body)}": name for name in checkpoint.names(body)}
    head = next((name for name in _HEAD if checkpoint.has(name)), None)
    return checkpoint.renamed(names | ({"lm_head.weight": head} if head else {}))


def _encoder_tensors(checkpoint: Checkpoint, count: int) -> Iterator[tuple[str, torch.Tensor]]:
    tower = build_encoder.prefix_of(checkpoint, "conv_out.weight", *_TOWER)
    projector = "model.multi_modal_projector.linear_"
    own = checkpoint.has(f"{tower}proj1.weight")
    names = {f"convolution.{n}": [f"{tower}conv2d{n + 1}"] for n in range(CONVOLUTIONS)} | {
        "ends.norm": [f"{tower}ln_post"],
        "ends.first": [f"{tower}proj1" if own else f"{projector}1"],
        "ends.second": [f"{tower}proj2" if own else f"{projector}2"],
    }
    yield "conv_out", checkpoint.tensor(f"{tower}conv_out.weight")
    yield from build_encoder.renamed(checkpoint, names)
    yield from build_encoder.layers(checkpoint, _LAYER, "layers.", f"{tower}layers.", count)
