"""Checkpoints small enough for a test: random weights, no tokenizer."""

from __future__ import annotations

from pathlib import Path
from typing import Any

_COMMON: dict[str, Any] = {
    "vocab_size": 131,
    "hidden_size": 48,
    "intermediate_size": 80,
    "num_hidden_layers": 3,
    "num_attention_heads": 6,
    "num_key_value_heads": 2,
    "max_position_embeddings": 256,
    # Large enough that greedy choices are not decided by rounding.
    "initializer_range": 0.25,
    "bos_token_id": None,
    "eos_token_id": None,
    "pad_token_id": 0,
}
FAMILIES: dict[str, dict[str, Any]] = {
    "llama": {"model_type": "llama", "tie_word_embeddings": True},
    "llama-scaled": {
        "model_type": "llama",
        "tie_word_embeddings": False,
        "num_key_value_heads": 6,
        "attention_bias": True,
        "mlp_bias": True,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 10000.0,
            "factor": 4.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 64,
        },
    },
    "qwen2": {"model_type": "qwen2", "tie_word_embeddings": False},
    "qwen3": {"model_type": "qwen3", "tie_word_embeddings": True, "head_dim": 16},
}


def make_checkpoint(folder: Path, family: str, **changes: Any) -> Path:
    """Write a plain Hugging Face checkpoint; returns its folder."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = _COMMON | FAMILIES[family] | changes
    model_type = settings.pop("model_type")
    torch.manual_seed(sum(map(ord, family)))
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **settings))
    with torch.no_grad():
        # Fresh models have ones and zeros here, which would hide a mix-up.
        for name, parameter in model.named_parameters():
            if "norm" in name or "bias" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    model.save_pretrained(folder)
    return folder


def plain_greedy(folder: Path, prompt: list[int], count: int) -> list[int]:
    """What plain transformers generates after `prompt`."""
    import torch
    from transformers import AutoModelForCausalLM

    model = AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32).eval()
    return greedy(model, prompt, count)


def greedy(model: Any, prompt: list[int], count: int, **kwargs: Any) -> list[int]:
    """`generate()`'s greedy continuation."""
    import torch

    ids = torch.tensor([prompt])
    with torch.inference_mode():
        output = model.generate(
            ids,
            attention_mask=torch.ones_like(ids),
            max_new_tokens=count,
            do_sample=False,
            pad_token_id=0,
            **kwargs,
        )
    return output[0, len(prompt) :].tolist()
