"""A conversation as a file for people (Markdown) and for programs (JSON, with every branch)."""

from __future__ import annotations

import json
from dataclasses import asdict
from datetime import datetime
from typing import Any

from mblt_desktop.result_words import left_out_words, result_facts
from mblt_desktop.store.records import Conversation, Message
from mblt_desktop.store.tree import MessageTree

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
        facts = [left_out_words(message.result), *result_facts(message.result, message.device)]
        facts = [words for words in facts if words]
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


def _message(message: Message, children: list[str]) -> dict[str, Any]:
    return asdict(message) | {"children": children}
