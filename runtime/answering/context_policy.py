"""What is left out of a conversation that is longer than the model holds. Pure: no model, no torch.

Turns are left out by whole exchanges (a question and what was answered to it), the oldest first. The system
prompt and the last exchange always stay; `drop_middle` keeps the first exchange too.

How many tokens go is rounded up to a step. So the same exchanges stay out for several turns, and what follows
them can be reused from the KV cache; a gap that grew with every turn would have everything behind it computed
again each time.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, Protocol, TypeVar

from runtime.errors import RequestError
from runtime.messages import Turn
from runtime.sampling.params import ContextPolicy

ANSWER_ROOM = 256
"""Tokens kept free for an answer without a limit of its own, when turns are left out."""

ROOM_SHARE = 4
"""No more than one in so many of the context's tokens is kept free, whatever the answer's limit."""

STEP_SHARE = 8
"""What is left out is rounded up to one in so many of the context's tokens."""


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
    """Leave out exchanges until prompt and `room` are within `limit` tokens.

    `build` makes the prompt of turns; it is called once when all of them fit, else about log2(exchanges)
    times more. Raises RequestError when there is no turn.
    """
    if not turns:
        raise RequestError("There is no message to answer.", remedy="Write a message, then send it.")
    everything = build(turns)
    whole = len(everything.token_ids)
    head, droppable, tail = _split(turns, policy)
    if policy == "stop" or whole + room <= limit or not droppable:
        return Fit(everything, tuple(turns), 0, whole)
    built: dict[int, Fit[PromptT]] = {}

    def without(count: int) -> Fit[PromptT]:
        if count not in built:
            kept = (*head, *(turn for exchange in droppable[count:] for turn in exchange), *tail)
            built[count] = Fit(build(kept), kept, len(turns) - len(kept), whole)
        return built[count]

    def within(length: int) -> Fit[PromptT] | None:
        if len(without(len(droppable)).prompt.token_ids) > length:
            return None
        least = _first(len(droppable), lambda count: len(without(count).prompt.token_ids) <= length)
        return without(least)

    step = max(1, limit // STEP_SHARE)
    rounded = -(-(whole + room - limit) // step) * step
    return within(whole - rounded) or within(limit - room) or without(len(droppable))


def _first(last: int, holds: Callable[[int], bool]) -> int:
    """The least count from 1 to `last` for which it holds, if it holds from there on and for `last`."""
    low, high = 1, last
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if holds(middle) else (middle + 1, high)
    return low


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
