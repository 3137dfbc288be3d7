"""One adapter per model family, between the engine and transformers-mblt."""

from __future__ import annotations

from pathlib import Path

from runtime.config import DeviceChoice
from runtime.errors import ModelUnsupportedError
from runtime.families.base import FamilyModel, Progress
from runtime.families.memory import smaller_advised
from runtime.lanes.building import building
from runtime.layout.request import LayoutRequest
from runtime.model_folder import family_of, read_config, require_plain_files, stated_in

_TEXT = ("llama", "qwen2", "qwen3", "exaone", "exaone4", "cohere2")
_MIXTURE = ("qwen3_moe",)
_SPECULATIVE = ("llama-eagle3", "qwen2-eagle3", "qwen3-eagle3")
_IMAGE_TEXT = ("qwen2_vl", "qwen3_vl")
_AYA_VISION = ("aya_vision",)
_CAPTION = ("blip",)
_CHATTING = (*_TEXT, *_MIXTURE, *_SPECULATIVE, *_IMAGE_TEXT, *_AYA_VISION, *_CAPTION)


def load_model(
    model_id: str, folder: Path, layout: LayoutRequest, device: DeviceChoice, progress: Progress
) -> FamilyModel:
    """Load the artifact in `folder` with the adapter of its family; heavy imports happen here.

    Raises ModelError, LayoutError or DeviceError with the words for the user, and what `progress` raises.
    """
    config = read_config(folder)
    require_plain_files(folder, config)
    family = family_of(config)
    with building(progress), smaller_advised(folder, layout), stated_in(folder):
        return _load(model_id, folder, family, layout, device, progress)


def _load(
    model_id: str, folder: Path, family: str, layout: LayoutRequest, device: DeviceChoice, progress: Progress
) -> FamilyModel:
    if family in _TEXT:
        from runtime.families.causal_lm import load_causal_lm

        return load_causal_lm(model_id, folder, family, layout, device, progress)
    if family in _MIXTURE:
        from runtime.families.mixture import load_mixture

        return load_mixture(model_id, folder, family, layout, device, progress)
    if family in _SPECULATIVE:
        from runtime.families.speculative import load_speculative

        return load_speculative(model_id, folder, family, layout, device, progress)
    if family in _IMAGE_TEXT:
        from runtime.families.image_text import load_image_text

        return load_image_text(model_id, folder, family, layout, device, progress)
    if family in _AYA_VISION:
        from runtime.families.aya_vision import load_aya_vision

        return load_aya_vision(model_id, folder, family, layout, device, progress)
    if family in _CAPTION:
        from runtime.families.caption import load_caption

        return load_caption(model_id, folder, family, layout, device, progress)
    raise ModelUnsupportedError(
        f"{folder.name} is a {family or 'nameless'} model, which cannot chat here.",
        remedy=f"Choose a model of one of these families: {', '.join(_CHATTING)}.",
    )
