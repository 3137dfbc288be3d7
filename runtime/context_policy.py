"""What is left out of a conversation that is longer than the model holds. Pure: no model, no torch.

Turns are left out by whole exchanges (a question and what was answered to it), the oldest first and no more
than needed. The system prompt and the last exchange always stay; `drop_middle` keeps the first exchange too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from runtime.messages import Turn
from runtime.sampling_params import ContextPolicy

ANSWER_ROOM = 256
"""Tokens kept free for an answer without a limit of its own, when turns are left out."""

ROOM_SHARE = 4
"""No more than one in so many of the context's tokens is kept free, whatever the answer's limit."""


class Tokenised(Protocol):
    """A prompt."""

    @property
    def token_ids(self) -> Sequence[int]:
        """Its tokens."""


PromptT = TypeVar("PromptT", bound=Tokenised)


@dataclass(frozen=True, slots=True)
class Fit(Generic[PromptT]):
    """The turns that stay and their prompt, which is still too long if nothing more may be left out."""

    prompt: PromptT
    turns: tuple[Turn, ...]
    left_out: int
    """Turns."""
    whole: int
    """Tokens with nothing left out."""


def answer_room(limit: int, max_tokens: int | None) -> int:
    """Tokens to keep free for the answer in a context of `limit`."""
    return max(1, min(max_tokens or ANSWER_ROOM, limit // ROOM_SHARE))


def fit(
    turns: Sequence[Turn],
    policy: ContextPolicy,
    build: Callable[[Sequence[Turn]], PromptT],
    limit: int,
    room: int,
) -> Fit[PromptT]:
    """Leave out as few exchanges as it takes for prompt and `room` to be within `limit` tokens.

    `build` makes the prompt of turns; it is called once when all of them fit, else about log2(exchanges)
    times more.
    """
    prompt = build(turns)
    whole = len(prompt.token_ids)
    head, droppable, tail = _split(turns, policy)
    if policy == "stop" or whole + room <= limit or not droppable:
        return Fit(prompt, tuple(turns), 0, whole)
    low, high = 1, len(droppable)
    best: Fit[PromptT] | None = None
    while low <= high:
        dropped = (low + high) // 2
        kept = [*head, *(turn for exchange in droppable[dropped:] for turn in exchange), *tail]
        prompt = build(kept)
        if len(prompt.token_ids) + room <= limit:
            high = dropped - 1
        else:
            low = dropped + 1
        if best is None or len(prompt.token_ids) + room <= limit or dropped == len(droppable):
            best = Fit(prompt, tuple(kept), len(turns) - len(kept), whole)
    assert best is not None
    return best


def _split(turns: Sequence[Turn], policy: ContextPolicy) -> tuple[list[Turn], list[list[Turn]], list[Turn]]:
    """What always stays at the start, the exchanges that may go, oldest first, and what stays at the end."""
    system = [turn for turn in turns if turn.role == "system"]
    exchanges: list[list[Turn]] = []
    for turn in turns:
        if turn.role == "system":
            continue
        if turn.role == "user" or not exchanges:
            exchanges.append([])
        exchanges[-1].append(turn)
    first = 1 if policy == "drop_middle" else 0
    head = system + [turn for exchange in exchanges[:-1][:first] for turn in exchange]
    tail = exchanges[-1] if exchanges else []
    return head, exchanges[first:-1], tail
