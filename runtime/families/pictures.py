"""Pictures on their way into a prompt: made ready once, kept for a while, put among the tokens.

While a message is typed its length is asked for after every pause, and each turn of a conversation brings all
its pictures again. So what a model's processor and vision network made of a file is kept, as long as the file
is the same, up to a number of bytes. Used by the model's thread only.
"""

from __future__ import annotations

import hashlib
import os
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field
from typing import Any

from runtime.errors import RequestError
from runtime.families.base import Prompt
from runtime.images import load_for_model
from runtime.messages import ImagePart, Turn

KEPT_BYTES = 256 * 2**20
"""Of pictures made ready; one of 4096 patches takes 24 MiB, and what Qwen3-VL-2B says of it another 32."""


@dataclass(slots=True)
class Seen:
    """A picture as a model wants it."""

    token_ids: list[int]
    """What a prompt has in its place."""
    pixels: Any
    """What the vision network is given, the first axis its patches or tiles."""
    grid: Any = None
    """Rows and columns of the patches, shape (1, 3), where the picture's shape is kept."""
    digest: str = ""
    """Of pixels and grid."""
    features: dict[int, Any] = field(default_factory=dict)
    """What the network said of it so far, by the adapter's own numbers."""

    def __post_init__(self) -> None:
        whole = hashlib.sha256(self.pixels.contiguous().numpy())
        if self.grid is not None:
            whole.update(self.grid.numpy())
        self.digest = whole.hexdigest()

    @property
    def nbytes(self) -> int:
        """Memory it takes."""
        tensors = [self.pixels]
        for said in self.features.values():
            tensors += said if isinstance(said, list) else [said]
        return sum(int(tensor.nbytes) for tensor in tensors)


@dataclass(frozen=True, slots=True)
class Placed:
    """A picture in a prompt."""

    seen: Seen
    spots: list[int]
    """The positions that stand for its features, in their order."""

    def within(self, start: int, end: int) -> tuple[list[int], list[int]]:
        """Which of its features stand in the positions `start..end`, and where, counted from `start`."""
        inside = [number for number, spot in enumerate(self.spots) if start <= spot < end]
        return inside, [self.spots[number] - start for number in inside]


class Album:
    """The pictures a model has seen of late."""

    def __init__(self, make: Callable[[Any], Seen], most_bytes: int = KEPT_BYTES) -> None:
        """`make` gets a decoded picture of Pillow's."""
        self._make = make
        self._most_bytes = most_bytes
        self._kept: OrderedDict[Hashable, Seen] = OrderedDict()

    def look(self, path: str, longest: int) -> Seen:
        """The picture in the file, its longest side at most `longest` pixels. Raises ImageError."""
        key = _identity(path, longest)
        seen = self._kept.pop(key, None) if key is not None else None
        if seen is None:
            seen = self._make(load_for_model(path, longest))
        if key is not None:
            self._kept[key] = seen
            self._trim()
        return seen

    def _trim(self) -> None:
        while len(self._kept) > 1 and sum(seen.nbytes for seen in self._kept.values()) > self._most_bytes:
            self._kept.popitem(last=False)


def _identity(path: str, longest: int) -> Hashable | None:
    """What says that a file is still the same; None when it cannot be asked, and reading it will say why."""
    try:
        facts = os.stat(path)
    except (OSError, ValueError):
        return None
    return path, facts.st_dev, facts.st_ino, facts.st_mtime_ns, facts.st_size, longest


def paths_of(turns: Sequence[Turn]) -> list[str]:
    """The files of the turns' pictures, in their order."""
    return [part.path for turn in turns for part in turn.parts if isinstance(part, ImagePart)]


def with_pictures(title: str, pieces: Sequence[Sequence[int]], pictures: Sequence[Seen], mark: int) -> Prompt:
    """A prompt of the pieces with a picture between each two; `mark` is the token that stands for a feature.

    The positions of a picture are known by token and digest. `inputs` has the `Placed` ones as "pictures", if
    there are any.
    Raises RequestError when the model's template has left fewer or more places.
    """
    if len(pieces) != len(pictures) + 1:
        raise RequestError(
            f"The chat template of {title} has {len(pieces) - 1} places for {len(pictures)} pictures.",
            remedy="Ask without a picture, or fetch the model again.",
            unharmed="The conversation is unharmed.",
        )
    ids: list[int] = list(pieces[0])
    identity: list[Hashable] = list(ids)
    placed = []
    for seen, piece in zip(pictures, pieces[1:], strict=True):
        own = enumerate(seen.token_ids, start=len(ids))
        placed.append(Placed(seen, [at for at, token in own if token == mark]))
        identity += [(token, seen.digest) if token == mark else token for token in seen.token_ids]
        ids += seen.token_ids
        identity += piece
        ids += piece
    return Prompt(ids, identity, {"pictures": placed} if placed else {})


def encoded(tokenizer: Any, pieces: Sequence[str]) -> list[list[int]]:
    """Each piece's tokens. Pictures begin and end with special tokens, where a tokenizer cuts in any case."""
    # encode_batch releases the GIL, encode does not; several at once would be made equally long by padding.
    encode = tokenizer.backend_tokenizer.encode_batch
    return [list(encode([piece], add_special_tokens=False)[0].ids) for piece in pieces]
