"""A tiny LFM2-Audio as a checkpoint, and the same network put together from what transformers has.

transformers knows neither LFM2-Audio nor its checkpoints; the package of its authors needs Python 3.12. But
its parts are there: the FastConformer of Parakeet, and LFM2, which the depthformer is too, with other names,
pairs of rotated channels that are neighbours, and no norm at its end.
"""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from tests.simulator.checkpoints import unsettle

SOUND = 16
"""The token in whose place sound goes."""
MELS, HIDDEN, DEPTH, CODEBOOKS, CODES = 16, 64, 64, 3, 11
DEPTH_HEADS, DEPTH_KV_HEADS = 32, 8
TURNS = {"interleaved_n_text": 3, "interleaved_n_audio": 4}
_CONFORMER = {
    "subsampling.layers.": "pre_encode.conv.",
    "subsampling.linear.": "pre_encode.out.",
    "self_attn.relative_k_proj": "self_attn.linear_pos",
    "self_attn.q_proj": "self_attn.linear_q",
    "self_attn.k_proj": "self_attn.linear_k",
    "self_attn.v_proj": "self_attn.linear_v",
    "self_attn.o_proj": "self_attn.linear_out",
    "self_attn.bias_": "self_attn.pos_bias_",
    "conv.norm.": "conv.batch_norm.",
}


