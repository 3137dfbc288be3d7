"""How long the conversation becomes with the message being written: the loaded model counts."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from PySide6.QtCore import QObject, QTimer, Signal, Slot

from mblt_desktop.chat.composer import Composer
from mblt_desktop.chat.models import ChatModels
from mblt_desktop.chat.sampling import request_for
from mblt_desktop.chat.session import turns_of
from mblt_desktop.context import AppContext
from mblt_desktop.result_words import plural
from mblt_desktop.store.records import Conversation, Message, new_id
from runtime.messages import Event, MeasurePrompt, PromptMeasured

DELAY_MS = 250
"""Between two questions while a message is being typed."""
SHORT_OF_ROOM = 64
"""With fewer tokens left than this, an answer will hardly be whole."""
POLICY = "sampling.context_policy"


@dataclass(frozen=True, slots=True)
class Place:
    """Where the message that is being written will stand."""

    conversation: Conversation
    before: list[Message]
    """The turns it follows."""
    running: bool
    """Whether an answer is being written there, so that nothing can be sent now."""


class PromptMeter(QObject):
    """Keeps the composer's count of tokens right, and says what will happen to a message that is too long.

    It asks again and again while somebody types; one question at a time, so that a busy engine is not
    flooded. That also tells the model's thread that a prompt is about to come (`runtime/lanes/lane.py`).
    """

    policy_changed = Signal()
    """The conversation's own way to deal with a full context was set here."""

    def __init__(
        self, context: AppContext, composer: Composer, models: ChatModels, place: Callable[[], Place]
    ) -> None:
        super().__init__(composer)
        self._context = context
        self._composer = composer
        self._models = models
        self._place = place
        self._timer = QTimer(self, singleShot=True, interval=DELAY_MS)
        self._timer.timeout.connect(self._ask)
        self._asked = ""
        """The id of the question that is open."""
        self._stale = False
        composer.changed.connect(self.update)
        composer.leave_out_requested.connect(self._on_leave_out_requested)
        context.preferences.changed.connect(self._on_preference_changed)

    @Slot()
    def update(self) -> None:
        """The message, the conversation, the model or the sampling has changed."""
        self._stale = True
        if self._composer.text.strip():
            if not self._timer.isActive():
                self._timer.start()
        else:
            self._timer.stop()
            self._show_usage()

    @Slot(str)
    def _on_preference_changed(self, key: str) -> None:
        if key.startswith("sampling."):
            self.update()

    def _show_usage(self) -> None:
        """Tokens of the branch as of its last answer."""
        answers = [message for message in self._place().before if message.role == "assistant"]
        usage = answers[-1].result.usage if answers else None
        loaded = self._models.loaded
        total = loaded.context_length if loaded is not None else None
        if usage is not None and not usage.prompt:
            usage = None  # stopped before it began: nothing was counted
        self._composer.set_tokens(usage.prompt + usage.completion if usage is not None else None, total)
        self._composer.set_notice("")

    @Slot()
    def _ask(self) -> None:
        place, loaded, text = self._place(), self._models.loaded, self._composer.text
        if self._asked:
            return  # asked again as soon as that is answered
        if loaded is None or place.running or not text.strip():
            self._show_usage()
            return
        written = Message(place.conversation.id, "user", text, attachments=self._composer.attachments)
        turns = turns_of(place.conversation.system_prompt, [*place.before, written])
        sampling = request_for(place.conversation, self._context.preferences)
        self._asked, self._stale = new_id(), False
        self._context.dispatcher.watch(self._asked, self._on_event)
        self._context.submit(MeasurePrompt(self._asked, loaded.model_id, turns, sampling))

    def _on_event(self, event: Event) -> None:
        """`PromptMeasured`; a failure shows when the message is sent."""
        self._context.dispatcher.unwatch(self._asked)
        self._asked = ""
        if self._stale:
            self.update()
        elif isinstance(event, PromptMeasured):
            self._show(event)
        else:
            self._show_usage()

    def _show(self, measured: PromptMeasured) -> None:
        self._composer.set_tokens(measured.tokens, measured.limit)
        words = excess_words(measured)
        place = self._place()
        helps = not measured.fits and not measured.left_out and len(place.before) > 1
        self._composer.set_notice(words, refused=not measured.fits, can_leave_out=helps)

    @Slot()
    def _on_leave_out_requested(self) -> None:
        conversation = self._place().conversation
        sampling = {**conversation.sampling, POLICY: "drop_middle"}
        self._context.store.conversations.update(conversation.id, sampling=sampling)
        self.policy_changed.emit()
        self.update()


def excess_words(measured: PromptMeasured) -> str:
    """What will happen to a message that leaves little or no room; empty when there is enough."""
    left = measured.limit - measured.tokens
    if not measured.fits and measured.left_out:
        turns = plural(measured.left_out, "earlier turn")
        return f"This is too long even without {turns}: it would be refused."
    if not measured.fits:
        return f"This makes the chat {plural(1 - left, 'token')} too long: it would be refused."
    if measured.left_out:
        return f"{plural(measured.left_out, 'earlier turn')} will be left out to make room."
    if left < SHORT_OF_ROOM:
        return f"Only {plural(left, 'token')} would be left for the answer."
    return ""
