"""A conversation as a file for people (Markdown) and for programs (JSON, with every branch)."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import Any

from mblt_desktop.store.records import Conversation, Message
from mblt_desktop.store.tree import MessageTree
from runtime.messages import Speculation

FORMAT = "mblt-desktop-conversation/1"


def to_markdown(conversation: Conversation, tree: MessageTree) -> str:
    """The branch that is shown, as Markdown."""
    parts = [f"# {conversation.title}", ""]
    if conversation.system_prompt:
        parts += ["**System prompt**", "", conversation.system_prompt, ""]
    for message in tree.path(conversation.leaf_id):
        who = "You" if message.role == "user" else message.model or "Assistant"
        when = datetime.fromtimestamp(message.created_at).strftime("%Y-%m-%d %H:%M")
        parts += [f"## {who} · {when}", "", message.text.rstrip(), ""]
        parts += [f"*Attached: {attachment.name}*\n" for attachment in message.attachments]
        facts = [words for words in (left_out_words(message), *answer_facts(message)) if words]
        if facts:
            parts += [f"*{' · '.join(facts)}*", ""]
    return "\n".join(parts)


def to_json(conversation: Conversation, tree: MessageTree) -> str:
    """Everything there is about the conversation; messages name their parents and children."""
    children: dict[str, list[str]] = {}
    for message in tree.all():
        if message.parent_id is not None:
            children.setdefault(message.parent_id, []).append(message.id)
    messages = [_message(message, children.get(message.id, [])) for message in tree.all()]
    data = {"format": FORMAT} | asdict(conversation) | {"messages": messages}
    del data["draft"]
    return json.dumps(data, ensure_ascii=False, indent=2)


def answer_facts(message: Message) -> list[str]:
    """What is known about how an answer came out, in the words of the line under it."""
    result, facts = message.result, []
    if result.usage is not None and result.timings is not None:
        rate = result.timings.tokens_per_second(result.usage.completion)
        if rate is not None:
            facts.append(f"{rate:.1f} tok/s")
        if result.usage.completion:
            facts.append(f"first token {seconds(result.timings.first_token)}")
        facts.append(plural(result.usage.completion, "token"))
        usage = result.usage
        facts.append(f"prompt {usage.prompt}: {usage.cached} reused, {usage.new} new")
    if result.speculation is not None:
        facts.append(speculation_words(result.speculation))
    if result.reason is not None:
        facts.append(f"stopped: {REASONS[result.reason]}")
    if message.device:
        facts.append(message.device)
    return facts


def speculation_words(speculation: Speculation) -> str:
    """How much of its draft an answer took over."""
    return f"draft: {speculation.accepted} of {speculation.drafted} accepted"


def left_out_words(message: Message) -> str:
    """How many earlier turns the model was not given for an answer; empty when it was given all."""
    count = message.result.left_out
    return f"{plural(count, 'earlier turn')} left out, to keep within the model's context" if count else ""


REASONS = {
    "end": "by itself",
    "stop_string": "stop text",
    "length": "token limit",
    "context": "context full",
    "cancelled": "by you",
}


def seconds(value: float) -> str:
    """A duration with the unit that suits it."""
    if value < 0.0995:
        return f"{1000 * value:.0f} ms"
    return f"{value:.2f} s" if value < 9.995 else f"{value:.1f} s"


def plural(count: int, noun: str) -> str:
    """`1 token`, `2 tokens`."""
    return f"{count} {noun}" if count == 1 else f"{count} {noun}s"


def _message(message: Message, children: list[str]) -> dict[str, Any]:
    return asdict(message) | {"children": children}
