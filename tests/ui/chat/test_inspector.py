"""The inspector: what an answer was made with, what could have come instead, and what was left out."""

from __future__ import annotations

import math
from dataclasses import replace

import pytest

from mblt_desktop.store.export import to_markdown
from mblt_desktop.store.store import Store
from runtime.messages import (
    Candidate,
    CandidatesReported,
    DrawnToken,
    Generate,
    ModelLoaded,
    PrefillProgress,
    Reuse,
    Speculation,
)
from runtime.sampling.params import UsedValue
from tests.ui.chat.conftest import finished, info

USED = (
    UsedValue("temperature", 0.7, "conversation"),
    UsedValue("repetition_penalty", 1.1, "model"),
    UsedValue("seed", 1234, "default"),
    UsedValue("max_tokens", None, "default"),
    UsedValue("stop", ("###",), "you"),
    UsedValue("apply_penalties", False, "you"),
    UsedValue("context_policy", "rolling", "you"),
)


@pytest.fixture
def answered(qtbot, host, script):
    """Ask and end an answer with more facts than usual; returns its id."""

    def run(*before, **facts) -> str:
        request = script.ask("Hello?")
        host.post(*(replace(event, request_id=request) for event in before))
        host.post(replace(finished(request), **facts))
        qtbot.waitUntil(lambda: not script.pane.session.runs)
        return request

    return run


def test_an_answer_shows_the_values_it_was_made_with_and_their_sources(pane, answered):
    answered(sampling=USED)
    rows = {
        name: (value.text(), source.text())
        for name, (_, value, source) in pane.inspector.answer.made.rows.items()
    }
    assert rows == {
        "temperature": ("0.70", "conversation"),
        "repetition_penalty": ("1.10", "model"),
        "seed": ("1234", "default"),
        "max_tokens": ("no limit", "default"),
        "stop": ("###", "you"),
        "apply_penalties": ("off", "you"),
        "context_policy": ("Rolling window", "you"),
    }
    assert "Repetition 1.10" in pane.inspector.answer.made.ignored.text()
    assert pane.inspector.answer.made.ignored.isVisibleTo(pane.inspector)


def test_values_of_another_answer_do_not_stay_with_one_that_has_fewer(pane, answered):
    made = pane.inspector.answer.made
    answered(sampling=USED)
    answered(sampling=USED[:1])
    shown = [name for name, row in made.rows.items() if any(label.isVisibleTo(made) for label in row)]
    assert shown == ["temperature"]
    answered(sampling=USED)
    assert all(label.isVisibleTo(made) for row in made.rows.values() for label in row)


def test_an_answer_from_before_such_values_were_kept_shows_none(pane, answered):
    answered()
    assert not pane.inspector.answer.made.isVisibleTo(pane.inspector)


def test_the_values_and_what_was_left_out_are_saved_with_the_message(pane, answered, context):
    request = answered(sampling=USED, left_out=3)
    assert "3 earlier turns left out" in pane.transcript.toPlainText()
    conversation = pane.conversation
    pane.save()
    assert context.store.close()
    again = Store(context.paths.database)
    try:
        tree = again.conversations.tree(conversation.id)
        message = next(one for one in tree.all() if one.id == request)
        assert message.result.sampling == USED
        assert message.result.left_out == 3
        assert "3 earlier turns left out" in to_markdown(conversation, tree)
    finally:
        assert again.close()


def test_how_the_draft_did_is_shown_and_saved_with_the_message(pane, answered, context):
    answered()
    assert not pane.inspector.answer.draft.isVisibleTo(pane.inspector)
    request = answered(speculation=Speculation(rounds=4, drafted=20, accepted=15))
    assert "15 of 20 drafted tokens were right (75%), in 4 rounds" in pane.inspector.answer.draft.text()
    assert "draft: 15 of 20 accepted" in pane.transcript.toPlainText()
    conversation = pane.conversation
    pane.save()
    assert context.store.close()
    again = Store(context.paths.database)
    try:
        message = next(one for one in again.conversations.tree(conversation.id).all() if one.id == request)
        assert message.result.speculation == Speculation(4, 20, 15)
    finally:
        assert again.close()


def test_the_conversation_s_own_policy_goes_with_its_requests(qtbot, pane, host, script):
    row = pane.inspector.rows["sampling.context_policy"]
    assert (row.edit.currentText(), row.source.text()) == ("Stop (as in Settings)", "default")
    row.edit.setCurrentIndex(row.edit.findData("rolling"))
    row.edit.activated.emit(row.edit.currentIndex())
    assert row.source.text() == "conversation"
    script.ask("Hello?")
    sampling = host.sent(Generate)[-1].sampling
    assert sampling.context_policy == "rolling"
    assert sampling.by_conversation == {"context_policy"}
    row.edit.activated.emit(0)
    assert pane.conversation.sampling == {}
    assert (row.edit.currentText(), row.source.text()) == ("Stop (as in Settings)", "default")


def report(first: int = 0) -> CandidatesReported:
    tokens = tuple(
        DrawnToken(
            first + index,
            7,
            " the",
            (
                Candidate(5, "\n", (3.0, 1.5 - index)),
                Candidate(7, " the", (2.0, 2.0)),
                Candidate(9, "", (1.0, 1.0)),
            ),
        )
        for index in range(3)
    )
    return CandidatesReported("", ("model", "repetition"), tokens)


