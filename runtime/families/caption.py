"""BLIP: a model that describes one picture in a few words. It takes no question, but the caption's beginning.

The vision model looks at the picture once; the text model looks at what it saw with every token, so that
stays with the conversation's cache. There is one slot, and nothing of a caption is of use to the next one.
"""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any, cast

from runtime.config import DeviceChoice
from runtime.errors import RequestError
from runtime.families.base import Logits, Progress, Prompt, PromptChunk
from runtime.families.decode_stream import DecodeStream
from runtime.families.faults import device_faults
from runtime.families.model_info import model_info
from runtime.families.opening import Opening, image_kwargs
from runtime.families.pictures import Album, Seen, encoded, paths_of
from runtime.families.user_text import as_data, control_tokens
from runtime.families.vendor import dispose_model, new_slot_cache
from runtime.images import MODEL_SIDE
from runtime.kv.cache import KvCache
from runtime.layout.request import LayoutRequest
from runtime.messages import ModelInfo, Turn
from runtime.tracing.recorder import RECORDER


class Caption:
    """A loaded caption model."""

    def __init__(self, model: Any, images: Any, tokenizer: Any, info: ModelInfo) -> None:
        self._model = model
        self._text = model.text_decoder
        self._images = images
        self._tokenizer = tokenizer
        self._control = control_tokens(tokenizer)
        self._album = Album(self._ready)
        self.info = info
        self.eos_ids = frozenset({int(model.config.text_config.sep_token_id)})
        self.slots = self.copies = 1

    def render(self, turns: Sequence[Turn]) -> str:
        """How the caption begins: the last turn's text, or nothing."""
        return as_data(turns[-1].text, self._control).strip()

    def tokenise(self, text: str, turns: Sequence[Turn], sharing: int = 1) -> Prompt:
        """The token that begins a caption, the beginning that is given, and the last turn's picture.

        Raises RequestError for more than one; without any, the prompt has a length only.
        """
        begin = int(self._model.config.text_config.bos_token_id)
        (given,) = encoded(self._tokenizer, [text])
        pictures = paths_of(turns[-1:])
        if len(pictures) > 1:
            raise self._refused(f"{len(pictures)}")
        if not pictures:
            return Prompt([begin, *given], [begin, *given])
        seen = self._album.look(pictures[0], MODEL_SIDE)
        return Prompt([begin, *given], [(begin, seen.digest), *given], {"picture": seen})

    def continued(self, prompt: Prompt, token_ids: Sequence[int]) -> Prompt:
        """The prompt with a caption's next tokens at its end."""
        return prompt.followed_by(token_ids)

    def new_cache(self) -> KvCache:
        """An empty cache on the text model's slot."""
        return new_slot_cache(self._text.bert)

    def place(self, cache: KvCache, slot: int) -> KvCache:
        """There is one slot."""
        return cache

    def reusable_prefix(self, prompt: Prompt, length: int) -> int:
        """A caption begins afresh."""
        return 0

    def prefill(self, chunks: Sequence[PromptChunk]) -> list[Logits]:
        """Look at the picture and compute the one chunk of a prompt; the logits after it, (vocab,).

        Raises RequestError when there is no picture.
        """
        ((prompt, cache, start, end),) = chunks
        picture: Seen | None = prompt.inputs.get("picture")
        if picture is None:
            raise self._refused("none")
        cast("Any", cache).seen = self._features(picture)
        return [self._forward(prompt.token_ids[start:end], cache)]

    def decode(self, token_ids: Sequence[int], caches: Sequence[KvCache]) -> list[Logits]:
        """Compute one more position of the one caption; its logits, (vocab,)."""
        (token_id,), (cache,) = token_ids, caches
        return [self._forward([token_id], cache)]

    def token_stream(self) -> DecodeStream:
        """A new incremental detokeniser."""
        return DecodeStream(self._tokenizer)

    def dispose(self) -> None:
        """Give the device memory back."""
        dispose_model(self._model)

    def _ready(self, picture: Any) -> Seen:
        """A decoded picture as the processor makes it."""
        return Seen([], self._images(images=picture, return_tensors="pt")["pixel_values"])

    def _features(self, seen: Seen) -> Any:
        """What the vision model makes of the picture, shape (1, patches, hidden); computed once."""
        import torch

        if not seen.features:
            with (
                torch.inference_mode(),
                device_faults(self.info.title),
                RECORDER.span("encode image", patches=1),
            ):
                seen.features[0] = self._model.vision_model(pixel_values=seen.pixels).last_hidden_state
        return seen.features[0]

    def _refused(self, count: str) -> RequestError:
        return RequestError(
            f"{self.info.title} describes one picture at a time; this question has {count}.",
            remedy="Choose one picture.",
            unharmed="The pictures and their answers are unharmed.",
        )

    def _forward(self, ids: list[int], cache: KvCache) -> Logits:
        import torch

        with torch.inference_mode(), device_faults(self.info.title):
            logits = self._text(
                input_ids=torch.tensor([ids]),
                encoder_hidden_states=cast("Any", cache).seen,
                past_key_values=cache,
                use_cache=True,
            ).logits
        return cast("Logits", logits.reshape(len(ids), -1)[-1].numpy())


def load_caption(
    model_id: str, folder: Path, family: str, layout: LayoutRequest, device: DeviceChoice, progress: Progress
) -> Caption:
    """Load a caption artifact; raises ModelError, LayoutError or DeviceError, with all the words."""
    opening = Opening(folder, layout, device, progress)
    from transformers import AutoImageProcessor, AutoModelForImageTextToText, AutoTokenizer

    images, tokenizer = opening.read("its processor or tokenizer files", AutoImageProcessor, AutoTokenizer)
    model = opening.load(AutoModelForImageTextToText, image_kwargs(opening.layout))
    text = model.text_decoder.bert
    info = model_info(model_id, folder, family, "image", model, opening.active, opening.seconds, text=text)
    return Caption(model, images, tokenizer, info)
