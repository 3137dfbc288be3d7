"""The turns of one conversation as a tree: editing or regenerating makes a branch beside the old one."""

from __future__ import annotations

from collections.abc import Iterable

from mblt_desktop.store.records import Message


class MessageTree:
    """All messages of a conversation, in memory. Children keep the order in which they were made."""

    def __init__(self, messages: Iterable[Message] = ()) -> None:
        self._messages: dict[str, Message] = {}
        self._children: dict[str | None, list[str]] = {}
        for message in messages:
            self.add(message)

    def __len__(self) -> int:
        """How many messages there are on all branches."""
        return len(self._messages)

    def add(self, message: Message) -> None:
        """Put a message under its parent; one whose parent is missing starts a branch of its own."""
        if message.parent_id not in self._messages:
            message.parent_id = None
        self._messages[message.id] = message
        self._children.setdefault(message.parent_id, []).append(message.id)

    def get(self, message_id: str) -> Message:
        """A message by id; KeyError when there is none."""
        return self._messages[message_id]

    def all(self) -> list[Message]:
        """Every message, oldest first."""
        return list(self._messages.values())

    def path(self, leaf_id: str | None) -> list[Message]:
        """The branch that ends at `leaf_id`, from the first turn; of an unknown leaf, the newest branch."""
        if leaf_id not in self._messages:
            leaf_id = self.newest_leaf(None)
        branch: list[Message] = []
        while leaf_id is not None:
            message = self._messages[leaf_id]
            branch.append(message)
            leaf_id = message.parent_id
        return branch[::-1]

    def siblings(self, message_id: str) -> list[Message]:
        """The message and its alternatives, oldest first."""
        parent = self._messages[message_id].parent_id
        return [self._messages[child] for child in self._children[parent]]

    def newest_leaf(self, message_id: str | None) -> str | None:
        """The end of the branch that follows the newest child from `message_id` (None: from the start)."""
        leaf = message_id
        while children := self._children.get(leaf):
            leaf = children[-1]
        return leaf
