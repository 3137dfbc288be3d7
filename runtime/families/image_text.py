"""Image-and-text models: Qwen2-VL and Qwen3-VL through transformers-mblt's own classes.

The adapter drives the two submodels itself: the vision model once for a picture, and only when the prefix
cache does not already hold it; the text model chunk by chunk on embeddings. Positions are the reference's
three-axis positions of the whole conversation, so a continued prefill, a continued decode and an answer that
is read again count on where the picture left off.

A *static* artifact was compiled for one picture of 224 x 224 pixels; a *dynamic* one takes any number and
size.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import isqrt
from pathlib import Path
from typing import Any, cast

from runtime.config import DeviceChoice
from runtime.errors import ImageError, LayoutError, ModelIncompleteError, RequestError
from runtime.families import mrope
from runtime.families.base import Logits, Progress, Prompt, PromptChunk
from runtime.families.faults import device_faults
from runtime.families.image_rows import require_rows, rows_refused
from runtime.families.model_info import eos_ids, model_info, title_of
from runtime.families.opening import Opening, image_kwargs
from runtime.families.picture_lm import PictureLm
from runtime.families.pictures import Seen, encoded, paths_of, with_pictures
from runtime.families.vendor import dispose_model
from runtime.images import MODEL_SIDE
from runtime.kv.cache import KvCache
from runtime.layout.request import LayoutRequest
from runtime.messages import ModelInfo, Turn
from runtime.model_folder import read_config
from runtime.tracing.recorder import RECORDER

LONGEST_ASPECT = 200
"""The processor's own limit of long side to short side."""


