"""Whisper from a CTranslate2 folder to a plain Hugging Face `WhisperForConditionalGeneration` folder.

`model.bin` (binary version 6) is a flat list of named arrays: u32 version, spec name, u32 revision, u32
count, then per array a name, u8 rank, u32 sizes, u8 type, u32 byte count and the bytes; last come aliases.
Names are u16-length-prefixed and NUL-terminated, everything is little-endian. The file is untrusted: every
length is checked against what is left of it before it is used.
"""

from __future__ import annotations

import json
import math
import mmap
import shutil
import struct
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from runtime.errors import ModelDamagedError, ModelIncompleteError, ModelUnsupportedError
from runtime.model_folder import read_object

Array = npt.NDArray[Any]

_VERSION = 6
_MAX_ARRAYS = 10_000
_MAX_RANK = 4
_DTYPES = {0: "<f4", 1: "<i1", 2: "<i2", 3: "<i4", 4: "<f2"}
_FIRST_TIMESTAMP_AFTER = "<|notimestamps|>"
_HEAD_SIZE = 64
"""Every Whisper model has attention heads of this size; CTranslate2 stores only their number."""


class _Reader:
    """A cursor over the file's bytes that refuses to run past the end."""

    def __init__(self, data: memoryview, name: str) -> None:
        self._data = data
        self._name = name
        self._at = 0

    def take(self, count: int) -> memoryview:
        """The next `count` bytes."""
        end = self._at + count
        if end > len(self._data):
            raise ModelDamagedError(
                f"{self._name} ends in the middle of its data.",
                remedy="Fetch the model again.",
                detail=f"{count} bytes wanted at offset {self._at} of {len(self._data)}",
            )
        part = self._data[self._at : end]
        self._at = end
        return part

    def number(self, code: str) -> int:
        """One little-endian integer of struct code `code`."""
        return int(struct.unpack("<" + code, self.take(struct.calcsize(code)))[0])

    def text(self) -> str:
        """A length-prefixed name."""
        raw = bytes(self.take(self.number("H")))
        return raw.rstrip(b"\0").decode("utf-8", errors="replace")


def read_arrays(path: Path) -> dict[str, Array]:
    """The named arrays of a CTranslate2 `model.bin`, memory-mapped; aliases are left out.

    Raises ModelUnsupportedError for another version or type, ModelDamagedError for anything inconsistent.
    """
    if path.stat().st_size == 0:
        raise ModelDamagedError(f"{path.name} is empty.", remedy="Fetch the model again.")
    with path.open("rb") as file:
        reader = _Reader(memoryview(mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ)), path.name)
    version = reader.number("I")
    if version != _VERSION:
        raise ModelUnsupportedError(
            f"{path.name} has CTranslate2 format {version}; this program converts format {_VERSION}.",
            remedy="Convert the model with a current CTranslate2.",
        )
    spec, _revision = reader.text(), reader.number("I")
    if spec != "WhisperSpec":
        raise ModelUnsupportedError(
            f"{path.name} is a {spec} model, not a Whisper.", remedy="Choose a Whisper model."
        )
    count = reader.number("I")
    if count > _MAX_ARRAYS:
        raise ModelDamagedError(
            f"{path.name} claims to hold {count} arrays.", remedy="Fetch the model again."
        )
    return dict(_array(reader, path.name) for _ in range(count))


def _array(reader: _Reader, file_name: str) -> tuple[str, Array]:
    name, rank = reader.text(), reader.number("B")
    shape = tuple(reader.number("I") for _ in range(min(rank, _MAX_RANK)))
    dtype = _DTYPES.get(reader.number("B"))
    data = reader.take(reader.number("I"))
    if dtype is None or rank > _MAX_RANK or math.prod(shape) * np.dtype(dtype).itemsize != len(data):
        raise ModelDamagedError(
            f"{file_name} holds an array that cannot be read.",
            remedy="Fetch the model again.",
            detail=f"{name}: type {dtype}, shape {shape}, {len(data)} bytes",
        )
    return name, np.frombuffer(data, dtype=dtype).reshape(shape)


