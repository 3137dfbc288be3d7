"""Image-and-text models: Qwen2-VL and Qwen3-VL through transformers-mblt's own classes.

The adapter drives the two submodels itself: the vision model once for a picture, and only when the prefix
cache does not already hold it; the text model chunk by chunk on embeddings. Positions are the reference's
three-axis positions of the whole conversation, so a continued prefill and a continued decode count on where
the picture left off.

A *static* artifact was compiled for one picture of 224 x 224 pixels; a *dynamic* one takes any number and
size.
"""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from math import isqrt
from pathlib import Path
from typing import Any, cast

from runtime.config import DeviceChoice
from runtime.errors import ImageError, ModelIncompleteError, RequestError
from runtime.families import mrope, read_config
from runtime.families.base import KvCache, Logits, Progress, Prompt
from runtime.families.causal_lm import (
    dispose_model,
    eos_ids,
    model_info,
    new_slot_cache,
)
from runtime.families.decode_stream import DecodeStream
from runtime.families.faults import device_faults, from_template
from runtime.families.opening import Opening, image_kwargs
from runtime.families.user_text import as_data, control_tokens
from runtime.images import MODEL_SIDE, load_for_model
from runtime.layout import LayoutRequest
from runtime.messages import ImagePart, ModelInfo, TextPart, Turn
from runtime.tracing.recorder import RECORDER

LONGEST_ASPECT = 200
"""The processor's own limit of long side to short side."""


