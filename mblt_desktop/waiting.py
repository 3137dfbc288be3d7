"""What an answer that has no more text yet is waiting for, in words."""

from __future__ import annotations

from collections.abc import Callable

from mblt_desktop.overdue import overdue_words
from runtime.messages import CallOverdue, Event, PrefillProgress, Queued

_LONGEST = 60


def progress_words(
    event: Event, asked: Callable[[str], str], *, begins: str, reads: str, button: str = "Stop"
) -> str:
    """The line under an answer that is not written on yet; empty for an event that says nothing about it.

    `begins` is said when nothing more is waited for, `reads` names what the model reads, and `button` is the
    one that ends the waiting for a device.
    """
    if isinstance(event, CallOverdue):
        return overdue_words(event, button)
    if isinstance(event, Queued):
        return waiting_words(event, asked) or begins
    if isinstance(event, PrefillProgress) and event.done < event.total:
        reused = f", {event.cached} of them reused" if event.cached else ""
        return f"Reading {reads}: {event.done} of {event.total} tokens{reused}"
    return ""


def waiting_words(event: Queued, asked: Callable[[str], str]) -> str:
    """The line under an answer that waits; `asked` tells the question of another request, if it is known.

    Empty for one that waits for nothing: whoever asked has better words for what it does then.
    """
    if event.cause == "next":
        return ""
    if event.cause == "loading":
        return "Waiting: the model is still being loaded"
    if event.cause == "turn":
        return f"Waiting: {event.position} before this one"
    question = _quoted(asked(event.behind))
    if event.cause == "conversation":
        return f"Waiting: its conversation is still being answered{question}"
    if event.cause == "gave_way":
        return f"Gave way, and goes on after what somebody asks now{question}"
    return f"Waits while somebody asks{question}"


def _quoted(question: str) -> str:
    """Behind a colon and on one line; nothing for an unknown question."""
    line = " ".join(question.split())
    if not line:
        return ""
    return f": “{line}”" if len(line) <= _LONGEST else f": “{line[: _LONGEST - 1].rstrip()}…”"
