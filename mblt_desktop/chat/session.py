"""Asks the runtime and writes what it answers into the store. It knows conversations, but no widgets.

An answer belongs to its message from the first moment, so it does not matter which chat is shown while it
arrives. The id of a request is the id of the message it fills.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

from PySide6.QtCore import QObject, Signal

from mblt_desktop.chat.sampling import request_for
from mblt_desktop.context import AppContext
from mblt_desktop.store.records import Attachment, Conversation, Message, MessageState, Result
from mblt_desktop.waiting import progress_words
from runtime.messages import (
    CandidatesReported,
    Event,
    Failed,
    Finished,
    ForgetConversation,
    Generate,
    ImagePart,
    Part,
    TextDelta,
    TextPart,
    Turn,
)
from runtime.tracing.recorder import RECORDER

KEPT_REPORTS = 16
"""Reports of candidates that are kept, for the newest answers; they are not saved."""


@dataclass(slots=True)
class Run:
    """An answer on its way."""

    message: Message
    model_id: str
    stopping: bool = False
    waiting: bool = True
    """Whether it says what it waits for; so it does again when a long answer is read anew."""


class ChatSession(QObject):
    """Every signal names the message it is about."""

    message_added = Signal(object)
    """A Message, already in the store."""
    text_added = Signal(str, str)
    status_changed = Signal(str, str)
    ended = Signal(object)
    """A Message whose answer is complete, stopped or failed."""
    running_changed = Signal()

    def __init__(self, context: AppContext, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._context = context
        self._conversations = context.store.conversations
        self._runs: dict[str, Run] = {}
        self._candidates: dict[str, CandidatesReported] = {}

    def run_of(self, conversation_id: str) -> Run | None:
        """The answer that is being written in a conversation."""
        runs = (run for run in self._runs.values() if run.message.conversation_id == conversation_id)
        return next(runs, None)

    @property
    def runs(self) -> list[Run]:
        """All answers on their way."""
        return list(self._runs.values())

    # -- asking -----------------------------------------------------------------------------------

    def send(
        self,
        conversation: Conversation,
        text: str,
        model_id: str,
        model_title: str,
        attachments: tuple[Attachment, ...] = (),
    ) -> None:
        """Add the user's turn at the end of the shown branch, and ask for an answer."""
        branch = self._conversations.tree(conversation.id).path(conversation.leaf_id)
        parent = branch[-1].id if branch else None
        self._ask_with(conversation, text, parent, model_id, model_title, attachments)

    def edit(self, message: Message, text: str, model_id: str, model_title: str) -> None:
        """Ask again with other words: a new branch beside the old turn."""
        conversation = self._conversations.get(message.conversation_id)
        if conversation is not None:
            self._ask_with(conversation, text, message.parent_id, model_id, model_title, message.attachments)

    def regenerate(self, message: Message, model_id: str, model_title: str) -> None:
        """Answer the same turn once more: a new branch beside the old answer."""
        conversation = self._conversations.get(message.conversation_id)
        if conversation is not None and message.parent_id is not None:
            self._answer(conversation, message.parent_id, model_id, model_title)

    def stop(self, conversation_id: str) -> None:
        """Ask for the end of the answer; what is there stays."""
        run = self.run_of(conversation_id)
        if run is not None and not run.stopping:
            run.stopping = True
            self._context.cancel(run.message.id)
            self.status_changed.emit(run.message.id, "Stopping…")
            self.running_changed.emit()

    def forget(self, conversation_id: str) -> None:
        """A conversation was deleted: stop answering, give its cache back."""
        self.stop(conversation_id)
        self._context.submit(ForgetConversation(conversation_id))

    def _ask_with(
        self,
        conversation: Conversation,
        text: str,
        parent_id: str | None,
        model_id: str,
        model_title: str,
        attachments: tuple[Attachment, ...],
    ) -> None:
        turn = Message(conversation.id, "user", text, parent_id, attachments=attachments)
        self._conversations.add(turn)
        self.message_added.emit(turn)
        self._answer(conversation, turn.id, model_id, model_title)

    def _answer(self, conversation: Conversation, parent_id: str, model_id: str, model_title: str) -> None:
        submitted = time.perf_counter_ns()
        tree = self._conversations.tree(conversation.id)
        reply = Message(conversation.id, "assistant", "", parent_id, state="writing", model=model_title)
        with RECORDER.span("submit", request=reply.id):
            turns = turns_of(conversation.system_prompt, tree.path(parent_id))
            self._conversations.add(reply)
            self._runs[reply.id] = Run(reply, model_id)
            self._context.dispatcher.watch(reply.id, self._on_event, turns[-1].text)
            self._context.submit(
                Generate(
                    request_id=reply.id,
                    conversation_id=conversation.id,
                    model_id=model_id,
                    turns=turns,
                    sampling=request_for(conversation, self._context.preferences),
                    submitted_ns=submitted,
                )
            )
        self.message_added.emit(reply)
        self.running_changed.emit()

    # -- answers ----------------------------------------------------------------------------------

    def _on_event(self, event: Event) -> None:
        run = self._runs.get(str(getattr(event, "request_id", "")))
        if run is None:
            return
        message = run.message
        if isinstance(event, TextDelta):
            self._add_text(run, event.text)
        elif isinstance(event, Finished):
            self._end(run, Result.of(event), event.device)
        elif isinstance(event, Failed):
            self._end(run, Result(error=event.error))
        elif isinstance(event, CandidatesReported):
            self._keep_candidates(event)
        elif not run.stopping:
            run.waiting = True
            asked = self._context.dispatcher.asked
            words = progress_words(event, asked, begins="Waiting for the model…", reads="the conversation")
            self.status_changed.emit(message.id, words)

    def _keep_candidates(self, event: CandidatesReported) -> None:
        self._candidates[event.request_id] = event
        while len(self._candidates) > KEPT_REPORTS:
            del self._candidates[next(iter(self._candidates))]

    def candidates_of(self, message_id: str) -> CandidatesReported | None:
        """What could have come instead of an answer's tokens, if it was reported since the window opened."""
        return self._candidates.get(message_id)

    def _add_text(self, run: Run, text: str) -> None:
        if run.waiting and not run.stopping:
            self.status_changed.emit(run.message.id, "")
        run.waiting = False
        self._conversations.append_text(run.message, text)
        self.text_added.emit(run.message.id, text)

    def _end(self, run: Run, result: Result, device: str = "") -> None:
        message = run.message
        del self._runs[message.id]
        state: MessageState = "failed" if result.error is not None else "done"
        self._conversations.finish(message, state, result, device)
        self.ended.emit(message)
        self.running_changed.emit()


def turns_of(system_prompt: str, branch: list[Message]) -> tuple[Turn, ...]:
    """A branch as the model is given it: no empty answers, and roles that alternate."""
    turns: list[Turn] = [Turn("system", (TextPart(system_prompt),))] if system_prompt.strip() else []
    for message in branch:
        if message.role == "assistant" and not message.text:
            continue
        parts: tuple[Part, ...] = tuple(ImagePart(attachment.path) for attachment in message.attachments)
        parts += (TextPart(message.text),)
        if turns and turns[-1].role == message.role:
            turns[-1] = Turn(message.role, (*turns[-1].parts, TextPart("\n\n"), *parts))
        else:
            turns.append(Turn(message.role, parts))
    return tuple(turns)
