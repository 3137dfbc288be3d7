"""What may be known of a loaded model: its name, how long a context may be, what it states about itself."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runtime.catalog.manifest import read_manifest
from runtime.device.active import ActiveDevice
from runtime.errors import ModelError, SettingError
from runtime.families.prefill_chunk import chunk_of
from runtime.layout.outcome import effective_from_model
from runtime.messages import ModelInfo, ModelKind
from runtime.model_folder import read_object
from runtime.settings.table import SETTINGS

SAMPLING_KEYS = {
    "temperature": "temperature",
    "top_k": "top_k",
    "top_p": "top_p",
    "min_p": "min_p",
    "repetition_penalty": "repetition_penalty",
    "presence_penalty": "presence_penalty",
    "frequency_penalty": "frequency_penalty",
    "max_new_tokens": "max_tokens",
}
"""What of generation_config.json counts, each with our name for it: what vLLM takes from there, and the two
penalties that transformers does not have."""

_MOST_TOKENS = 2**31
"""No vocabulary has as many; what the vendor's classes are given must fit into a tensor."""


def model_info(
    model_id: str,
    folder: Path,
    family: str,
    kind: ModelKind,
    model: Any,
    active: ActiveDevice,
    seconds: float,
    *,
    text: Any = None,
    compiled: Any = None,
) -> ModelInfo:
    """What the UI may know of a loaded model; `text` is the submodel with the KV cache, if it is one.

    `compiled` is the compiled model whose cache says how long a context may be, where `text` has several.
    """
    decoder = model if text is None else text
    layout = effective_from_model(model)
    return ModelInfo(
        model_id=model_id,
        title=title_of(folder),
        kind=kind,
        family=family,
        folder=str(folder),
        device=active.title,
        simulated=active.simulated,
        layout=layout,
        context_length=context_length(decoder, compiled),
        prefill_chunk=chunk_of(decoder),
        sampling_defaults=sampling_defaults(folder),
        load_seconds=seconds,
    )


def title_of(folder: Path) -> str:
    """The name its installation gave the model; the folder's own for one that was brought from elsewhere."""
    try:
        return read_manifest(folder).about.title
    except ModelError:
        return folder.name


def context_length(model: Any, compiled: Any = None) -> int:
    """Positions the KV cache of the model's only compiled model, or of the one given, holds."""
    buffers = (compiled or model.get_mxq_model()).get_input_buffer_info()
    return int(buffers[0].max_cache_size) or int(model.config.max_position_embeddings)


def sampling_defaults(folder: Path) -> dict[str, float | int]:
    """The sampling values that the folder's generation_config.json states, by our names.

    Read from the file: the loaded object also holds the library's own defaults, which nobody chose.
    """
    try:
        stated = read_object(folder / "generation_config.json")
    except (OSError, ValueError):
        return {}  # optional, and the vendor's class reads the rest of it
    values = {
        name: value
        for key, name in SAMPLING_KEYS.items()
        if isinstance(value := stated.get(key), (int, float)) and _is_taken(name, value)
    }
    if stated.get("do_sample") is False:
        values["temperature"] = 0.0
    return values


def eos_ids(model: Any, tokenizer: Any) -> frozenset[int]:
    """Every token that ends an answer: the generation config's, the tokenizer's. What is no token is none."""
    found: list[Any] = []
    for value in (model.generation_config.eos_token_id, tokenizer.eos_token_id):
        found += value if isinstance(value, list) else [value]
    return frozenset(one for one in found if type(one) is int and 0 <= one < _MOST_TOKENS)


def _is_taken(key: str, value: float) -> bool:
    """Whether the setting of that name takes the value; a model may state anything."""
    try:
        SETTINGS[f"sampling.{key}"].check(value)
    except SettingError:
        return False
    return True
