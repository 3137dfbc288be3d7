"""Why an answer waits, as people read it."""

from __future__ import annotations

import pytest

from mblt_desktop.dispatcher import Dispatcher
from mblt_desktop.waiting import waiting_words
from runtime.messages import Event, Finished, Queued, Timings, Usage
from tests.ui.conftest import ScriptedBridge

ASKED = {"other": "What is\n on  the invoice?", "long": "Why? " * 40}


@pytest.mark.parametrize(
    ("event", "words"),
    [
        (Queued("r", 0, "next"), ""),
        (Queued("r", 2), "Waiting: 2 before this one"),
        (Queued("r", 0, "loading"), "Waiting: the model is still being loaded"),
        (Queued("r", 1, "interactive", "other"), "Waits while somebody asks: “What is on the invoice?”"),
        (
            Queued("r", 1, "gave_way", "other"),
            "Gave way, and goes on after what somebody asks now: “What is on the invoice?”",
        ),
        (Queued("r", 1, "conversation", "gone"), "Waiting: its conversation is still being answered"),
        (Queued("r", 1, "interactive", "gone"), "Waits while somebody asks"),
    ],
)
def test_each_cause_has_its_words(event: Queued, words: str) -> None:
    assert waiting_words(event, lambda key: ASKED.get(key, "")) == words


def test_a_long_question_is_cut_to_one_line() -> None:
    words = waiting_words(Queued("r", 1, "interactive", "long"), ASKED.__getitem__)
    assert words.endswith("…”")
    assert len(words) < 100


def test_a_question_is_known_until_it_is_answered(dispatcher: Dispatcher, bridge: ScriptedBridge) -> None:
    seen: list[tuple[Event, str]] = []
    dispatcher.watch("r", lambda event: seen.append((event, dispatcher.asked("r"))), "What is it?")
    assert dispatcher.asked("r") == "What is it?"
    bridge.host.post(Queued("r", 1), Finished("r", "end", Usage(1, 0, 1), Timings(*[0.0] * 7), "device"))
    dispatcher.deliver()
    assert [question for _, question in seen] == ["What is it?", ""]
    dispatcher.watch("s", lambda _: None, "And now?")
    dispatcher.unwatch("s")
    assert dispatcher.asked("s") == ""
