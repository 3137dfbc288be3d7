"""The composer knows before Enter how long the chat becomes, and what will happen to what is too long."""

from __future__ import annotations

from runtime.errors import ErrorInfo
from runtime.messages import (
    Failed,
    Finished,
    Generate,
    MeasurePrompt,
    PromptMeasured,
    TextPart,
    Timings,
    Turn,
    Usage,
)
from tests.ui.chat.conftest import MODEL


def asked(qtbot, host, count: int = 1) -> MeasurePrompt:
    """The newest question for a length, when there have been `count`."""
    qtbot.waitUntil(lambda: len(host.sent(MeasurePrompt)) == count)
    return host.sent(MeasurePrompt)[-1]


def reply(
    qtbot, pane, host, command: MeasurePrompt, tokens: int, left_out: int = 0, fits: bool = True
) -> None:
    host.post(PromptMeasured(command.request_id, tokens, 2048, left_out, fits))
    qtbot.waitUntil(lambda: pane.composer.tokens.text().startswith(f"{tokens} of 2048"))


def test_what_is_written_is_counted_with_all_that_goes_before_it(qtbot, pane, host, script):
    script.exchange("Hello?", "Hi.")
    pane.composer.set_text("And now?")
    command = asked(qtbot, host)
    assert command.model_id == MODEL
    assert command.turns == tuple(
        Turn(role, (TextPart(text),))
        for role, text in (("user", "Hello?"), ("assistant", "Hi."), ("user", "And now?"))
    )
    reply(qtbot, pane, host, command, 900)
    assert not pane.composer.notice.isVisible()


def test_typing_on_asks_once_more_and_never_twice_at_a_time(qtbot, pane, host):
    pane.composer.set_text("one")
    first = asked(qtbot, host)
    pane.composer.set_text("one two")
    pane.composer.set_text("one two three")
    qtbot.wait(400)
    assert len(host.sent(MeasurePrompt)) == 1
    host.post(PromptMeasured(first.request_id, 5, 2048, 0, True))
    second = asked(qtbot, host, 2)
    assert second.turns[-1].text == "one two three"
    reply(qtbot, pane, host, second, 7)


def test_who_types_on_without_a_pause_is_told_as_well(qtbot, pane, host):
    """And the model's thread knows that a prompt is about to come."""
    for count in range(1, 100):
        pane.composer.set_text("a" * count)
        qtbot.wait(50)
        if host.sent(MeasurePrompt):
            break
    reply(qtbot, pane, host, asked(qtbot, host), 5)


def test_a_message_that_would_be_refused_says_by_how_much_and_offers_a_way(qtbot, pane, host, script):
    script.exchange("Hello?", "Hi.")
    pane.composer.set_text("long")
    reply(qtbot, pane, host, asked(qtbot, host), 2100, fits=False)
    assert pane.composer.notice.text() == "This makes the chat 53 tokens too long: it would be refused."
    assert pane.composer.notice.property("tone") == "bad"
    pane.composer.leave_out.click()
    assert pane.conversation.sampling == {"sampling.context_policy": "drop_middle"}
    assert pane.inspector.rows["sampling.context_policy"].edit.currentText() == "Drop the middle"
    command = asked(qtbot, host, 2)
    assert command.sampling.context_policy == "drop_middle"
    host.post(PromptMeasured(command.request_id, 2100, 2048, 3, True))
    qtbot.waitUntil(lambda: "3 earlier turns will be left out" in pane.composer.notice.text())
    assert not pane.composer.leave_out.isVisible()
    pane.composer.send.click()
    assert host.sent(Generate)[-1].sampling.context_policy == "drop_middle"
    assert not pane.composer.notice.isVisible()


def test_a_first_message_that_is_too_long_has_nothing_to_leave_out(qtbot, pane, host):
    pane.composer.set_text("long")
    reply(qtbot, pane, host, asked(qtbot, host), 2048, fits=False)
    assert "1 token too long" in pane.composer.notice.text()
    assert not pane.composer.leave_out.isVisible()


def test_what_is_too_long_even_without_earlier_turns_says_so(qtbot, pane, host, script):
    script.exchange("Hello?", "Hi.")
    pane.composer.set_text("long")
    reply(qtbot, pane, host, asked(qtbot, host), 9000, left_out=2, fits=False)
    words = "This is too long even without 2 earlier turns: it would be refused."
    assert pane.composer.notice.text() == words
    assert not pane.composer.leave_out.isVisible()


def test_little_room_for_the_answer_is_said(qtbot, pane, host):
    pane.composer.set_text("long")
    reply(qtbot, pane, host, asked(qtbot, host), 2040)
    assert pane.composer.notice.text() == "Only 8 tokens would be left for the answer."


def test_an_earlier_turn_is_counted_where_it_stands(qtbot, pane, host, script):
    request = script.exchange("Hello?", "Hi.")
    question = pane.conversation_page.branch[0]
    pane.conversation_page.edit_requested.emit(question)
    pane.composer.set_text("Hello again?")
    command = asked(qtbot, host)
    assert [turn.text for turn in command.turns] == ["Hello again?"]
    assert request


def test_nothing_is_asked_while_an_answer_is_written_or_nothing_is_typed(qtbot, pane, host, script):
    request = script.ask("Hello?")
    pane.composer.set_text("Next")
    qtbot.wait(400)
    assert not host.sent(MeasurePrompt)
    script.answer(request, "Hi.")
    command = asked(qtbot, host)
    pane.composer.set_text("")
    host.post(Failed(command.request_id, ErrorInfo("request.model_not_loaded", "Gone.")))
    qtbot.waitUntil(lambda: pane.composer.tokens.text() == "785 of 2048 tokens used")


def test_another_policy_in_the_settings_is_measured_anew(qtbot, pane, host, context):
    pane.composer.set_text("long")
    reply(qtbot, pane, host, asked(qtbot, host), 2100, fits=False)
    context.preferences.set("sampling.context_policy", "rolling")
    assert asked(qtbot, host, 2).sampling.context_policy == "rolling"


def test_an_answer_stopped_before_it_began_counts_nothing(qtbot, pane, host, script):
    request = script.ask("Tell me a story")
    pane.composer.stop.click()
    nothing = Timings(0.1, 0.0, 0.0, 0.0, 0.0, 0.0, 0.1)
    host.post(Finished(request, "cancelled", Usage(0, 0, 0), nothing, ""))
    qtbot.waitUntil(lambda: not pane.session.runs)
    assert "tokens used" not in pane.composer.tokens.text()
