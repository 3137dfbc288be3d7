"""What a model is for, by its config.json; and why some are of no use to any pane, in words."""

from __future__ import annotations

import re
from typing import Any

from runtime.messages import ModelKind

_UNUSED = {
    "bert": "BERT fills gaps in a text. It holds no conversation, so nothing here can use it.",
    "siglip": "SigLIP compares pictures with texts. It answers no question, so nothing here can use it.",
}
"""By the beginning of the family's name."""


def kind_of(config: dict[str, Any]) -> ModelKind:
    """What a model of this config.json is for."""
    model_type = str(config.get("model_type", ""))
    if why_unused(model_type.removeprefix("mobilint-")):
        return "other"
    if re.search(r"whisper|asr|audio", model_type):
        return "speech"
    return "image" if "vision_config" in config or re.search(r"_vl|vision|blip", model_type) else "chat"


def why_unused(family: str) -> str:
    """Why no pane can use a model of that family; empty when one can."""
    return next((words for name, words in _UNUSED.items() if re.match(rf"{name}\b|{name}_", family)), "")
