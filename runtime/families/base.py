"""What the engine needs of a loaded model, whatever its family.

The engine counts in tokens and positions; an adapter knows embeddings, pictures and the vendor's classes. All
of it runs in the thread that loaded the model.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np
from numpy.typing import NDArray

from runtime.kv.cache import KvCache
from runtime.messages import ModelInfo, Turn

if TYPE_CHECKING:
    from runtime.sampling.sampler import Sampling

Logits: TypeAlias = NDArray[np.float32]
"""Scores of the next token, shape (vocab,)."""

Progress = Callable[[str, float | None], None]
"""Called with a stage in words and a fraction in 0..1, or None while it cannot be told."""


@dataclass(slots=True)
class Prompt:
    """A tokenised conversation."""

    token_ids: list[int]
    identity: Sequence[Hashable]
    """One item a position: what a cached position must equal to be reused. Token ids, but for positions
    that stand for something else, such as a picture's, where it is the token and the picture's hash."""
    inputs: dict[str, Any] = field(default_factory=dict)
    """What the family's model wants beside the ids (pictures, their positions, …)."""
    answered: int = 0
    """How many of its last tokens are those of an answer that goes on."""

    def followed_by(self, token_ids: Sequence[int], **inputs: Any) -> Prompt:
        """The same with more tokens of the answer at its end, and other `inputs` of those names."""
        return Prompt(
            [*self.token_ids, *token_ids],
            [*self.identity, *token_ids],
            self.inputs | inputs,
            self.answered + len(token_ids),
        )


class TokenStream(Protocol):
    """Turns token ids into text as they come; never yields half a character."""

    def push(self, token_id: int) -> str:
        """The text this token completes; empty while more bytes can come."""

    def finish(self) -> str:
        """What is left when no more tokens come."""


class PromptChunk(NamedTuple):
    """Positions `start..end` of a prompt; the cache holds those before."""

    prompt: Prompt
    cache: KvCache
    start: int
    end: int


class FamilyModel(Protocol):
    """A loaded model of one family."""

    info: ModelInfo
    eos_ids: frozenset[int]
    slots: int
    """Conversations that can be on the device at once."""
    copies: int
    """Of the model, on cards or cores of their own, that each read a prompt in the same call; the slots are
    dealt to them in turn."""

    def render(self, turns: Sequence[Turn]) -> str:
        """The conversation as the model's chat template writes it, with the answer's opening."""

    def tokenise(self, text: str, turns: Sequence[Turn], sharing: int = 1) -> Prompt:
        """The rendered conversation as tokens, with the pictures its turns name.

        `sharing` is how many pictures the room for pictures is meant for, whatever turns are there.
        """

    def continued(self, prompt: Prompt, token_ids: Sequence[int]) -> Prompt:
        """The prompt with an answer's next tokens at its end, so that the answer can be read again."""

    def new_cache(self) -> KvCache:
        """An empty cache for one conversation."""

    def place(self, cache: KvCache, slot: int) -> KvCache:
        """The cache on that slot (0 to `slots` - 1); the one given is not used any more."""

    def reusable_prefix(self, prompt: Prompt, length: int) -> int:
        """The longest prefix of at most `length` positions that a continued prefill may start after."""

    def prefill(self, chunks: Sequence[PromptChunk]) -> list[Logits]:
        """Compute one chunk on each of some copies of the model, in one call; the logits after each."""

    def decode(self, token_ids: Sequence[int], caches: Sequence[KvCache]) -> list[Logits]:
        """Compute one more position for each conversation, in one call; their logits, each (vocab,)."""

    def token_stream(self) -> TokenStream:
        """A new incremental detokeniser."""

    def dispose(self) -> None:
        """Give the device memory back; caches of this model are lost."""


@dataclass(frozen=True, slots=True)
class Round:
    """What one round of speculation settled."""

    token_ids: tuple[int, ...]
    """The answer goes on with these."""
    drafted: int
    """Tokens of the draft that could have been right, one after the other."""
    accepted: int
    """Those that were."""


@runtime_checkable
class Speculative(Protocol):
    """A model that draws several tokens a step by itself: what it has beside `FamilyModel`."""

    def first(self, prompt: Prompt, cache: KvCache, sampling: Sampling, room: int) -> Round:
        """Compute what the cache does not hold of the prompt; the answer's first token, of at most `room`."""

    def round(self, cache: KvCache, sampling: Sampling, room: int) -> Round:
        """The answer's next tokens, at most `room`, after `first` or another round on the cache."""


def token_text(model: FamilyModel, token_id: int) -> str:
    """One token as text by itself; bytes that are no whole character show as the replacement character."""
    stream = model.token_stream()
    return stream.push(token_id) + stream.finish()
