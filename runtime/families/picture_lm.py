"""What the text models share that are shown pictures: template, control tokens, album, one prompt a call."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Sequence
from typing import Any

from runtime.families.causal_lm import CausalLm
from runtime.families.faults import from_template
from runtime.families.pictures import Album, Seen
from runtime.families.user_text import as_data
from runtime.families.vendor import dispose_model
from runtime.messages import ModelInfo, TextPart, Turn


class PictureLm(CausalLm, ABC):
    """A loaded text model with pictures among the embeddings."""

    def __init__(
        self,
        whole: Any,
        text: Any,
        processor: Any,
        info: ModelInfo,
        eos: frozenset[int],
        marks: tuple[str, str],
    ) -> None:
        """`whole` has `text` as a part; `marks` stand for pictures in a prompt, so never in a text."""
        super().__init__(text, processor.tokenizer, info, eos)
        self._whole = whole
        self._processor = processor
        self._image_token = int(whole.config.image_token_id)
        self._control = tuple({*self._control, *marks})
        self._album = Album(self._ready)

    def render(self, turns: Sequence[Turn]) -> str:
        """The conversation as the model's chat template writes it, with the answer's opening."""
        messages = [{"role": turn.role, "content": self._content(turn)} for turn in turns]
        return from_template(
            self.info.title,
            lambda: self._processor.apply_chat_template(messages, tokenize=False, add_generation_prompt=True),
        )

    def dispose(self) -> None:
        """Give the device memory back; caches of this model are lost."""
        dispose_model(self._whole)

    @abstractmethod
    def _ready(self, picture: Any) -> Seen:
        """A decoded picture as the vision network wants it."""

    def _content(self, turn: Turn) -> list[dict[str, str]]:
        return [
            {"type": "text", "text": as_data(part.text, self._control)}
            if isinstance(part, TextPart)
            else {"type": "image"}
            for part in turn.parts
        ]

    def _find_copies(self) -> int:
        return 1  # whatever the copies: the pictures of one prompt are put among its embeddings
