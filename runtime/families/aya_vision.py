"""Aya Vision: a Cohere 2 text model that is shown pictures as tiles.

Every tile, and the whole picture once more, goes through the vision model and takes the same number of
positions. They are counted one by one, so a conversation continues after any position.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from runtime.config import DeviceChoice
from runtime.families.base import Logits, Progress, Prompt, PromptChunk
from runtime.families.faults import device_faults
from runtime.families.model_info import eos_ids, model_info
from runtime.families.opening import Opening, image_kwargs
from runtime.families.picture_lm import PictureLm
from runtime.families.pictures import Seen, encoded, paths_of, with_pictures
from runtime.images import MODEL_SIDE
from runtime.layout.request import LayoutRequest
from runtime.messages import ModelInfo, Turn
from runtime.tracing.recorder import RECORDER


class AyaVision(PictureLm):
    """A loaded Aya Vision model: its text model, with pictures among the embeddings."""

    def __init__(self, model: Any, processor: Any, info: ModelInfo, eos: frozenset[int]) -> None:
        marks = (processor.image_token, processor.img_patch_token)
        super().__init__(model, model.language_model, processor, info, eos, marks)

    def tokenise(self, text: str, turns: Sequence[Turn], sharing: int = 1) -> Prompt:
        """The rendered conversation as tokens, with its pictures decoded and cut into tiles."""
        pictures = [self._album.look(path, MODEL_SIDE) for path in paths_of(turns)]
        pieces = encoded(self._tokenizer, text.split(self._processor.image_token))
        return with_pictures(self.info.title, pieces, pictures, self._image_token)

    def prefill(self, chunks: Sequence[PromptChunk]) -> list[Logits]:
        """Compute the one chunk of a prompt; the logits after it, (vocab,)."""
        import torch

        ((prompt, cache, start, end),) = chunks
        with torch.inference_mode(), device_faults(self.info.title):
            embeds = self.vendor_model.get_input_embeddings()(torch.tensor([prompt.token_ids[start:end]]))
            for picture in prompt.inputs.get("pictures", ()):
                each = len(picture.spots) // len(picture.seen.pixels)
                for number, at in zip(*picture.within(start, end), strict=True):
                    tile, place = divmod(number, each)
                    embeds[0, at] = self._features(picture.seen, tile)[place].to(embeds.dtype)
            held, options = self._batch([end - start], [cache])
            output = self.vendor_model(
                inputs_embeds=embeds,
                past_key_values=held,
                use_cache=True,
                logits_to_keep=1,
                npu_prefill_chunk_size=end - start,
                **options,
            )
            return [output.logits.reshape(-1).numpy()]

    def _ready(self, picture: Any) -> Seen:
        """A decoded picture as the processor makes it."""
        mark = self._processor.image_token
        batch = self._processor(text=[mark], images=[picture], add_special_tokens=False, return_tensors="pt")
        return Seen(batch["input_ids"][0].tolist(), batch["pixel_values"])

    def _features(self, seen: Seen, tile: int) -> Any:
        """What the vision model makes of a tile, shape (positions, hidden); computed once."""
        if tile not in seen.features:
            with RECORDER.span("encode image", patches=1):
                features = self._whole.get_image_features(seen.pixels[tile : tile + 1])
            seen.features[tile] = features.reshape(-1, features.shape[-1])
        return seen.features[tile]


def load_aya_vision(
    model_id: str, folder: Path, family: str, layout: LayoutRequest, device: DeviceChoice, progress: Progress
) -> AyaVision:
    """Load an Aya Vision artifact; raises ModelError, LayoutError or DeviceError, with all the words."""
    opening = Opening(folder, layout, device, progress)
    from transformers import AutoModelForImageTextToText, AyaVisionProcessor

    (processor,) = opening.read("its processor or tokenizer files", AyaVisionProcessor)
    model = opening.load(AutoModelForImageTextToText, image_kwargs(opening.layout))
    info = model_info(
        model_id, folder, family, "image", model, opening.active, opening.seconds, text=model.language_model
    )
    return AyaVision(model, processor, info, eos_ids(model, processor.tokenizer))
