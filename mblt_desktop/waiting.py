"""Why an answer has not begun yet, in words."""

from __future__ import annotations

from collections.abc import Callable

from runtime.messages import Queued

_LONGEST = 60


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