@dataclass
class Reference:
    """The parts, and what they say together; everything greedy."""

    encoder: Any
    adapter: nn.Module
    backbone: Any
    depthformer: Any
    audio_embedding: nn.Embedding
    depth_linear: nn.Linear
    depth_embeddings: list[nn.Embedding]
    depth_norms: list[torch.Tensor]

    def hear(self, features: torch.Tensor) -> torch.Tensor:
        """Embeddings (n, hidden) of a spectrogram (1, mels, frames)."""
        frames = features.shape[-1]
        padded = nn.functional.pad(features, (0, 1000 - frames)).transpose(1, 2)
        mask = (torch.arange(1000) < frames)[None]
        with torch.inference_mode():
            states = self.encoder(padded, attention_mask=mask).last_hidden_state
            return self.adapter(states[0, : -(frames // -8)])

    def embed(self, ids: list[int], features: torch.Tensor | None = None) -> torch.Tensor:
        """What goes into the backbone (1, n, hidden)."""
        tokens = torch.tensor([ids])
        embedded = self.backbone.embed_tokens(tokens).detach().clone()
        if features is not None:
            embedded[tokens == SOUND] = self.hear(features)
        return embedded

    def states(self, embedded: torch.Tensor) -> torch.Tensor:
        """The backbone's states (n, hidden), all computed afresh."""
        with torch.inference_mode():
            return self.backbone(inputs_embeds=embedded, use_cache=False).last_hidden_state[0]

    def text_logits(self, state: torch.Tensor) -> torch.Tensor:
        """The head is the token embedding."""
        return state @ self.backbone.embed_tokens.weight.detach().T

    def transcribe(self, embedded: torch.Tensor, count: int) -> list[int]:
        """Greedy text."""
        tokens: list[int] = []
        for _ in range(count):
            tokens.append(int(self.text_logits(self.states(embedded)[-1]).argmax()))
            following = self.backbone.embed_tokens(torch.tensor([[tokens[-1]]])).detach()
            embedded = torch.cat([embedded, following], dim=1)
        return tokens

    def frame(self, state: torch.Tensor) -> list[int]:
        """One frame of sound, greedily."""
        codes: list[int] = []
        with torch.inference_mode():
            given = self.depth_linear(state).reshape(CODEBOOKS, DEPTH)
            embedded, steps = torch.zeros(DEPTH), []
            for step in range(CODEBOOKS):
                steps.append(given[step] + embedded)
                stacked = torch.stack(steps)[None]
                out = self.depthformer(inputs_embeds=stacked, use_cache=False).last_hidden_state[0, -1]
                scaled = out * torch.rsqrt(out.pow(2).mean() + 1e-5) * self.depth_norms[step]
                codes.append(int((self.depth_embeddings[step].weight @ scaled).argmax()))
                embedded = self.depth_embeddings[step].weight[codes[-1]]
        return codes


def make_reference() -> Reference:
    """Random, from a fixed seed."""
    from transformers import Lfm2Config, Lfm2Model, ParakeetEncoderConfig
    from transformers.models.parakeet.modeling_parakeet import ParakeetEncoder

    torch.manual_seed(9)
    conformer = ParakeetEncoderConfig(
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=4,
        intermediate_size=64,
        conv_kernel_size=5,
        subsampling_conv_channels=6,
        num_mel_bins=MELS,
        scale_input=False,
        initializer_range=0.2,
    )
    encoder = unsettle(ParakeetEncoder(conformer))
    for module in encoder.modules():
        if isinstance(module, nn.BatchNorm1d):
            module.running_mean.normal_(0, 0.3)
            module.running_var.uniform_(0.5, 2)
    sizes = {"vocab_size": 73, "hidden_size": HIDDEN, "initializer_range": 0.2, "block_multiple_of": 8}
    heads = {"num_attention_heads": 8, "num_key_value_heads": 2}
    kinds = ["conv", "full_attention", "conv"]
    lfm = Lfm2Config(
        **sizes,
        **heads,
        num_hidden_layers=3,
        layer_types=kinds,
        intermediate_size=96,
        max_position_embeddings=512,
        conv_bias=True,
    )
    heads = {"num_attention_heads": DEPTH_HEADS, "num_key_value_heads": DEPTH_KV_HEADS}
    depth = Lfm2Config(**sizes, **heads, num_hidden_layers=2, intermediate_size=96)
    depthformer = unsettle(Lfm2Model(depth))
    depthformer.embedding_norm = nn.Identity()
    adapter = nn.Sequential(nn.LayerNorm(32), nn.Linear(32, HIDDEN), nn.GELU(), nn.Linear(HIDDEN, HIDDEN))
    return Reference(
        encoder=encoder,
        adapter=unsettle(adapter),
        backbone=unsettle(Lfm2Model(lfm)),
        depthformer=depthformer,
        audio_embedding=nn.Embedding(CODEBOOKS * CODES, HIDDEN),
        depth_linear=nn.Linear(HIDDEN, CODEBOOKS * DEPTH),
        depth_embeddings=[nn.Embedding(CODES, DEPTH) for _ in range(CODEBOOKS)],
        depth_norms=[torch.rand(DEPTH) + 0.5 for _ in range(CODEBOOKS)],
    )


def write_checkpoint(reference: Reference, folder: Path) -> Path:
    """The network in the form in which its authors publish it."""
    from safetensors.torch import save_file

    tensors: dict[str, torch.Tensor] = {}
    for name, tensor in reference.encoder.state_dict().items():
        for theirs, own in _CONFORMER.items():
            name = name.replace(theirs, own)
        tensors[f"conformer.{name}"] = tensor
    for name, tensor in reference.adapter.state_dict().items():
        tensors[f"audio_adapter.model.{name}"] = tensor
    for name, tensor in reference.backbone.state_dict().items():
        tensors[f"lfm.{name}"] = tensor
    tensors |= _depthformer(reference.depthformer.state_dict())
    tensors["audio_embedding.embedding.weight"] = reference.audio_embedding.weight
    tensors |= {f"depth_linear.{name}": value for name, value in reference.depth_linear.state_dict().items()}
    for number, embedding in enumerate(reference.depth_embeddings):
        tensors[f"depth_embeddings.{number}.embedding.weight"] = embedding.weight
        tensors[f"depth_embeddings.{number}.embedding_norm.weight"] = reference.depth_norms[number]
        tensors[f"depth_embeddings.{number}.to_logits.weight"] = embedding.weight
    folder.mkdir()
    whole = {name: tensor.detach().clone().contiguous() for name, tensor in tensors.items()}
    save_file(whole, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(_config(reference)))
    return folder


def _config(reference: Reference) -> dict[str, Any]:
    conformer = reference.encoder.config
    return {
        "architectures": ["Lfm2AudioForConditionalGeneration"],
        "codebooks": CODEBOOKS,
        **TURNS,
        "encoder": {
            "feat_in": MELS,
            "feat_out": -1,
            "n_layers": conformer.num_hidden_layers,
            "d_model": conformer.hidden_size,
            "subsampling": "dw_striding",
            "subsampling_factor": 8,
            "subsampling_conv_channels": conformer.subsampling_conv_channels,
            "causal_downsampling": False,
            "reduction": None,
            "ff_expansion_factor": 2,
            "self_attention_model": "rel_pos",
            "n_heads": conformer.num_attention_heads,
            "xscaling": False,
            "conv_kernel_size": conformer.conv_kernel_size,
            "conv_norm_type": "batch_norm",
            "conv_context_size": None,
        },
        "lfm": reference.backbone.config.to_dict(),
        "depthformer": {"layers": 2, "dim": DEPTH, "tie": True},
    }


def _depthformer(state: dict[str, torch.Tensor]) -> dict[str, torch.Tensor]:
    tensors: dict[str, torch.Tensor] = {}
    for number in range(2):
        ours, theirs = f"layers.{number}.", f"depthformer.layers.{number}."
        parts = [state[f"{ours}self_attn.{name}_proj.weight"] for name in "qkv"]
        fused = torch.cat([_neighbours(parts[0]), _neighbours(parts[1]), parts[2]])
        tensors[f"{theirs}operator.qkv_proj.weight"] = fused
        tensors[f"{theirs}operator.out_proj.weight"] = state[f"{ours}self_attn.out_proj.weight"]
        for name in "qk":
            norm = _neighbours(state[f"{ours}self_attn.{name}_layernorm.weight"])
            tensors[f"{theirs}operator.bounded_attention.{name}_layernorm.weight"] = norm
        for name in ("operator_norm", "ffn_norm", "feed_forward.w1", "feed_forward.w2", "feed_forward.w3"):
            tensors[f"{theirs}{name}.weight"] = state[f"{ours}{name}.weight"]
    return tensors


def _neighbours(tensor: torch.Tensor) -> torch.Tensor:
    """Heads whose halves are the pairs, with the pairs next to each other."""
    size = DEPTH // DEPTH_HEADS
    return tensor.reshape(-1, 2, size // 2, *tensor.shape[1:]).transpose(1, 2).reshape(tensor.shape)
