"""Limits of an answer through the engine: shortest answers, full contexts, and what is said about them."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.messages import (
    CandidatesReported,
    Failed,
    Finished,
    MeasurePrompt,
    PrefillProgress,
    PromptMeasured,
    TextPart,
    Turn,
)
from runtime.sampling.params import SamplingRequest
from tests.runtime.answering.scripted import EOS, ScriptedModel
from tests.runtime.answering.test_engine import Bench


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Bench]:
    return lambda **options: Bench(ScriptedModel(**options), tmp_path)


def test_the_end_token_waits_for_the_shortest_answer(make: Callable[..., Bench]) -> None:
    bench = make(script=(EOS,))
    bench.ask("r", "x", sampling=SamplingRequest(min_tokens=3))
    bench.run()
    assert bench.text("r") == "AAA"
    assert bench.of(Finished, "r")[0].usage.completion == 4


def test_a_stop_string_waits_for_the_shortest_answer(make: Callable[..., Bench]) -> None:
    bench = make(script=(1, 2, 2, 3, EOS))
    bench.ask("r", "x", sampling=SamplingRequest(min_tokens=2, stop=("B",)))
    bench.run()
    assert bench.text("r") == "AB"
    assert bench.of(Finished, "r")[0].reason == "stop_string"
    assert bench.of(Finished, "r")[0].usage.completion == 3


def test_a_stop_string_may_begin_within_the_shortest_answer(make: Callable[..., Bench]) -> None:
    bench = make(script=(1, 2, 3, 4, EOS))
    bench.ask("r", "x", sampling=SamplingRequest(min_tokens=2, stop=("BC", "AB")))
    bench.run()
    assert bench.text("r") == "A"
    assert bench.of(Finished, "r")[0].reason == "stop_string"
    assert bench.of(Finished, "r")[0].usage.completion == 3


def test_a_stop_string_may_be_the_whole_answer_in_several_tokens(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.ask("r", "x", sampling=SamplingRequest(stop=("ABC",)))
    bench.run()
    assert (bench.text("r"), bench.of(Finished, "r")[0].reason) == ("", "stop_string")


def test_an_answer_of_one_token_is_one_token(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.ask("r", "x", sampling=SamplingRequest(max_tokens=1))
    bench.run()
    assert (bench.text("r"), bench.of(Finished, "r")[0].reason) == ("A", "length")


def test_a_shortest_answer_beyond_the_longest_is_refused_in_words(make: Callable[..., Bench]) -> None:
    bench = make(defaults={"max_tokens": 2})
    bench.ask("r", "x", sampling=SamplingRequest(min_tokens=3))
    bench.run()
    error = bench.of(Failed, "r")[0].error
    assert error.code == "setting.invalid"
    assert "(3 tokens)" in error.summary
    assert "(2)" in error.summary


def test_an_answer_says_with_which_values_it_was_made_and_whose_they_are(make: Callable[..., Bench]) -> None:
    bench = make(defaults={"temperature": 0.0, "repetition_penalty": 1.2})
    asked = SamplingRequest(top_k=4, min_p=0.1, seed=7, by_conversation=frozenset({"min_p"}))
    bench.ask("r", "x", sampling=asked)
    bench.run()
    used = {one.name: (one.value, one.source) for one in bench.of(Finished, "r")[0].sampling}
    assert used["temperature"] == (0.0, "model")
    assert used["repetition_penalty"] == (1.2, "model")
    assert used["top_k"] == (4, "you")
    assert used["min_p"] == (0.1, "conversation")
    assert used["top_p"] == (1.0, "default")
    assert used["seed"] == (7, "you")
    assert used["max_tokens"] == (None, "default")
    assert used["apply_penalties"] == (True, "default")


def test_the_seed_that_was_thrown_is_told_and_repeats_the_answer(make: Callable[..., Bench]) -> None:
    bench = make(script=(1,), defaults={"temperature": 2.0})
    bench.ask("r1", "x", sampling=SamplingRequest(max_tokens=20))
    bench.run()
    seed = next(one for one in bench.of(Finished, "r1")[0].sampling if one.name == "seed")
    assert seed.source == "default"
    bench.ask("r2", "x", conversation="d", sampling=SamplingRequest(max_tokens=20, seed=seed.value))
    bench.run()
    assert bench.text("r2") == bench.text("r1")


def test_penalties_that_are_off_are_logged_once_a_load_and_without_the_prompt(
    make: Callable[..., Bench], caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.WARNING, logger="runtime")
    bench = make(defaults={"repetition_penalty": 1.2})
    for name in ("r1", "r2"):
        bench.ask(
            name, "secret", sampling=SamplingRequest(apply_penalties=False, presence_penalty=0.5, seed=1)
        )
        bench.run()
    (record,) = caplog.records
    assert record.getMessage() == ("Penalties are off; ignored: repetition_penalty 1.2, presence_penalty 0.5")


# -- the context ------------------------------------------------------------------------------------


TURNS = ("aaaa", "bbbb", "cccc", "dddd", "eeee")


@pytest.mark.parametrize(
    ("policy", "prompt", "left_out"), [("drop_middle", "aaaabbbbeeee", 2), ("rolling", "ccccddddeeee", 2)]
)
def test_earlier_turns_are_left_out_when_a_prompt_is_too_long(
    make: Callable[..., Bench], policy: str, prompt: str, left_out: int
) -> None:
    bench = make(context_length=16)
    rendered: list[str] = []
    render = bench.model.render
    bench.model.render = lambda turns: rendered.append(render(turns)) or rendered[-1]
    bench.ask("r", *TURNS, sampling=SamplingRequest(context_policy=policy))
    bench.run()
    (finished,) = bench.of(Finished, "r")
    assert (finished.reason, finished.left_out, finished.usage.prompt) == ("end", left_out, 12)
    assert prompt in rendered
    assert bench.text("r") == "ABC"


def test_a_last_message_that_is_too_long_is_refused_by_every_policy(make: Callable[..., Bench]) -> None:
    for policy in ("stop", "drop_middle", "rolling"):
        bench = make(context_length=16)
        bench.ask("r", *TURNS[:4], "x" * 40, sampling=SamplingRequest(context_policy=policy))
        bench.run()
        assert bench.of(Failed, "r")[0].error.code == "request.context_full"


@pytest.mark.parametrize(
    ("policy", "turns", "way"),
    [
        ("stop", ("aaaa", "bbbb", "x" * 12), "have earlier turns left out"),
        ("drop_middle", ("aaaa", "bbbb", "x" * 12), "choose the rolling window"),
        ("drop_middle", ("x" * 20,), "start a new chat."),
    ],
)
def test_what_is_refused_names_the_way_that_is_left(
    make: Callable[..., Bench], policy: str, turns: tuple[str, ...], way: str
) -> None:
    bench = make(context_length=16)
    bench.ask("r", *turns, sampling=SamplingRequest(context_policy=policy))
    bench.run()
    remedy = bench.of(Failed, "r")[0].error.remedy
    assert way in remedy
    assert ("Settings" in remedy) == (len(turns) > 1)
    bench = make(context_length=16)
    bench.ask("r", *turns, sampling=SamplingRequest(context_policy="rolling"))
    bench.run()
    assert bool(bench.of(Failed, "r")) == (len(turns) == 1), "what is named helps"


def test_a_rolling_answer_goes_on_while_earlier_turns_can_go(make: Callable[..., Bench]) -> None:
    bench = make(script=(1,), context_length=20)
    bench.ask("r", "aaaa", "bbbb", "cccc", sampling=SamplingRequest(context_policy="rolling"))
    bench.run()
    (finished,) = bench.of(Finished, "r")
    assert bench.text("r") == "A" * 16
    assert (finished.reason, finished.left_out) == ("context", 2)
    assert (finished.usage.prompt, finished.usage.completion) == (12, 16)
    # Everything after the shared start was read again in chunks, the answer so far with it: 4 + 8 positions.
    decoded = [kind for kind, _ in bench.model.calls].index("decode")
    assert [count for kind, count in bench.model.calls[decoded:] if kind == "prefill"] == [4, 4, 4]


def test_a_rolling_answer_keeps_to_its_own_limit(make: Callable[..., Bench]) -> None:
    bench = make(script=(1,), context_length=20)
    asked = SamplingRequest(context_policy="rolling", max_tokens=11)
    bench.ask("r", "aaaa", "bbbb", "cccc", sampling=asked)
    bench.run()
    assert bench.of(Finished, "r")[0].reason == "length"
    assert bench.text("r") == "A" * 11


def test_a_rolling_answer_can_be_stopped_while_it_is_read_again(make: Callable[..., Bench]) -> None:
    bench = make(script=(1,), context_length=20)
    bench.ask("r", "aaaa", "bbbb", "cccc", sampling=SamplingRequest(context_policy="rolling"))
    while len(bench.of(PrefillProgress)) < 5:
        bench.engine.step()
    bench.marks.cancel("r")
    bench.run()
    assert bench.of(Finished, "r")[0].reason == "cancelled"
    assert bench.text("r") == "A" * 8


def measure(bench: Bench, *texts: str, policy: str) -> PromptMeasured:
    roles = ("user", "assistant")
    turns = tuple(Turn(roles[i % 2], (TextPart(text),)) for i, text in enumerate(texts))
    bench.engine.handle(MeasurePrompt("m", "scripted", turns, SamplingRequest(context_policy=policy)))
    return bench.events[-1]


def test_a_prompt_is_measured_before_it_is_sent(make: Callable[..., Bench]) -> None:
    bench = make(context_length=16)
    assert measure(bench, "aaaa", policy="stop") == PromptMeasured("m", 4, 16, 0, True)
    assert measure(bench, *TURNS, policy="stop") == PromptMeasured("m", 20, 16, 0, False)
    assert measure(bench, *TURNS, policy="rolling") == PromptMeasured("m", 20, 16, 2, True)
    bench.engine.handle(MeasurePrompt("m2", "another", (), SamplingRequest()))
    assert bench.of(Failed, "m2")[0].error.code == "request.model_not_loaded"


# -- candidates -------------------------------------------------------------------------------------


def test_the_likeliest_tokens_are_reported_before_and_after_each_penalty(make: Callable[..., Bench]) -> None:
    bench = make(script=(1, 1, EOS))
    asked = SamplingRequest(report_candidates=True, repetition_penalty=2.0, frequency_penalty=0.25)
    bench.ask("r", "x", sampling=asked)
    bench.run()
    kinds = [type(event) for event in bench.events]
    assert kinds.index(CandidatesReported) < kinds.index(Finished)
    (report,) = bench.of(CandidatesReported, "r")
    assert report.stages == ("model", "repetition", "frequency")
    first, second = report.tokens[:2]
    assert (first.index, first.token_id, first.text) == (0, 1, "A")
    assert first.candidates[0].logits == (1.0, 1.0, 1.0)  # not seen yet
    assert len(first.candidates) == 5
    assert second.candidates[0].logits == (1.0, 0.5, 0.25)  # seen once: halved, then a quarter off


def test_no_report_is_made_unless_it_is_asked_for(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.ask("r", "x")
    bench.run()
    assert not bench.of(CandidatesReported)
