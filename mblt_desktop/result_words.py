"""How an answer came out, in the words of the line under it: in the panes and on the command line."""

from __future__ import annotations

from mblt_desktop.store.records import Result
from runtime.messages import Speculation, StopReason

_REASONS: dict[StopReason, str] = {
    "end": "by itself",
    "stop_string": "stop text",
    "length": "token limit",
    "context": "context full",
    "cancelled": "by you",
}


def result_facts(result: Result, *made_by: str) -> list[str]:
    """What is known about how an answer came out, and last the model and device that made it, if known."""
    facts = []
    if result.reason == "cancelled" and result.usage is not None and not result.usage.prompt:
        return ["stopped: by you, before it began"]
    if result.usage is not None and result.timings is not None:
        usage = result.usage
        rate = result.timings.tokens_per_second(usage.completion)
        if rate is not None:
            facts.append(f"{rate:.1f} tok/s")
        if usage.completion:
            facts.append(f"first token {seconds(result.timings.first_token)}")
        facts.append(plural(usage.completion, "token"))
        facts.append(f"prompt {usage.prompt}: {usage.cached} reused, {usage.new} new")
    if result.speculation is not None:
        facts.append(_speculation_words(result.speculation))
    if result.reason is not None:
        facts.append(f"stopped: {_REASONS[result.reason]}")
    return [*facts, *(words for words in made_by if words)]


def left_out_words(result: Result) -> str:
    """How many earlier turns the model was not given for an answer; empty when it was given all."""
    count = result.left_out
    return f"{plural(count, 'earlier turn')} left out, to keep within the model's context" if count else ""


def seconds(value: float) -> str:
    """A duration with the unit that suits it."""
    if value < 0.0995:
        return f"{1000 * value:.0f} ms"
    return f"{value:.2f} s" if value < 9.995 else f"{value:.1f} s"


def plural(count: int, noun: str) -> str:
    """`1 token`, `2 tokens`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _speculation_words(speculation: Speculation) -> str:
    return f"draft: {speculation.accepted} of {speculation.drafted} accepted"
