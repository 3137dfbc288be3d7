"""Why a prompt was not reused as far as it could have been. Pure: no model, no torch.

What a conversation's KV stands for is kept twice: as the identity of every position, which decides what can
be reused, and as marks of its turns, which tell what the user did to make it differ. Marks are digests: a
mark says that a text changed, never what it says.
"""

from __future__ import annotations

import hashlib
import threading
from collections import OrderedDict
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

from runtime.kv.prefix_cache import common_prefix
from runtime.messages import ImagePart, MissCause, ModelInfo, Reuse, Turn

MOST_REMEMBERED = 512
"""Conversations of which it is remembered why their KV is gone."""


@dataclass(frozen=True, slots=True)
class TurnMark:
    """A turn without its content."""

    role: str
    text: str
    """Digest."""
    pictures: str
    """Digest of the paths; empty without pictures."""


@dataclass(slots=True)
class Said:
    """The turns that a conversation's KV stands for, the answer that came of them last."""

    turns: tuple[TurnMark, ...]
    left_out: int = 0
    """Earlier turns that were left out of the prompt."""
    answer: list[str] = field(default_factory=list)

    @classmethod
    def of(cls, turns: Sequence[Turn], left_out: int = 0) -> Said:
        """What is about to be answered."""
        return cls(tuple(_mark(turn) for turn in turns), left_out)

    def marks(self) -> tuple[TurnMark, ...]:
        """Every turn, the answer included."""
        answer = "".join(self.answer)
        return (*self.turns, TurnMark("assistant", _digest(answer), "")) if answer else self.turns


def compare(held: Sequence[Hashable], before: Said | None, identity: Sequence[Hashable], now: Said) -> Reuse:
    """How a prompt of that identity for the turns `now` meets the positions `held` for the turns `before`."""
    shared = common_prefix(held, identity[:-1])
    if shared >= min(len(held), len(identity) - 1):
        return Reuse(len(held))
    known = before.marks() if before is not None else ()
    turn = first_changed(known, now.turns)
    pictured = isinstance(held[shared], tuple) or isinstance(identity[shared], tuple)
    if before is not None and before.left_out != now.left_out:
        return Reuse(len(held), "shortened", shared)
    if turn is None:
        return Reuse(len(held), "image" if pictured else "template", shared)
    return Reuse(len(held), _change(known[turn], now.turns[turn]), shared, turn=turn)


def came_before(reuse: Reuse, begins_at: int) -> Reuse:
    """The same, when the turn that changed begins there: what differs well before it is not its doing.

    The last tokens before a turn may merge with its first ones, so a few of them prove nothing.
    """
    if reuse.first_different is not None and reuse.first_different + 4 < begins_at:
        return replace(reuse, cause="template", turn=None)
    return reuse


def first_changed(before: Sequence[TurnMark], now: Sequence[TurnMark]) -> int | None:
    """The index of the first turn that is not the same; None when one is the beginning of the other."""
    shared = common_prefix(before, now)
    return shared if shared < min(len(before), len(now)) else None


@dataclass(frozen=True, slots=True)
class LastAnswer:
    """Which model a conversation used last, and what became of its KV there."""

    model_id: str
    layout: object
    held: int = 0
    lost: MissCause | None = None


class History:
    """Where each conversation's KV was last; outlives the loaded models. Used from the threads of all."""

    def __init__(self) -> None:
        self._last: OrderedDict[str, LastAnswer] = OrderedDict()
        self._lock = threading.Lock()

    def note(
        self, conversation_id: str, info: ModelInfo, held: int = 0, lost: MissCause | None = None
    ) -> None:
        """The conversation is answered by that model, or has `lost` the `held` positions it had there.

        The oldest such news is forgotten.
        """
        with self._lock:
            self._last[conversation_id] = LastAnswer(info.model_id, info.layout, held, lost)
            self._last.move_to_end(conversation_id)
            while len(self._last) > MOST_REMEMBERED:
                self._last.popitem(last=False)

    def forget(self, conversation_id: str) -> None:
        """The conversation is deleted."""
        with self._lock:
            self._last.pop(conversation_id, None)

    def why_absent(self, conversation_id: str, turns: Sequence[Turn], info: ModelInfo) -> Reuse:
        """Why there is no KV for a conversation that is to be answered by that model."""
        last = self._last.get(conversation_id)
        if last is None:
            answered = any(turn.role == "assistant" for turn in turns)
            return Reuse(0, "restarted" if answered else "new")
        if last.model_id != info.model_id:
            return Reuse(last.held, "model")
        if last.layout != info.layout:
            return Reuse(last.held, "layout")
        return Reuse(last.held, last.lost or "new")


HISTORY = History()
"""The one of this process: a model's thread ends when the model is unloaded."""


def _change(was: TurnMark, now: TurnMark) -> MissCause:
    if "system" in (was.role, now.role):
        return "system"
    if was.text == now.text and was.pictures != now.pictures:
        return "image"
    return "edited"


def _mark(turn: Turn) -> TurnMark:
    paths = [part.path for part in turn.parts if isinstance(part, ImagePart)]
    return TurnMark(turn.role, _digest(turn.text), _digest("\0".join(paths)) if paths else "")


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
