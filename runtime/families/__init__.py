"""One adapter per model family, between the engine and transformers-mblt."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from runtime.config import DeviceChoice
from runtime.errors import ModelDamagedError, ModelIncompleteError, ModelNotFoundError, ModelUnsupportedError
from runtime.families.base import FamilyModel, Progress
from runtime.families.memory import smaller_advised
from runtime.lanes.building import building
from runtime.layout.request import LayoutRequest
from runtime.model_folder import read_object, require_plain_files, stated_in

_TEXT = ("llama", "qwen2", "qwen3", "exaone", "exaone4", "cohere2")
_MIXTURE = ("qwen3_moe",)
_SPECULATIVE = ("llama-eagle3", "qwen2-eagle3", "qwen3-eagle3")
_IMAGE_TEXT = ("qwen2_vl", "qwen3_vl")
_AYA_VISION = ("aya_vision",)
_CAPTION = ("blip",)
_CHATTING = (*_TEXT, *_MIXTURE, *_SPECULATIVE, *_IMAGE_TEXT, *_AYA_VISION, *_CAPTION)


def family_of(folder: Path) -> str:
    """The family named by the folder's config.json, e.g. "llama" for `mobilint-llama`.

    Raises ModelNotFoundError, ModelIncompleteError or ModelDamagedError.
    """
    config = read_config(folder)
    return str(config.get("model_type", "")).removeprefix("mobilint-")


def read_config(folder: Path) -> dict[str, Any]:
    """The model folder's config.json."""
    if not folder.is_dir():
        raise ModelNotFoundError(
            f"There is no model folder {folder}.",
            remedy="Fetch the model in the Models pane, or check the path.",
        )
    path = folder / "config.json"
    try:
        return read_object(path)
    except FileNotFoundError:
        raise ModelIncompleteError(
            f"The model folder {folder} has no config.json.",
            remedy="Fetch the model again, or choose the folder that holds config.json and the .mxq files.",
        ) from None
    except (OSError, ValueError) as error:
        raise ModelDamagedError(
            f"{path} cannot be read.", remedy="Fetch the model again.", detail=str(error)
        ) from error


def load_model(
    model_id: str, folder: Path, layout: LayoutRequest, device: DeviceChoice, progress: Progress
) -> FamilyModel:
    """Load the artifact in `folder` with the adapter of its family; heavy imports happen here."""
    family = family_of(folder)
    require_plain_files(folder, read_config(folder))
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