def test_candidates_are_shown_token_by_token(pane, answered):
    answered(report(first=10))
    table = pane.inspector.answer.candidates
    assert table.isVisibleTo(pane.inspector)
    assert (table.place.minimum(), table.place.maximum(), table.place.value()) == (11, 13, 11)
    assert table.drawn.text() == "“ the”"
    texts = [[cell.text() for cell in cells] for cells in table.cells]
    assert texts == [
        ["", "Model", "Repet."],
        ["“⏎”", "3.00", "1.50"],
        ["“ the”", "2.00", "2.00"],
        ["#9", "1.00", "1.00"],
    ]
    assert [cells[0].property("tone") for cells in table.cells] == ["muted", "text", "accent", "text"]
    table.place.setValue(13)
    assert table.cells[1][2].text() == "-0.50"


def test_a_token_that_had_to_wait_is_marked(pane, answered):
    tokens = (DrawnToken(0, 7, " a", (Candidate(0, "", (3.0, -math.inf)), Candidate(7, " a", (2.0, 2.0)))),)
    answered(CandidatesReported("", ("model", "min_tokens"), tokens))
    texts = [[cell.text() for cell in cells] for cells in pane.inspector.answer.candidates.cells]
    assert texts == [["", "Model", "Min tok."], ["#0", "3.00", "barred"], ["“ a”", "2.00", "2.00"]]


def test_an_answer_without_a_report_shows_no_table(pane, answered):
    first = answered(report())
    answered()
    table = pane.inspector.answer.candidates
    assert not table.isVisibleTo(pane.inspector)
    pane.transcript.message_selected.emit(first)
    assert table.isVisibleTo(pane.inspector)


def test_an_answer_that_is_read_again_says_so_until_it_goes_on(qtbot, pane, host, script):
    request = script.ask("Hello?")
    script.stream(request, "First half")
    host.post(PrefillProgress(request, 2, 18, 58))
    qtbot.waitUntil(lambda: "18 of 58 tokens, 2 of them reused" in pane.transcript.toPlainText())
    script.stream(request, ", second half.")
    assert "18 of 58" not in pane.transcript.toPlainText()
    script.answer(request, " End.")
    assert "First half, second half. End." in pane.transcript.toPlainText()


def test_the_inspector_says_how_much_was_reused_and_why_no_more(pane, host, script, qtbot) -> None:
    request = script.ask("Hello?")
    host.post(replace(finished(request), reuse=Reuse(560, "edited", 540, "<b>x</b>", 3)))
    qtbot.waitUntil(lambda: not script.pane.session.runs)
    assert pane.inspector.answer.words.text() == (
        "540 of 571 prompt tokens were reused, 31 were computed because an earlier turn was edited or "
        "replaced: token 541, “<b>x</b>”, is the first that differs."
    )


SPECULATES = frozenset({"min_p", "repetition_penalty", "presence_penalty", "seed", "min_tokens"})


def test_what_a_model_with_a_draft_cannot_follow_is_disabled_and_says_why(pane, host, context, qtbot):
    rows = pane.inspector.rows
    tip = rows["sampling.seed"].edit.toolTip()
    context.preferences.set("sampling.presence_penalty", 0.5)
    context.store.conversations.update(pane.conversation.id, sampling={"sampling.min_p": 0.1})
    own = {"repetition_penalty": 1.1, "temperature": 0.6}
    host.post(ModelLoaded(info(sampling_defaults=own, sampling_not_taken=SPECULATES)))
    qtbot.waitUntil(lambda: not rows["sampling.seed"].edit.isEnabled())
    pane.inspector.show_conversation(pane.conversation)
    enabled = {key.partition(".")[2] for key, row in rows.items() if row.edit.isEnabled()}
    assert enabled >= {"temperature", "top_p", "top_k", "max_tokens", "context_policy", "min_p"}
    assert enabled & SPECULATES == {"min_p"}, "what is set can be taken away"
    assert rows["sampling.repetition_penalty"].edit.placeholderText() == "1.10"
    said = {name: rows[f"sampling.{name}"].edit.toolTip() for name in SPECULATES}
    assert all(
        "answers by speculation, which takes temperature, top-k and top-p only." in one
        for one in said.values()
    )
    assert "states itself is not applied" in said["repetition_penalty"]
    assert "in Settings" in said["presence_penalty"]
    assert "Empty it" in said["min_p"]
    assert rows["sampling.seed"].source.text() == "not taken"
    host.post(ModelLoaded(info(sampling_defaults=own)))
    qtbot.waitUntil(rows["sampling.seed"].edit.isEnabled)
    assert rows["sampling.seed"].edit.toolTip() == tip
    assert rows["sampling.seed"].source.text() == "default"


def test_what_the_model_states_and_did_not_follow_is_shown_and_saved(pane, answered, context):
    used = (
        UsedValue("temperature", 0.6, "model"),
        UsedValue("repetition_penalty", 1.1, "model", applied=False),
    )
    request = answered(sampling=used)
    assert pane.inspector.answer.made.ignored.text() == (
        "Not applied, because the model answers by speculation: Repetition 1.10."
    )
    pane.save()
    assert context.store.close()
    again = Store(context.paths.database)
    try:
        message = next(
            one for one in again.conversations.tree(pane.conversation.id).all() if one.id == request
        )
        assert message.result.sampling == used
    finally:
        assert again.close()
