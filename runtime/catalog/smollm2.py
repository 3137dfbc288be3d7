"""SmolLM2 from its GGUF file to a plain Hugging Face `LlamaForCausalLM` folder.

The weights are read with the `gguf` package and written as float16 safetensors; nothing of torch is needed.
The file's Q4_1 values survive float16 to the fourth digit, far inside their own quantisation step.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.errors import ModelDamagedError, ModelUnsupportedError

Array = npt.NDArray[Any]

_WHOLE = {
    "token_embd.weight": "model.embed_tokens.weight",
    "output_norm.weight": "model.norm.weight",
    "output.weight": "lm_head.weight",
}
_PER_LAYER = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
}
_CONTROL_TOKEN = 3
"""GGUF's token type of `<|im_start|>` and its like."""


_SAMPLING = {
    "do_sample": True,
    "temperature": 0.2,
    "top_p": 0.9,
    "repetition_penalty": 1.05,
    "max_new_tokens": 1024,
}
"""Temperature and top-p as its makers advise. Without a penalty so small a model soon repeats itself,
with 1.1 it avoids the words of the question (docs/decisions.md). What repeats itself all the same ends."""


def convert_gguf(source: Path, target: Path) -> None:
    """Write the checkpoint folder `target` (created) from the GGUF file `source`.

    Raises ModelDamagedError when the file is no readable GGUF, ModelUnsupportedError when it is no Llama.
    """
    from gguf import GGUFReader

    try:
        reader = GGUFReader(source)
        fields = {name: field.contents() for name, field in reader.fields.items()}
    except (ValueError, IndexError, KeyError, OSError) as error:
        raise _damaged(source, error) from error
    if fields.get("general.architecture") != "llama":
        raise ModelUnsupportedError(
            f"{source.name} holds a {fields.get('general.architecture')} model, not a Llama.",
            remedy="Choose a GGUF file of the Llama architecture.",
        )
    target.mkdir(parents=True, exist_ok=True)
    try:
        config = _config(fields)
        tensors = _tensors(reader.tensors, config)
        tokenizer = _tokenizer(fields)
    except (ValueError, IndexError, KeyError) as error:
        raise _damaged(source, error) from error
    _write(target, config, tensors, tokenizer, fields)


def _write(
    target: Path, config: dict[str, Any], tensors: dict[str, Array], tokenizer: Any, fields: dict[str, Any]
) -> None:
    from safetensors.numpy import save

    # Written by Python, not by the library: a full disk then is an OSError like everywhere else.
    (target / "model.safetensors").write_bytes(save(tensors, metadata={"format": "pt"}))
    (target / "tokenizer.json").write_text(tokenizer.to_str(), encoding="utf-8")
    token = fields["tokenizer.ggml.tokens"].__getitem__
    _write_json(target / "config.json", config)
    _write_json(
        target / "generation_config.json",
        {**{key: config[key] for key in ("bos_token_id", "eos_token_id", "pad_token_id")}, **_SAMPLING},
    )
    _write_json(
        target / "tokenizer_config.json",
        {
            "tokenizer_class": "PreTrainedTokenizerFast",
            "bos_token": token(config["bos_token_id"]),
            "eos_token": token(config["eos_token_id"]),
            "pad_token": token(config["pad_token_id"]),
            "unk_token": token(fields["tokenizer.ggml.unknown_token_id"]),
            "chat_template": fields["tokenizer.chat_template"],
            "clean_up_tokenization_spaces": False,
            "model_max_length": config["max_position_embeddings"],
        },
    )


