"""EAGLE-3 drafts small enough for a test, and a base that one of them agrees with."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from tests.simulator.checkpoints import make_checkpoint

HIDDEN, VOCAB, HEADS, SIZE, INNER = 48, 131, 6, 8, 64
KNOWN = 64
"""Tokens in a small draft's own vocabulary."""


def make_base(folder: Path, family: str, **changes: Any) -> Path:
    """A base of enough layers to look at three of them."""
    return make_checkpoint(folder, family, num_hidden_layers=7, **changes)


def make_draft(folder: Path, *, small: bool = True, embeds: bool = False) -> Path:
    """A draft that knows nothing: random weights, with or without a vocabulary of its own."""
    import torch

    torch.manual_seed(7)
    known = KNOWN if small else VOCAB
    tensors = {name: torch.randn(shape) * 0.3 for name, shape in _shapes(known).items()}
    if small:
        chosen = torch.randperm(VOCAB)[:known].sort().values
        tensors["d2t"] = chosen - torch.arange(known)
        tensors["t2d"] = torch.zeros(VOCAB, dtype=torch.bool).scatter(0, chosen, True)
    if embeds:
        tensors["embed_tokens.weight"] = torch.randn(VOCAB, HIDDEN)
    return _write(folder, tensors, known)


def make_agreeing_pair(folder: Path) -> tuple[Path, Path]:
    """A base whose next token depends on the last one alone, and a draft that has learnt it by heart.

    The base's layers add nothing. The draft's queries and keys are the same constant everywhere, so that once
    turned each position sees itself only; its values put the embedding in place of the feature, and its head
    is the base's.
    """
    import torch
    from safetensors.torch import load_file, save_file

    base = make_base(folder / "base", "llama", tie_word_embeddings=False)
    weights = load_file(base / "model.safetensors")
    for name, tensor in weights.items():
        if name.endswith(("o_proj.weight", "down_proj.weight")):
            tensor.zero_()
    weights["model.norm.weight"].fill_(1.0)
    weights["lm_head.weight"].mul_(8)  # sure of itself, so that the tree grows along its choice
    save_file(weights, base / "model.safetensors", {"format": "pt"})

    tensors = {name: torch.zeros(shape) for name, shape in _shapes(VOCAB).items()}
    for name in tensors:
        if "norm" in name:
            tensors[name].fill_(1.0)
    for part in "qk":
        tensors[f"midlayer.self_attn.{part}_proj.bias"] = torch.full((HIDDEN,), 40.0)
    tensors["midlayer.self_attn.v_proj.bias"] = torch.zeros(HIDDEN)
    identity = torch.eye(HIDDEN)
    tensors["midlayer.self_attn.v_proj.weight"].copy_(torch.cat([identity, -identity], dim=1))
    tensors["midlayer.self_attn.o_proj.weight"].copy_(identity)
    tensors["lm_head.weight"].copy_(weights["lm_head.weight"])
    return base, _write(folder / "draft", tensors, VOCAB)


def _shapes(known: int) -> dict[str, tuple[int, ...]]:
    shapes: dict[str, tuple[int, ...]] = {
        "fc.weight": (HIDDEN, 3 * HIDDEN),
        "norm.weight": (HIDDEN,),
        "lm_head.weight": (known, HIDDEN),
        "midlayer.self_attn.o_proj.weight": (HIDDEN, HIDDEN),
        "midlayer.mlp.gate_proj.weight": (INNER, HIDDEN),
        "midlayer.mlp.up_proj.weight": (INNER, HIDDEN),
        "midlayer.mlp.down_proj.weight": (HIDDEN, INNER),
    }
    for norm in ("hidden_norm", "input_layernorm", "post_attention_layernorm"):
        shapes[f"midlayer.{norm}.weight"] = (HIDDEN,)
    for part in "qkv":
        shapes[f"midlayer.self_attn.{part}_proj.weight"] = (HIDDEN, 2 * HIDDEN)
    return shapes


def _write(folder: Path, tensors: dict[str, Any], known: int) -> Path:
    from safetensors.torch import save_file

    folder.mkdir(parents=True)
    save_file(tensors, folder / "model.safetensors", {"format": "pt"})
    config = {
        "architectures": ["LlamaForCausalLMEagle3"],
        "model_type": "llama",
        "hidden_size": HIDDEN,
        "intermediate_size": INNER,
        "num_hidden_layers": 1,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "vocab_size": VOCAB,
        "draft_vocab_size": known,
        "max_position_embeddings": 256,
        "rms_norm_eps": 1e-6,
        "rope_theta": 10000.0,
    }
    (folder / "config.json").write_text(json.dumps(config))
    return folder