def convert_whisper(source: Path, target: Path) -> None:
    """Write the checkpoint folder `target` (created) from the CTranslate2 Whisper folder `source`.

    Raises ModelIncompleteError when a file is missing, else as `read_arrays`.
    """
    for name in ("model.bin", "config.json", "tokenizer.json"):
        if not (source / name).is_file():
            raise ModelIncompleteError(f"{source.name} has no {name}.", remedy="Fetch the model again.")
    arrays = read_arrays(source / "model.bin")
    try:
        tensors = dict(_renamed(arrays))
        shape = _Shape(arrays)
        hints = read_object(source / "config.json")
        vocabulary = read_object(source / "tokenizer.json")
        special = {item["content"]: int(item["id"]) for item in vocabulary["added_tokens"]}
        documents = {
            "config.json": shape.config(special),
            "generation_config.json": _generation_config(special, hints),
            "tokenizer_config.json": _tokenizer_config(special),
            "preprocessor_config.json": shape.preprocessor(),
        }
    except (KeyError, TypeError, ValueError) as error:
        raise ModelDamagedError(
            f"{source.name} is not a complete CTranslate2 Whisper model.",
            remedy="Fetch the model again.",
            detail=f"{type(error).__name__}: {error}",
        ) from error
    _write(target, tensors, documents)
    shutil.copyfile(source / "tokenizer.json", target / "tokenizer.json")


def _write(target: Path, tensors: dict[str, Array], documents: dict[str, dict[str, Any]]) -> None:
    from safetensors.numpy import save

    target.mkdir(parents=True, exist_ok=True)
    # Written by Python, not by the library: a full disk then is an OSError like everywhere else.
    (target / "model.safetensors").write_bytes(save(tensors, metadata={"format": "pt"}))
    for name, value in documents.items():
        (target / name).write_text(json.dumps(value, indent=2) + "\n", encoding="utf-8")


_AFFINE = {"gamma": "weight", "beta": "bias", "weight": "weight", "bias": "bias"}
_STEMS = {
    "layer_norm": "layer_norm",
    "conv1": "conv1",
    "conv2": "conv2",
    "self_attention/layer_norm": "self_attn_layer_norm",
    "self_attention/linear_1": "self_attn.out_proj",
    "attention/layer_norm": "encoder_attn_layer_norm",
    "attention/linear_0": "encoder_attn.q_proj",
    "attention/linear_2": "encoder_attn.out_proj",
    "ffn/layer_norm": "final_layer_norm",
    "ffn/linear_0": "fc1",
    "ffn/linear_1": "fc2",
}
_FUSED = {
    "self_attention/linear_0": ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"),
    "attention/linear_1": ("encoder_attn.k_proj", "encoder_attn.v_proj"),
}
_WHOLE = {
    "embeddings/weight": "embed_tokens.weight",
    "position_encodings/encodings": "embed_positions.weight",
}


def _renamed(arrays: dict[str, Array]) -> Iterator[tuple[str, Array]]:
    """CTranslate2's arrays under Hugging Face names, fused projections split."""
    for name, values in arrays.items():
        if values.ndim == 0 or name.rpartition("/")[2].startswith("alignment"):
            continue  # flags and hints, not weights
        side, _, rest = name.partition("/")
        prefix = f"model.{side}."
        if rest in _WHOLE:
            yield prefix + _WHOLE[rest], values
            continue
        if rest.startswith("layer_") and not rest.startswith("layer_norm"):
            layer, _, rest = rest.partition("/")
            prefix += f"layers.{int(layer.removeprefix('layer_'))}."
        stem, _, kind = rest.rpartition("/")
        if stem in _FUSED:
            yield from _split(prefix, _FUSED[stem], kind, values)
        else:
            yield f"{prefix}{_STEMS[stem]}.{_AFFINE[kind]}", values


def _split(prefix: str, parts: tuple[str, ...], kind: str, values: Array) -> Iterator[tuple[str, Array]]:
    for part, block in zip(parts, np.split(values, len(parts)), strict=True):
        if part.endswith("k_proj") and kind == "bias":
            if np.any(block):
                raise ValueError(f"{prefix}{part} has a bias; Whisper's keys have none")
            continue
        yield f"{prefix}{part}.{kind}", np.ascontiguousarray(block)


