"""How much of a prompt was reused and why no more, in one sentence."""

from __future__ import annotations

from runtime.messages import MissCause, Reuse, Usage

_LONGEST_TOKEN = 24

_WHY: dict[MissCause, str] = {
    "new": "this is the first turn of the conversation",
    "restarted": "the program was started again since the last turn",
    "reloaded": "the model was loaded again since the last turn",
    "model": "another model gave the last answer",
    "layout": "the model is laid out differently on the device since the last turn",
    "system": "the system prompt changed",
    "edited": "an earlier turn was edited or replaced",
    "image": "a picture changed",
    "template": "the chat template wrote the same turns differently",
    "shortened": "earlier turns were left out to stay within the context",
    "evicted": "the cache of this conversation was dropped to make room for others",
    "unsaved": "the cache of this conversation was dropped to make room and could not be written to the disk",
    "cheaper": "that was faster than loading their cache back onto the device",
    "rejected": "the cache that was kept did not pass its check",
    "distrusted": "the device returned bad numbers last time",
}


def reuse_words(usage: Usage, reuse: Reuse | None) -> str:
    """The sentence for an answer; one from before causes were kept has none."""
    if usage.cached:
        source = " from the disk" if reuse is not None and reuse.from_disk else ""
        new = f"{usage.new} {'was' if usage.new == 1 else 'were'} computed"
        text = f"{usage.cached} of {usage.prompt} prompt tokens were reused{source}, {new}"
    else:
        text = f"All {usage.prompt} prompt tokens were computed"
    why = "" if reuse is None or reuse.cause is None else _WHY.get(reuse.cause, "")
    return f"{text} because {why}{_where(reuse)}." if reuse is not None and why else f"{text}."


def _where(reuse: Reuse) -> str:
    if reuse.first_different is None:
        return ""
    token = " ".join(reuse.token.split())
    if len(token) > _LONGEST_TOKEN:
        token = token[:_LONGEST_TOKEN] + "…"
    named = f", “{token}”," if token else ""
    return f": token {reuse.first_different + 1}{named} is the first that differs"
