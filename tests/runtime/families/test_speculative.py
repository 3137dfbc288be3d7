"""EAGLE-3 through the engine: rounds of tokens that are the base's own, and what they may be asked for."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from runtime.layout.request import LayoutRequest
from runtime.messages import Finished, PrefillProgress, TextDelta
from runtime.simulator.build import build_artifact
from runtime.simulator.faults import FAULTS, Fault
from tests.runtime.conftest import Calls
from tests.runtime.families.talk import Talk, prompt_ids, save_tokenizer
from tests.simulator.checkpoints import greedy, plain_model
from tests.simulator.drafts import make_agreeing_pair, make_base, make_draft

AGREEING = "agreeing"
FAMILIES = ("llama", "qwen2", "qwen3", AGREEING)
COUNT = 24
FIRST = [(7 * number) % 120 + 5 for number in range(37)]
SECOND = [90, 17, 44]


@dataclass
class Pair:
    """A base in plain transformers, and the artifact with its draft."""

    base: Path
    artifact: Path

    def greedy(self, turns: list[list[int]], count: int = COUNT) -> list[int]:
        return greedy(plain_model(self.base), prompt_ids(turns), count)


@pytest.fixture(scope="module")
def pairs(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Pair]:
    made = {}
    for family in FAMILIES:
        folder = tmp_path_factory.mktemp(family)
        if family == AGREEING:
            base, draft = make_agreeing_pair(folder)
        else:
            base, draft = make_base(folder / "base", family), make_draft(folder / "draft")
        save_tokenizer(base)
        build_artifact(base, folder / "out", draft_dir=draft, context_length=192, prefill_chunk=16)
        made[family] = Pair(base, folder / "out")
    return made


Begin = Callable[..., Talk]


@pytest.mark.parametrize("family", FAMILIES)
def test_two_turns_are_the_bases_own_and_the_second_reuses_the_first(
    family: str, pairs: dict[str, Pair], talk: Begin
) -> None:
    pair, chat = pairs[family], talk(pairs[family].artifact)
    first, one = chat.ask("turns/1", [FIRST], max_tokens=COUNT)
    assert first == pair.greedy([FIRST])
    chat.ask("other", [SECOND])  # takes the slots of base and draft
    second, two = chat.ask("turns/2", [FIRST, first, SECOND], max_tokens=COUNT)
    assert second == pair.greedy([FIRST, first, SECOND])
    assert (one.usage.cached, two.usage.cached) == (0, one.usage.prompt - 1)


def test_a_draft_that_agrees_gives_several_tokens_a_step(pairs: dict[str, Pair], talk: Begin) -> None:
    chat = talk(pairs[AGREEING].artifact)
    chat.send("rounds", [FIRST], max_tokens=COUNT + 1)
    while not any(isinstance(event, TextDelta) for event in chat.events):
        chat.engine.step()
    steps = 0
    while not any(isinstance(event, Finished) for event in chat.events):
        chat.engine.step()
        steps += 1
    assert steps == COUNT // 6, "five drafted and one drawn each time"
    _, finished = chat.answer("rounds")
    assert finished.speculation is not None
    assert finished.speculation.rounds == steps
    # The last round may not draft past the end of the answer.
    assert finished.speculation.accepted == finished.speculation.drafted == COUNT - steps


def test_a_draft_that_knows_nothing_is_counted_too(pairs: dict[str, Pair], talk: Begin) -> None:
    _, finished = talk(pairs["llama"].artifact).ask("count", [FIRST], max_tokens=COUNT)
    told = finished.speculation
    assert told is not None
    assert told.rounds + told.accepted == COUNT - 1, "each round draws one, and the prompt the first"
    assert told.accepted < told.drafted


def test_a_prompt_is_read_in_chunks_and_can_be_stopped_between_them(
    pairs: dict[str, Pair], talk: Begin
) -> None:
    chat = talk(pairs["qwen3"].artifact)
    chat.send("stopped/1", [FIRST])
    for _ in range(3):
        chat.engine.step()
    chat.marks.cancel("stopped/1")
    chat.run()
    read = [e.done for e in chat.events if isinstance(e, PrefillProgress)]
    assert read == [0, 16, 32]
    assert chat.answer("stopped/1")[1].reason == "cancelled"
    again, finished = chat.ask("stopped/2", [FIRST])
    assert again == pairs["qwen3"].greedy([FIRST], 12)
    assert finished.usage.cached == 32


@pytest.mark.parametrize("family", ["llama", AGREEING])
def test_a_cancel_lets_no_other_call_begin_and_spoils_nothing(
    family: str, pairs: dict[str, Pair], talk: Begin, calls: Calls
) -> None:
    """Two chunks of the prompt, then rounds: ended in every call of them, one conversation after another."""
    pair, chat = pairs[family], talk(pairs[family].artifact)
    wanted = pair.greedy([FIRST])
    for call in range(1, 25):
        chat.send(f"c{call}/1", [FIRST], max_tokens=COUNT)
        assert chat.cancel_in_call(f"c{call}/1", call, calls) == call
        again, finished = chat.ask(f"c{call}/2", [FIRST], max_tokens=COUNT)
        assert (again, finished.usage.cached > 0) == (wanted, call >= 3), call


def test_an_answer_that_gives_way_goes_on_with_its_draft(pairs: dict[str, Pair], talk: Begin) -> None:
    pair, chat = pairs["qwen2"], talk(pairs["qwen2"].artifact)
    chat.send("behind", [FIRST], "background", max_tokens=COUNT)
    for _ in range(8):
        chat.engine.step()
    chat.send("quick", [SECOND])
    chat.run()
    ended = [event.request_id for event in chat.events if isinstance(event, Finished)]
    assert ended == ["quick", "behind"]
    assert chat.answer("quick")[0] == pair.greedy([SECOND], 12)
    assert chat.answer("behind")[0] == pair.greedy([FIRST])


def test_an_answer_may_fill_the_context_and_roll_on(pairs: dict[str, Pair], talk: Begin) -> None:
    chat = talk(pairs[AGREEING].artifact)
    full, finished = chat.ask("full", [FIRST], max_tokens=None)
    assert chat.info.context_length == 192 - 8 * 4, "a draft's branches take room"
    room = chat.info.context_length - finished.usage.prompt
    assert finished.reason == "context"
    assert full == pairs[AGREEING].greedy([FIRST], room)
    turns = [FIRST, SECOND, FIRST]
    rolled, finished = chat.ask("rolled", turns, max_tokens=110, context_policy="rolling")
    assert (finished.reason, finished.left_out, len(rolled)) == ("length", 2, 110)


def test_a_stop_string_ends_the_answer_in_the_middle_of_a_round(pairs: dict[str, Pair], talk: Begin) -> None:
    pair, chat = pairs[AGREEING], talk(pairs[AGREEING].artifact)
    whole = pair.greedy([FIRST])
    cut = next(index for index in (3, 4, 5) if whole[index] not in whole[:index])
    part, finished = chat.ask("cut/1", [FIRST], max_tokens=COUNT, stop=(f" t{whole[cut]} ",))
    assert (part, finished.reason) == (whole[:cut], "stop_string")
    second, _ = chat.ask("cut/2", [FIRST, part, SECOND], max_tokens=COUNT)
    assert second == pair.greedy([FIRST, part, SECOND])


def test_sampled_answers_come_from_the_values_that_rounds_know(pairs: dict[str, Pair], talk: Begin) -> None:
    chat = talk(pairs["llama"].artifact)
    values: dict[str, Any] = {"temperature": 5.0 / 4, "top_k": 40, "top_p": 0.95}
    answers = {tuple(chat.ask(f"drawn{n}", [FIRST], **values)[0]) for n in range(4)}
    assert len(answers) > 1
    narrow, finished = chat.ask("narrow", [FIRST], temperature=1.0, top_k=1)
    assert narrow == pairs["llama"].greedy([FIRST], 12)
    assert {one.name for one in finished.sampling} == {
        "temperature",
        "top_k",
        "top_p",
        "max_tokens",
        "stop",
        "context_policy",
    }


@pytest.mark.parametrize(
    ("values", "title"),
    [
        ({"min_p": 0.1}, "Min-p"),
        ({"seed": 3}, "Seed"),
        ({"min_tokens": 2}, "Shortest answer"),
        ({"repetition_penalty": 1.1}, "Repetition penalty"),
        ({"presence_penalty": 0.5}, "Presence penalty"),
        ({"frequency_penalty": -0.5}, "Frequency penalty"),
        ({"report_candidates": True}, "Report candidates"),
    ],
)
def test_what_rounds_do_not_know_is_refused_by_its_name(
    values: dict[str, Any], title: str, pairs: dict[str, Pair], talk: Begin
) -> None:
    chat = talk(pairs["llama"].artifact)
    chat.send("refused", [SECOND], **values)
    chat.run()
    error = chat.failure("refused").error
    assert error.code == "setting.invalid"
    assert title in error.summary
    assert title in error.remedy
    assert chat.ask("allowed", [SECOND])[0] == pairs["llama"].greedy([SECOND], 12)


def test_values_that_ask_for_nothing_are_no_reason_to_refuse(pairs: dict[str, Pair], talk: Begin) -> None:
    chat = talk(pairs["llama"].artifact)
    neutral = {"min_p": 0.0, "repetition_penalty": 1.0, "min_tokens": 0}
    assert chat.ask("neutral", [SECOND], **neutral)[0] == pairs["llama"].greedy([SECOND], 12)
    off = {"repetition_penalty": 1.3, "apply_penalties": False}
    assert chat.ask("off", [SECOND], **off)[0] == pairs["llama"].greedy([SECOND], 12)


def test_what_the_model_states_itself_is_not_refused_but_said_not_to_be_applied(
    pairs: dict[str, Pair], talk: Begin, tmp_path: Path
) -> None:
    folder = tmp_path / "stating"
    shutil.copytree(pairs["llama"].artifact, folder)
    stated = {"repetition_penalty": 1.3, "min_p": 0.1, "min_new_tokens": 12, "top_k": 40}
    (folder / "generation_config.json").write_text(json.dumps(stated))
    chat = talk(folder)
    assert chat.info.sampling_defaults["repetition_penalty"] == 1.3
    assert {"min_p", "repetition_penalty", "seed"} <= chat.info.sampling_not_taken
    assert not {"temperature", "top_k", "top_p", "max_tokens"} & chat.info.sampling_not_taken
    text, finished = chat.ask("stated", [SECOND])
    assert text == pairs["llama"].greedy([SECOND], 12)
    used = {one.name: one for one in finished.sampling}
    for name in ("repetition_penalty", "min_p"):
        assert (used[name].source, used[name].applied) == ("model", False)
    assert used["top_k"].applied
    assert "seed" not in used
    chat.send("refused", [SECOND], repetition_penalty=1.2)
    chat.run()
    assert "Repetition penalty" in chat.failure("refused").error.summary


@pytest.mark.parametrize("steps", [1, 5])
@pytest.mark.parametrize("temperature", [0.0, 1.0])
def test_numbers_no_token_can_be_drawn_from_fail_the_answer_in_words(
    temperature: float, steps: int, pairs: dict[str, Pair], talk: Begin
) -> None:
    chat = talk(pairs[AGREEING].artifact)
    chat.send("bad/1", [FIRST], temperature=temperature, max_tokens=COUNT)
    for _ in range(steps):
        chat.engine.step()
    FAULTS.inject(Fault("nan_logits", times=50))
    try:
        chat.run()
    finally:
        FAULTS.clear()
    assert chat.failure("bad/1").error.code == "request.bad_logits"
    again, finished = chat.ask("bad/2", [FIRST], max_tokens=COUNT)
    assert again == pairs[AGREEING].greedy([FIRST])
    assert finished.usage.cached == 0, "what was computed with bad numbers is not trusted"


def test_the_layout_reaches_all_three_networks(pairs: dict[str, Pair], talk: Begin) -> None:
    chat = talk(pairs["llama"].artifact, LayoutRequest(core_mode="single", target_cores=("0:1:2",)))
    layout = chat.info.layout
    assert layout is not None
    assert (layout.core_mode, layout.cores, layout.models) == ("single", ("0:1:2",), 1)
    assert [part.cores for part in layout.parts] == [("0:1:2",)] * 3
    refused = talk(pairs["llama"].artifact, LayoutRequest(max_batch_size=2))
    assert "one conversation at a time, not 2" in refused.refusal
