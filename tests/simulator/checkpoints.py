"""Checkpoints small enough for a test: random weights, no tokenizer."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from runtime.simulator.build import build_artifact

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
    "exaone": {"model_type": "exaone", "tie_word_embeddings": True},
    "exaone-scaled": {
        "model_type": "exaone",
        "tie_word_embeddings": False,
        "rope_parameters": {
            "rope_type": "llama3",
            "rope_theta": 500.0,
            "factor": 8.0,
            "low_freq_factor": 1.0,
            "high_freq_factor": 4.0,
            "original_max_position_embeddings": 32,
        },
    },
    "exaone4": {
        "model_type": "exaone4",
        "tie_word_embeddings": False,
        "sliding_window": None,
        "layer_types": ["full_attention"] * 3,
    },
    "exaone4-sliding": {
        "model_type": "exaone4",
        "tie_word_embeddings": False,
        # Shorter than the prompts and the prefill chunks of the tests.
        "sliding_window": 11,
        "sliding_window_pattern": 3,
        "head_dim": 16,
    },
    "cohere2": {
        "model_type": "cohere2",
        "sliding_window": 13,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "attention_bias": True,
        "logit_scale": 0.4,
    },
}


def make_checkpoint(folder: Path, family: str, **changes: Any) -> Path:
    """Write a plain Hugging Face checkpoint; returns its folder."""
    import torch
    from transformers import AutoConfig, AutoModelForCausalLM

    settings = _COMMON | FAMILIES[family] | changes
    wanted = settings.pop("model_type")
    model_type = "llama" if wanted == "exaone" else wanted
    torch.manual_seed(sum(map(ord, family)))
    model = AutoModelForCausalLM.from_config(AutoConfig.for_model(model_type, **settings))
    unsettle(model).save_pretrained(folder)
    if wanted == "exaone":
        become_exaone(folder)
    return folder


def become_exaone(folder: Path) -> None:
    """Turn a Llama checkpoint into what an EXAONE 3.5 one looks like; the Llama stays beside it.

    transformers has no EXAONE 3.5: its code comes with its checkpoints, and is a Llama with other names.
    """
    from safetensors.torch import load_file, save_file

    llama = folder / "llama"
    llama.mkdir()
    for path in [path for path in folder.iterdir() if path.is_file()]:
        path.rename(llama / path.name)
    names = {
        "model.embed_tokens": "transformer.wte",
        "model.norm": "transformer.ln_f",
        "model.layers": "transformer.h",
        "input_layernorm": "ln_1",
        "post_attention_layernorm": "ln_2",
        "self_attn.o_proj": "attn.attention.out_proj",
        "self_attn": "attn.attention",
        "gate_proj": "c_fc_0",
        "up_proj": "c_fc_1",
        "down_proj": "c_proj",
    }
    tensors = {}
    for name, tensor in load_file(llama / "model.safetensors").items():
        for theirs, exaone in names.items():
            name = name.replace(theirs, exaone)
        tensors[name] = tensor
    save_file(tensors, folder / "model.safetensors")
    config = json.loads((llama / "config.json").read_text())
    rope = config.pop("rope_parameters")
    config |= {
        "model_type": "exaone",
        "architectures": ["ExaoneForCausalLM"],
        "auto_map": {"AutoModelForCausalLM": "modeling_exaone.ExaoneForCausalLM"},
        "num_layers": config.pop("num_hidden_layers"),
        "activation_function": config.pop("hidden_act"),
        "layer_norm_epsilon": config.pop("rms_norm_eps"),
        "rope_theta": rope.pop("rope_theta"),
        "rope_scaling": None if rope["rope_type"] == "default" else rope,
    }
    (folder / "config.json").write_text(json.dumps(config))


def plain_model(folder: Path) -> Any:
    """The reference implementation on a checkpoint."""
    import torch
    from transformers import AutoModelForCausalLM

    llama = folder / "llama"
    return AutoModelForCausalLM.from_pretrained(
        llama if llama.is_dir() else folder, dtype=torch.float32
    ).eval()


def plain_greedy(folder: Path, prompt: list[int], count: int) -> list[int]:
    """What plain transformers generates after `prompt`."""
    return greedy(plain_model(folder), prompt, count)


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


def unsettle(model: Any) -> Any:
    """Shake the ones and zeros of a fresh model's norms and biases, which would hide a mix-up."""
    import torch

    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name.lower() or "bias" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    return model.eval()


def assert_is_the_same_beside_a_load(source: Path, folder: Path) -> None:
    """Build an artifact of the checkpoint twice: alone, and while another thread loads a model.

    That changes the data type of new tensors, for the whole process.
    """
    import torch
    from safetensors.torch import load_file

    alone, beside = folder / "alone", folder / "beside"
    build_artifact(source, alone)
    torch.set_default_dtype(torch.bfloat16)
    try:
        build_artifact(source, beside)
    finally:
        torch.set_default_dtype(torch.float32)
    for path in sorted(alone.glob("*.safetensors")):
        ours, theirs = load_file(path), load_file(beside / path.name)
        assert ours.keys() == theirs.keys()
        for name, tensor in ours.items():
            assert tensor.dtype is theirs[name].dtype, name
            assert torch.equal(tensor, theirs[name]), name