class _Shape:
    """The sizes of a Whisper model, read off its arrays."""

    def __init__(self, arrays: dict[str, Array]) -> None:
        self.vocabulary, self.width = arrays["decoder/embeddings/weight"].shape
        self.target_positions = arrays["decoder/position_encodings/encodings"].shape[0]
        self.source_positions = arrays["encoder/position_encodings/encodings"].shape[0]
        self.mels = arrays["encoder/conv1/weight"].shape[1]
        self.feed_forward = arrays["encoder/layer_0/ffn/linear_0/weight"].shape[0]
        self.layers = {
            side: sum(
                name.startswith(f"{side}/layer_") and name.endswith("/ffn/linear_0/weight") for name in arrays
            )
            for side in ("encoder", "decoder")
        }
        self.heads = {side: int(arrays[f"{side}/num_heads"]) for side in ("encoder", "decoder")}
        if self.width != self.heads["decoder"] * _HEAD_SIZE:
            raise ValueError(f"{self.heads['decoder']} heads do not fit a width of {self.width}")

    def config(self, special: dict[str, int]) -> dict[str, Any]:
        """Hugging Face's config.json."""
        end = special["<|endoftext|>"]
        return {
            "architectures": ["WhisperForConditionalGeneration"],
            "model_type": "whisper",
            "is_encoder_decoder": True,
            "activation_function": "gelu",
            "d_model": self.width,
            "vocab_size": self.vocabulary,
            "num_mel_bins": self.mels,
            "encoder_layers": self.layers["encoder"],
            "decoder_layers": self.layers["decoder"],
            "num_hidden_layers": self.layers["encoder"],
            "encoder_attention_heads": self.heads["encoder"],
            "decoder_attention_heads": self.heads["decoder"],
            "encoder_ffn_dim": self.feed_forward,
            "decoder_ffn_dim": self.feed_forward,
            "max_source_positions": self.source_positions,
            "max_target_positions": self.target_positions,
            "decoder_start_token_id": special["<|startoftranscript|>"],
            "bos_token_id": end,
            "eos_token_id": end,
            "pad_token_id": end,
            "scale_embedding": False,
            "tie_word_embeddings": True,
            # What to compute in; the arrays themselves stay float16, as they came.
            "dtype": "float32",
            "torch_dtype": "float32",
        }

    def preprocessor(self) -> dict[str, Any]:
        """Hugging Face's preprocessor_config.json; the mel filters follow from these numbers."""
        return {
            "feature_extractor_type": "WhisperFeatureExtractor",
            "processor_class": "WhisperProcessor",
            "feature_size": self.mels,
            "sampling_rate": 16000,
            "hop_length": 160,
            "n_fft": 400,
            "chunk_length": self.source_positions * 2 * 160 // 16000,
            "nb_max_frames": self.source_positions * 2,
            "n_samples": self.source_positions * 2 * 160,
            "padding_side": "right",
            "padding_value": 0.0,
            "return_attention_mask": False,
        }


def _generation_config(special: dict[str, int], hints: dict[str, Any]) -> dict[str, Any]:
    end, start = special["<|endoftext|>"], special["<|startoftranscript|>"]
    # The English-only models number their special tokens one below the multilingual ones.
    multilingual = end != 50256
    config: dict[str, Any] = {
        "alignment_heads": hints["alignment_heads"],
        "suppress_tokens": hints["suppress_ids"],
        "begin_suppress_tokens": hints["suppress_ids_begin"],
        "bos_token_id": end,
        "eos_token_id": end,
        "pad_token_id": end,
        "decoder_start_token_id": start,
        "prev_sot_token_id": special["<|startofprev|>"],
        "no_timestamps_token_id": special[_FIRST_TIMESTAMP_AFTER],
        "max_initial_timestamp_index": 50,
        "max_length": 448,
        "return_timestamps": False,
        "is_multilingual": multilingual,
    }
    if multilingual:
        codes = {text: number for text, number in special.items() if number in set(hints["lang_ids"])}
        config["lang_to_id"] = codes
        config["task_to_id"] = {
            "transcribe": special["<|transcribe|>"],
            "translate": special["<|translate|>"],
        }
    return config


def _tokenizer_config(special: dict[str, int]) -> dict[str, Any]:
    end = "<|endoftext|>"
    return {
        # In order of their numbers: the tokenizer takes the last one's successor for the first timestamp.
        "additional_special_tokens": sorted(special.keys() - {end}, key=special.__getitem__),
        "tokenizer_class": "WhisperTokenizer",
        "processor_class": "WhisperProcessor",
        "bos_token": end,
        "eos_token": end,
        "pad_token": end,
        "unk_token": end,
        "add_prefix_space": False,
        "clean_up_tokenization_spaces": False,
        "errors": "replace",
        "model_max_length": 1024,
    }