class ImageText(PictureLm):
    """A loaded image model: its text model, with pictures among the embeddings, positions on three axes."""

    def __init__(self, model: Any, processor: Any, info: ModelInfo, eos: frozenset[int]) -> None:
        marks = (processor.image_token, processor.video_token)
        super().__init__(model, model.model.language_model, processor, info, eos, marks)
        self._dynamic = bool(model.config.dynamic_vision)
        """Whether any number and size of pictures is taken."""

    def tokenise(self, text: str, turns: Sequence[Turn], sharing: int = 1) -> Prompt:
        """The rendered conversation as tokens, with its pictures decoded and cut into patches."""
        pictures = self._pictures(paths_of(turns), sharing)
        pieces = encoded(self._tokenizer, text.split(self._processor.image_token))
        prompt = with_pictures(self.info.title, pieces, pictures, self._image_token)
        prompt.inputs["positions"] = self._positions(prompt.token_ids, pictures)
        return prompt

    def continued(self, prompt: Prompt, token_ids: Sequence[int]) -> Prompt:
        """The prompt with an answer's tokens at its end; they count on behind the furthest position."""
        import torch

        positions = prompt.inputs["positions"]
        first = int(positions.max()) + 1
        more = torch.arange(first, first + len(token_ids)).expand(3, 1, -1)
        return prompt.followed_by(token_ids, positions=torch.cat((positions, more), dim=-1))

    def prefill(self, chunks: Sequence[PromptChunk]) -> list[Logits]:
        """Compute the one chunk of a prompt; the logits after it, (vocab,).

        A prefill continues after any position, in the middle of a picture too: its features are whole.
        """
        import torch

        ((prompt, cache, start, end),) = chunks
        with torch.inference_mode(), device_faults(self.info.title):
            embeds = self.vendor_model.embed_tokens(torch.tensor([prompt.token_ids[start:end]]))
            deeper = self._place_pictures(prompt, embeds, start, end)
            positions = prompt.inputs["positions"]
            logits = self._see(embeds, positions[:, :, start:end], [cache], **deeper)
            if end == len(prompt.token_ids):
                # Where decoding goes on: the vendor saves and restores this offset with the cache.
                cast("Any", cache).rope_deltas = (positions.max() + 1 - end).reshape(1, 1)
            return logits

    def decode(self, token_ids: Sequence[int], caches: Sequence[KvCache]) -> list[Logits]:
        """Compute one more position for each conversation, in one call; their logits, each (vocab,)."""
        import torch

        with torch.inference_mode(), device_faults(self.info.title):
            embeds = self.vendor_model.embed_tokens(torch.tensor([[token_id] for token_id in token_ids]))
            next_ones = [int(cast("Any", cache).rope_deltas) + cache.get_seq_length() for cache in caches]
            positions = torch.tensor(next_ones).reshape(1, -1, 1).expand(3, -1, 1)
            return self._see(embeds, positions, caches)

    # -- pictures -----------------------------------------------------------------------------

    def _pictures(self, paths: list[str], sharing: int) -> list[Seen]:
        """The pictures as the vision network wants them; raises ImageError or RequestError."""
        if not self._dynamic and len(paths) > 1:
            raise RequestError(
                f"{self.info.title} looks at one picture at a time; this conversation has {len(paths)}.",
                remedy="Ask about one picture in a new chat, or load a model compiled for several.",
                unharmed="The pictures and their answers are unharmed.",
            )
        pictures = []
        for path in paths:
            try:
                pictures.append(self._album.look(path, self._longest_side(sharing)))
            except _TooNarrowError:
                raise ImageError(
                    f"{Path(path).name} is too narrow for {self.info.title}: "
                    f"it takes pictures up to {LONGEST_ASPECT} times as long as wide.",
                    remedy="Cut out the part you are asking about.",
                ) from None
        return pictures

    def _ready(self, picture: Any) -> Seen:
        """A decoded picture as the vendor's processor makes it; raises _TooNarrowError."""
        if self._dynamic and max(picture.size) >= LONGEST_ASPECT * min(picture.size):
            raise _TooNarrowError
        mark = self._processor.image_token
        batch = self._processor(text=[mark], images=[picture], add_special_tokens=False, return_tensors="pt")
        return Seen(batch["input_ids"][0].tolist(), batch["pixel_values"], batch["image_grid_thw"])

    def _longest_side(self, sharing: int) -> int:
        """Half of the context is for the pictures; a picture token covers one merged patch."""
        if not self._dynamic:
            return MODEL_SIDE
        vision = self._whole.config.vision_config
        unit = int(vision.patch_size) * int(vision.spatial_merge_size)
        tokens = max(1, self.info.context_length // 2 // max(1, sharing))
        return min(MODEL_SIDE, isqrt(tokens) * unit)

    def _positions(self, ids: list[int], pictures: Sequence[Seen]) -> Any:
        """The reference's positions of the whole prompt, shape (3, 1, tokens)."""
        import torch

        tokens = torch.tensor([ids])
        grids = torch.cat([seen.grid for seen in pictures]) if pictures else None
        kwargs = {"image_grid_thw": grids, "attention_mask": torch.ones_like(tokens)}
        if hasattr(self._processor, "create_mm_token_type_ids"):  # transformers >= 5
            kwargs["mm_token_type_ids"] = (tokens == self._image_token).int()
        with torch.inference_mode():
            positions, _ = self._whole.model.get_rope_index(tokens, **kwargs)
        return positions

    def _place_pictures(self, prompt: Prompt, embeds: Any, start: int, end: int) -> dict[str, Any]:
        """Put the features of the pictures that lie in `start..end` into `embeds`, shape (1, n, hidden).

        Returns what the first layers of Qwen3-VL's text model want to see again of the pictures.
        """
        import torch

        shown = torch.zeros(1, end - start, dtype=torch.bool)
        deeper: list[list[Any]] = []
        for picture in prompt.inputs.get("pictures", ()):
            inside, places = picture.within(start, end)
            if inside:
                features, *more = self._features(picture.seen)
                embeds[0, places] = features[inside].to(embeds.dtype)
                shown[0, places] = True
                deeper.append([features[inside] for features in more])
        if not any(deeper):
            return {}
        layers = [torch.cat(parts) for parts in zip(*deeper, strict=True)]
        return {"visual_pos_masks": shown, "deepstack_visual_embeds": layers}

    def _features(self, seen: Seen) -> list[Any]:
        """What the vision model makes of a picture for the embeddings, and for the first layers if they look
        too; each of shape (tokens, hidden). Computed once."""
        if not seen.features:
            with RECORDER.span("encode image", patches=int(seen.pixels.shape[0])):
                output = self._whole.model.visual(seen.pixels.float(), grid_thw=seen.grid)
            # Before transformers 5 a plain tensor, or a pair.
            embeds, deeper = output if isinstance(output, tuple) else (output, None)
            embeds = getattr(output, "pooler_output", embeds)
            seen.features[0] = [embeds, *(getattr(output, "deepstack_features", deeper) or ())]
        features: list[Any] = seen.features[0]
        return features

    def _see(self, embeds: Any, positions: Any, caches: Sequence[KvCache], **deeper: Any) -> list[Logits]:
        """One call for rows of equal length; the logits after each row's last token."""
        cache, options = self._batch([embeds.shape[1]] * len(caches), caches)
        output = self.vendor_model(
            **deeper,
            **options,
            inputs_embeds=embeds,
            position_ids=positions,
            past_key_values=cache,
            use_cache=True,
            logits_to_keep=1,
            npu_prefill_chunk_size=int(embeds.shape[1]),
        )
        logits = output.last_hidden_state.reshape(len(caches), -1).numpy()
        return [logits[row] for row in range(len(caches))]


class _TooNarrowError(Exception):
    """The reference's processor takes no picture of that shape."""


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
    title = title_of(folder)
    with rows_refused(title):
        model = opening.load(AutoModelForImageTextToText, image_kwargs(opening.layout))
    text = model.model.language_model
    try:
        require_rows(title, family, text)
    except LayoutError:
        dispose_model(model)
        raise
    processor.sync_dynamic_vision_from_model(model)
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
