"""Aya Vision: a Cohere 2 text model that is shown pictures as tiles.

Every tile, and the whole picture once more, goes through the vision model and takes the same number of
positions. They are counted one by one, so a conversation continues after any position.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from runtime.config import DeviceChoice
from runtime.families.base import KvCache, Logits, Progress, Prompt
from runtime.families.causal_lm import CausalLm, dispose_model, eos_ids, model_info
from runtime.families.faults import device_faults, from_template
from runtime.families.opening import Opening, image_kwargs
from runtime.families.user_text import as_data
from runtime.images import load_for_model
from runtime.layout import LayoutRequest
from runtime.messages import ImagePart, ModelInfo, TextPart, Turn
from runtime.tracing.recorder import RECORDER


class AyaVision(CausalLm):
    """A loaded Aya Vision model: its text model, with pictures among the embeddings."""

    def __init__(self, model: Any, processor: Any, info: ModelInfo, eos: frozenset[int]) -> None:
        super().__init__(model.language_model, processor.tokenizer, info, eos)
        self._whole = model
        self._processor = processor
        self._picture_token = int(model.config.image_token_id)
        marks = (processor.image_token, processor.img_patch_token)
        self._control = tuple({*self._control, *marks})

    def render(self, turns: Sequence[Turn]) -> str:
        """The conversation as the model's chat template writes it, with the answer's opening."""
        messages = [{"role": turn.role, "content": self._content(turn)} for turn in turns]
        return from_template(
            self.info.title,
            lambda: self._processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True),
        )

    def tokenise(self, text: str, turns: Sequence[Turn]) -> Prompt:
        """The rendered conversation as tokens, with its pictures decoded and cut into tiles."""
        paths = [part.path for turn in turns for part in turn.parts if isinstance(part, ImagePart)]
        pictures = [load_for_model(path) for path in paths]
        # The template has written what belongs before the first token.
        batch = self._processor(
            text=[text], images=pictures or None, add_special_tokens=False, return_tensors="pt"
        )
        ids = batch["input_ids"][0].tolist()
        tiles = batch.get("pixel_values")
        if tiles is None:
            return Prompt(ids, ids)
        each = ids.count(self._picture_token) // len(tiles)
        digests = [hashlib.sha256(tile.contiguous().numpy().tobytes()).hexdigest() for tile in tiles]
        waiting = iter([digest for digest in digests for _ in range(each)])
        identity = [(token, next(waiting)) if token == self._picture_token else token for token in ids]
        return Prompt(ids, identity, {"tiles": tiles, "each": each, "features": {}})

    def prefill(self, prompt: Prompt, cache: KvCache, start: int, end: int) -> Logits:
        """Compute positions `start..end`; returns the logits after the last, shape (vocab,)."""
        import torch

        ids = prompt.token_ids
        spots = [at for at in range(start, end) if ids[at] == self._picture_token]
        if not spots:
            return super().prefill(prompt, cache, start, end)
        before = ids[:start].count(self._picture_token)
        with torch.inference_mode(), device_faults(self.info.title):
            embeds = self.vendor_model.get_input_embeddings()(torch.tensor([ids[start:end]]))
            for number, at in enumerate(spots, start=before):
                tile, place = divmod(number, prompt.inputs["each"])
                embeds[0, at - start] = self._features(prompt, tile)[place].to(embeds.dtype)
            held, options = self._batch(embeds[..., 0], [cache])
            output = self.vendor_model(
                inputs_embeds=embeds,
                past_key_values=held,
                use_cache=True,
                logits_to_keep=1,
                npu_prefill_chunk_size=end - start,
                **options,
            )
            return cast("Logits", output.logits.reshape(-1).numpy())

    def dispose(self) -> None:
        """Give the device memory back; caches of this model are lost."""
        dispose_model(self._whole)

    def _content(self, turn: Turn) -> list[dict[str, str]]:
        return [
            {"type": "text", "text": as_data(part.text, self._control)}
            if isinstance(part, TextPart)
            else {"type": "image"}
            for part in turn.parts
        ]

    def _features(self, prompt: Prompt, tile: int) -> Any:
        """What the vision model makes of a tile, shape (positions, hidden); computed once a prompt."""
        known: dict[int, Any] = prompt.inputs["features"]
        if tile not in known:
            with RECORDER.span("encode image", patches=1):
                seen = self._whole.get_image_features(prompt.inputs["tiles"][tile : tile + 1])
            known[tile] = seen.reshape(-1, seen.shape[-1])
        return known[tile]


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