def _config(fields: dict[str, Any]) -> dict[str, Any]:
    return {
        "architectures": ["LlamaForCausalLM"],
        "model_type": "llama",
        "hidden_size": fields["llama.embedding_length"],
        "intermediate_size": fields["llama.feed_forward_length"],
        "num_hidden_layers": fields["llama.block_count"],
        "num_attention_heads": fields["llama.attention.head_count"],
        "num_key_value_heads": fields["llama.attention.head_count_kv"],
        "head_dim": fields["llama.rope.dimension_count"],
        "max_position_embeddings": fields["llama.context_length"],
        "rope_theta": fields["llama.rope.freq_base"],
        # The file holds a float32 whose decimal form is 9.99999…e-06.
        "rms_norm_eps": float(f"{fields['llama.attention.layer_norm_rms_epsilon']:.3g}"),
        "vocab_size": fields["llama.vocab_size"],
        "hidden_act": "silu",
        "attention_bias": False,
        "mlp_bias": False,
        "bos_token_id": fields["tokenizer.ggml.bos_token_id"],
        "eos_token_id": fields["tokenizer.ggml.eos_token_id"],
        "pad_token_id": fields["tokenizer.ggml.padding_token_id"],
        # llama.cpp leaves the output matrix out when it is the embedding; `_tensors` corrects this if not.
        "tie_word_embeddings": True,
        # What to compute in; the tensors themselves are stored as float16 to halve the disk space.
        "dtype": "float32",
        "torch_dtype": "float32",
    }


def _tensors(tensors: list[Any], config: dict[str, Any]) -> dict[str, Array]:
    from gguf import dequantize

    result: dict[str, Array] = {}
    for tensor in tensors:
        name = _hf_name(tensor.name)
        values = dequantize(tensor.data, tensor.tensor_type)
        if name.endswith("q_proj.weight"):
            values = _unpermuted(values, config["num_attention_heads"])
        elif name.endswith("k_proj.weight"):
            values = _unpermuted(values, config["num_key_value_heads"])
        result[name] = np.ascontiguousarray(values, dtype=np.float16)
    config["tie_word_embeddings"] = "lm_head.weight" not in result
    return result


def _hf_name(name: str) -> str:
    if name in _WHOLE:
        return _WHOLE[name]
    _blk, layer, part, kind = name.split(".")
    return f"model.layers.{int(layer)}.{_PER_LAYER[part]}.{kind}"


def _unpermuted(weight: Array, heads: int) -> Array:
    """Rows from llama.cpp's interleaved rotary order back to Hugging Face's two halves."""
    rows, columns = weight.shape
    pairs: Array = weight.reshape(heads, rows // heads // 2, 2, columns)
    halves: Array = pairs.swapaxes(1, 2).reshape(rows, columns)
    return halves


def _tokenizer(fields: dict[str, Any]) -> Any:
    """The byte-level BPE tokenizer, digits split one by one as SmolLM2 was trained."""
    from tokenizers import AddedToken, Tokenizer, decoders, models, pre_tokenizers

    tokens: list[str] = fields["tokenizer.ggml.tokens"]
    merges = [tuple(pair.split(" ", 1)) for pair in fields["tokenizer.ggml.merges"]]
    tokenizer = Tokenizer(models.BPE(vocab={text: i for i, text in enumerate(tokens)}, merges=merges))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(
        [
            pre_tokenizers.Digits(individual_digits=True),
            pre_tokenizers.ByteLevel(add_prefix_space=False),
        ]
    )
    tokenizer.decoder = decoders.ByteLevel()
    types: list[int] = fields["tokenizer.ggml.token_type"]
    tokenizer.add_special_tokens(
        [
            AddedToken(text, special=True, normalized=False)
            for text, kind in zip(tokens, types, strict=True)
            if kind == _CONTROL_TOKEN
        ]
    )
    return tokenizer


def _write_json(path: Path, value: dict[str, Any]) -> None:
    path.write_text(json.dumps(value, indent=2, ensure_ascii=False) + "\n", encoding="utf-8")


def _damaged(source: Path, error: Exception) -> ModelDamagedError:
    return ModelDamagedError(
        f"{source.name} is not a readable GGUF file.",
        remedy="Fetch the model again.",
        detail=f"{type(error).__name__}: {error}",
    )