class ImageText:
    """A loaded image model with one conversation at a time on its slot."""

    def __init__(self, model: Any, processor: Any, info: ModelInfo, eos: frozenset[int]) -> None:
        self._model = model
        self._text = model.model.language_model
        self._processor = processor
        self.info = info
        self.eos_ids = eos
        self.slots = 1
        self.dynamic = bool(model.config.dynamic_vision)
        """Whether any number and size of pictures is taken."""
        self._image_token = int(model.config.image_token_id)
        pictures = (processor.image_token, processor.video_token)
        self._control = tuple({*control_tokens(processor.tokenizer), *pictures})

    def render(self, turns: Sequence[Turn]) -> str:
        """The conversation as the model's chat template writes it, with the answer's opening."""
        messages = [{"role": turn.role, "content": self._content(turn)} for turn in turns]
        return from_template(
            self.info.title,
            lambda: self._processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True),
        )

    def tokenise(self, text: str, turns: Sequence[Turn]) -> Prompt:
        """The rendered conversation as tokens, with its pictures decoded and cut into patches."""
        import torch

        paths = [part.path for turn in turns for part in turn.parts if isinstance(part, ImagePart)]
        pictures = self._pictures(paths)
        batch = self._processor(text=[text], images=pictures or None, return_tensors="pt")
        ids = batch["input_ids"][0].tolist()
        grids = batch.get("image_grid_thw")
        with torch.inference_mode():
            positions = self._positions(batch, grids)
        inputs: dict[str, Any] = {"positions": positions, "pixels": [], "grids": grids, "features": {}}
        if grids is not None:
            inputs["pixels"] = batch["pixel_values"].split(grids.prod(-1).tolist())
        return Prompt(token_ids=ids, identity=self._identity(ids, inputs["pixels"], grids), inputs=inputs)

    def new_cache(self) -> KvCache:
        """An empty cache for one conversation on the text model's first slot."""
        return new_slot_cache(self._text)

    def reusable_prefix(self, prompt: Prompt, length: int) -> int:
        """A prefill continues after any position, in the middle of a picture too: its features are whole."""
        return length

    def prefill(self, prompt: Prompt, cache: KvCache, start: int, end: int) -> Logits:
        """Compute positions `start..end`; returns the logits after the last, shape (vocab,)."""
        import torch

        with torch.inference_mode(), device_faults(self.info.title):
            embeds = self._text.embed_tokens(torch.tensor([prompt.token_ids[start:end]]))
            deeper = self._place_pictures(prompt, embeds, start, end)
            positions = prompt.inputs["positions"]
            logits = self._forward(embeds, positions[:, :, start:end], cache, **deeper)
            if end == len(prompt.token_ids):
                # Where decoding goes on: the vendor saves and restores this offset with the cache.
                cast("Any", cache).rope_deltas = (positions.max() + 1 - end).reshape(1, 1)
            return logits

    def place(self, cache: KvCache, slot: int) -> KvCache:
        """There is one slot."""
        return cache

    def decode(self, token_ids: Sequence[int], caches: Sequence[KvCache]) -> list[Logits]:
        """Compute one more position for the one conversation; its logits, (vocab,)."""
        import torch

        (token_id,), (cache,) = token_ids, caches
        with torch.inference_mode(), device_faults(self.info.title):
            embeds = self._text.embed_tokens(torch.tensor([[token_id]]))
            position = cast("Any", cache).rope_deltas + cache.get_seq_length()
            return [self._forward(embeds, position.reshape(1, 1, 1).expand(3, 1, 1), cache)]

    def token_stream(self) -> DecodeStream:
        """A new incremental detokeniser."""
        return DecodeStream(self._processor.tokenizer)

    def dispose(self) -> None:
        """Give the device memory back; caches of this model are lost."""
        dispose_model(self._model)

    # -- pictures -----------------------------------------------------------------------------

    def _pictures(self, paths: list[str]) -> list[Any]:
        """The pictures as the processor wants them; raises ImageError or RequestError."""
        if not self.dynamic and len(paths) > 1:
            raise RequestError(
                f"{self.info.title} looks at one picture at a time; this question has {len(paths)}.",
                remedy="Ask about one picture, or load a model compiled for several.",
                unharmed="The pictures and their answers are unharmed.",
            )
        pictures = [load_for_model(path, self._longest_side(len(paths))) for path in paths]
        for path, picture in zip(paths, pictures, strict=True):
            long, short = max(picture.size), min(picture.size)
            if self.dynamic and long >= LONGEST_ASPECT * short:
                raise ImageError(
                    f"{Path(path).name} is too narrow for {self.info.title}: "
                    f"it takes pictures up to {LONGEST_ASPECT} times as long as wide.",
                    remedy="Cut out the part you are asking about.",
                )
        return pictures

    def _longest_side(self, count: int) -> int:
        """Half of the context is for the pictures; a picture token covers one merged patch."""
        if not self.dynamic:
            return MODEL_SIDE
        vision = self._model.config.vision_config
        unit = int(vision.patch_size) * int(vision.spatial_merge_size)
        tokens = max(1, self.info.context_length // 2 // max(1, count))
        return min(MODEL_SIDE, isqrt(tokens) * unit)

    def _content(self, turn: Turn) -> list[dict[str, str]]:
        content = []
        for part in turn.parts:
            if isinstance(part, TextPart):
                content.append({"type": "text", "text": as_data(part.text, self._control)})
            else:
                content.append({"type": "image"})
        return content

    def _identity(self, ids: list[int], pixels: Sequence[Any], grids: Any) -> list[Any]:
        """Token ids; a picture's positions carry the hash of its patches beside the token."""
        merge = int(self._model.config.vision_config.spatial_merge_size) ** 2
        digests = []
        for index, patches in enumerate(pixels):
            grid = grids[index].numpy().tobytes()
            digest = hashlib.sha256(patches.contiguous().numpy().tobytes() + grid).hexdigest()
            digests += [digest] * (patches.shape[0] // merge)
        waiting = iter(digests)
        return [(token, next(waiting)) if token == self._image_token else token for token in ids]

    def _positions(self, batch: Any, grids: Any) -> Any:
        """The reference's positions of the whole prompt, shape (3, 1, tokens)."""
        rope_index = self._model.model.get_rope_index
        kwargs = {"image_grid_thw": grids, "attention_mask": batch["attention_mask"]}
        if "mm_token_type_ids" in batch:  # transformers >= 5
            kwargs["mm_token_type_ids"] = batch["mm_token_type_ids"]
        positions, _ = rope_index(batch["input_ids"], **kwargs)
        return positions

    def _place_pictures(self, prompt: Prompt, embeds: Any, start: int, end: int) -> dict[str, Any]:
        """Put the features of the pictures that lie in `start..end` into `embeds`, shape (1, n, hidden).

        Returns what the first layers of Qwen3-VL's text model want to see again of the pictures.
        """
        import torch

        shown = torch.zeros(1, end - start, dtype=torch.bool)
        deeper: list[list[Any]] = []
        merge = int(self._model.config.vision_config.spatial_merge_size) ** 2
        spots = [index for index, token in enumerate(prompt.token_ids) if token == self._image_token]
        first = 0
        for index, patches in enumerate(prompt.inputs["pixels"]):
            own = spots[first : first + patches.shape[0] // merge]
            first += len(own)
            inside = [number for number, spot in enumerate(own) if start <= spot < end]
            if inside:
                features, *more = self._features(prompt, index)
                places = [own[number] - start for number in inside]
                embeds[0, places] = features[inside].to(embeds.dtype)
                shown[0, places] = True
                deeper.append([features[inside] for features in more])
        if not any(deeper):
            return {}
        layers = [torch.cat(parts) for parts in zip(*deeper, strict=True)]
        return {"visual_pos_masks": shown, "deepstack_visual_embeds": layers}

    def _features(self, prompt: Prompt, index: int) -> list[Any]:
        """What the vision model makes of a picture for the embeddings, and for the first layers if they look
        too; each of shape (tokens, hidden). Computed once a prompt."""
        known: dict[int, list[Any]] = prompt.inputs["features"]
        if index not in known:
            patches, grid = prompt.inputs["pixels"][index], prompt.inputs["grids"][index : index + 1]
            with RECORDER.span("encode image", patches=int(patches.shape[0])):
                output = self._model.model.visual(patches.float(), grid_thw=grid)
            # Before transformers 5 a plain tensor, or a pair.
            embeds, deeper = output if isinstance(output, tuple) else (output, None)
            embeds = getattr(output, "pooler_output", embeds)
            known[index] = [embeds, *(getattr(output, "deepstack_features", deeper) or ())]
        return known[index]

    def _forward(self, embeds: Any, positions: Any, cache: KvCache, **deeper: Any) -> Logits:
        output = self._text(
            **deeper,
            inputs_embeds=embeds,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
            npu_prefill_chunk_size=int(embeds.shape[1]),
        )
        return cast("Logits", output.last_hidden_state.reshape(-1).numpy())


def load_image_text(
    model_id: str, folder: Path, family: str, layout: LayoutRequest, device: DeviceChoice, progress: Progress
) -> ImageText:
    """Load an image artifact; raises ModelError, LayoutError or DeviceError with the words for the user."""
    opening = Opening(folder, layout, device, progress)
    from transformers import AutoModelForImageTextToText
    from transformers_mblt.models.qwen2_vl.processing_qwen2_vl import MobilintQwen2VLProcessor
    from transformers_mblt.models.qwen3_vl.processing_qwen3_vl import MobilintQwen3VLProcessor

    _require_networks(folder)
    kind = MobilintQwen3VLProcessor if family == "qwen3_vl" else MobilintQwen2VLProcessor
    (processor,) = opening.read("its processor or tokenizer files", kind)
    model = opening.load(AutoModelForImageTextToText, image_kwargs(opening.layout))
    processor.sync_dynamic_vision_from_model(model)
    text = model.model.language_model
    if opening.active.simulated and model.config.dynamic_vision and family == "qwen2_vl":
        mrope.repair(text._mobilint_rotary_emb)  # noqa: SLF001 - the vendor offers no other way to it
    info = model_info(model_id, folder, family, "image", model, opening.active, opening.seconds, text=text)
    return ImageText(model, processor, info, eos_ids(model, processor.tokenizer))


def _require_networks(folder: Path) -> None:
    """Raise ModelIncompleteError unless both compiled models that config.json names are there."""
    config = read_config(folder)
    for key, what in (("vision_mxq_path", "vision"), ("text_mxq_path", "text")):
        name = config.get(key)
        if isinstance(name, str) and name and not (folder / name).is_file():
            raise ModelIncompleteError(
                f"The model folder {folder} lacks {name}, its compiled {what} model.",
                remedy="Fetch the model again, or choose the folder of a complete download.",
                unharmed="Other models and your conversations are unharmed.",
            )
