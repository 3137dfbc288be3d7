"""Pictures and questions about them, for the image families."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image

from runtime.device.active import activate, vendor_stack
from runtime.families.vendor import dispose_model

COUNT = 24


def noise(width: int, height: int, seed: int = 0) -> Image.Image:
    """A picture of which no two parts are alike."""
    return Image.fromarray(np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8))


@contextmanager
def loaded(folder: Path, **kwargs: Any) -> Iterator[tuple[Any, Any]]:
    """(model, processor) by the vendor's Auto classes, disposed of at the end."""
    activate("simulated")
    vendor_stack()
    from transformers import AutoModelForImageTextToText, AutoProcessor

    model = AutoModelForImageTextToText.from_pretrained(str(folder), local_files_only=True, **kwargs).eval()
    try:
        yield model, AutoProcessor.from_pretrained(str(folder), local_files_only=True)
    finally:
        dispose_model(model)


def prompt_of(processor: Any, text: str, kinds: list[str]) -> str:
    """One user turn with marks for pictures or videos."""
    content = [{"type": kind} for kind in kinds] + [{"type": "text", "text": text}]
    return processor.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )


def ask(processor: Any, text: str, *pictures: Image.Image) -> Any:
    """What the model is called with for a question about pictures."""
    prompt = prompt_of(processor, text, ["image"] * len(pictures))
    return processor(text=[prompt], images=list(pictures) or None, return_tensors="pt")


def generate(model: Any, batch: Any, count: int = COUNT, **kwargs: Any) -> list[list[int]]:
    """Greedy answers, prompt included, a row a question."""
    with torch.inference_mode():
        return model.generate(**batch, max_new_tokens=count, do_sample=False, **kwargs).tolist()


def counted(plain: Any, batch: Any, count: int) -> list[int]:
    """The reference's greedy answer with positions counted one by one, which is all a static model can."""
    ids, vision = batch["input_ids"], plain.model
    with torch.inference_mode():
        features = vision.visual(batch["pixel_values"], grid_thw=batch["image_grid_thw"])
        shown = ids == plain.config.image_token_id
        embeds = vision.get_input_embeddings()(ids)
        embeds[shown] = features.pooler_output
        extra = {}
        if getattr(features, "deepstack_features", None) is not None:
            extra["deepstack_visual_embeds"] = features.deepstack_features
        tokens = ids[0].tolist()
        for _ in range(count):
            if extra:
                extra["visual_pos_masks"] = torch.nn.functional.pad(
                    shown, (0, embeds.shape[1] - shown.shape[1])
                )
            positions = torch.arange(embeds.shape[1]).expand(3, 1, -1)
            hidden = vision.language_model(inputs_embeds=embeds, position_ids=positions, **extra)
            token = plain.lm_head(hidden.last_hidden_state[:, -1]).argmax(-1)
            tokens.append(int(token))
            embeds = torch.cat([embeds, vision.get_input_embeddings()(token[None])], dim=1)
    return tokens
