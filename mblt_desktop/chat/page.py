"""The open conversation: keeps the transcript in step with the session, and does what its links ask for."""

from __future__ import annotations

from PySide6.QtCore import Signal, Slot
from PySide6.QtGui import QAccessible, QAccessibleAnnouncementEvent, QGuiApplication
from PySide6.QtWidgets import QVBoxLayout, QWidget

from mblt_desktop.chat.models import ChatModels
from mblt_desktop.chat.session import ChatSession
from mblt_desktop.chat.transcript import Transcript
from mblt_desktop.chat.view import Branch
from mblt_desktop.context import AppContext
from mblt_desktop.store.records import Conversation, Message

ANNOUNCED_CHARACTERS = 300


class ConversationPage(QWidget):
    """Shows one branch of one conversation."""

    edit_requested = Signal(object)
    """A Message of the user's that is to be asked with other words."""
    answer_selected = Signal(object)
    """The Message whose facts the inspector shows."""

    def __init__(self, context: AppContext, session: ChatSession, models: ChatModels) -> None:
        super().__init__()
        self._context = context
        self._store = context.store.conversations
        self._session = session
        self._models = models
        self._conversation: Conversation | None = None
        self.transcript = Transcript()
        column = QVBoxLayout(self)
        column.setContentsMargins(0, 0, 0, 0)
        column.addWidget(self.transcript)
        self.transcript.action_requested.connect(self._on_action)
        self.transcript.message_selected.connect(self._on_selected)
        session.message_added.connect(self._on_message_added)
        session.text_added.connect(self.transcript.append_text)
        session.status_changed.connect(self.transcript.set_status)
        session.ended.connect(self._on_ended)
        self._actions = {
            "copy": self._copy,
            "copy-code": self._copy_code,
            "edit": self._edit,
            "regenerate": self._regenerate,
            "retry": self._regenerate,
            "previous": self._previous,
            "next": self._next,
            "details": self._details,
        }

    @property
    def branch(self) -> list[Message]:
        """The messages that are shown."""
        conversation = self._conversation
        if conversation is None:
            return []
        return self._store.tree(conversation.id).path(conversation.leaf_id)

    @property
    def last_answer(self) -> Message | None:
        """The newest answer of the branch."""
        return next((message for message in reversed(self.branch) if message.role == "assistant"), None)

    def show_conversation(self, conversation: Conversation) -> None:
        """Show another conversation, at its end. Raises sqlite3.Error when it cannot be read."""
        self._conversation = conversation
        self.transcript.show_messages(self.branch, self._branch_of)

    def copy_last_answer(self) -> None:
        """Put the newest answer on the clipboard."""
        if self.last_answer is not None:
            self._copy(self.last_answer, 0)

    def regenerate_last(self) -> None:
        """Answer the last turn once more."""
        if self.last_answer is not None:
            self._regenerate(self.last_answer, 0)

    def _branch_of(self, message: Message) -> Branch:
        siblings = self._store.tree(message.conversation_id).siblings(message.id)
        return Branch([sibling.id for sibling in siblings].index(message.id), len(siblings))

    # -- session ----------------------------------------------------------------------------------

    @Slot(object)
    def _on_message_added(self, message: Message) -> None:
        if self._conversation is None or message.conversation_id != self._conversation.id:
            return
        if self._branch_of(message).count > 1:
            # A new branch: the old turn and all that followed it give way.
            self.transcript.show_messages(self.branch, self._branch_of)
        else:
            self.transcript.add(message)

    @Slot(object)
    def _on_ended(self, message: Message) -> None:
        self.transcript.finish(message.id)
        if self._conversation is None or message.conversation_id != self._conversation.id:
            return
        self.answer_selected.emit(message)
        # Once per answer: a screen reader must not be flooded with tokens.
        words = " ".join(message.text.split())[:ANNOUNCED_CHARACTERS]
        QAccessible.updateAccessibility(QAccessibleAnnouncementEvent(self.transcript, f"Answer: {words}"))

    # -- links ------------------------------------------------------------------------------------

    @Slot(str)
    def _on_selected(self, message_id: str) -> None:
        message = self._message(message_id)
        if message is not None and message.role == "assistant":
            self.answer_selected.emit(message)

    @Slot(str, str, int)
    def _on_action(self, action: str, message_id: str, number: int) -> None:
        message = self._message(message_id)
        if message is not None:
            self._actions[action](message, number)

    def _message(self, message_id: str) -> Message | None:
        return next((message for message in self.branch if message.id == message_id), None)

    def _copy(self, message: Message, _number: int) -> None:
        QGuiApplication.clipboard().setText(message.text)
        self._context.toast("Copied")

    def _copy_code(self, message: Message, number: int) -> None:
        QGuiApplication.clipboard().setText(self.transcript.code_of(message.id, number))
        self._context.toast("Code copied")

    def _edit(self, message: Message, _number: int) -> None:
        self.edit_requested.emit(message)

    def _regenerate(self, message: Message, _number: int) -> None:
        if self._session.run_of(message.conversation_id) is not None:
            self._context.toast("Stop the running answer first")
            return
        model_id = self._models.ready()
        if model_id is not None:
            self._session.regenerate(message, model_id, self._models.title(model_id))

    def _previous(self, message: Message, _number: int) -> None:
        self._switch(message, -1)

    def _next(self, message: Message, _number: int) -> None:
        self._switch(message, 1)

    def _switch(self, message: Message, step: int) -> None:
        tree = self._store.tree(message.conversation_id)
        siblings = tree.siblings(message.id)
        index = self._branch_of(message).index + step
        if not 0 <= index < len(siblings):
            return
        leaf = tree.newest_leaf(siblings[index].id)
        self._store.update(message.conversation_id, leaf_id=leaf)
        self.transcript.show_messages(self.branch, self._branch_of)
        self.answer_selected.emit(self.last_answer)

    def _details(self, message: Message, _number: int) -> None:
        if message.result.error is not None:
            self._context.show_error(message.result.error)
