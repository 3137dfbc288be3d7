"""A request whose numbers go bad fails alone; those that share the device with it are answered as ever."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from runtime.families.base import PromptChunk
from runtime.messages import Failed, Finished, ModelFailed
from runtime.simulator.build import build_artifact
from runtime.simulator.faults import FAULTS, Fault
from tests.runtime.families.numbers import COUNT, K, Lane, Numbers
from tests.simulator.checkpoints import greedy, make_checkpoint, plain_model

PROMPTS = ([3, 1, 4], [2, 7, 1, 8], [1, 4, 1, 4, 2])


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("poisoned") / "checkpoint", "llama")


@pytest.fixture
def lane(checkpoint: Path) -> Iterator[Lane]:
    artifact = checkpoint.parent / "artifact"
    if not artifact.exists():
        build_artifact(checkpoint, artifact, max_batch_size=K, context_length=96, prefill_chunk=16)
    lane = Lane(artifact)
    yield lane
    FAULTS.clear()
    lane.engine.close()


@pytest.mark.parametrize("call", [1, 2, 6, 9])
def test_a_call_that_the_runtime_refuses_once_costs_no_answer_but_that_of_its_only_request(
    lane: Lane, checkpoint: Path, call: int
) -> None:
    FAULTS.inject(Fault("refused", nth=call))
    plain = plain_model(checkpoint)
    for number, prompt in enumerate(PROMPTS):
        lane.ask(f"r{number}", f"c{number}", prompt)
    lane.run()
    failed = {event.request_id: event.error.code for event in lane.events if isinstance(event, Failed)}
    # The first two calls are of one request alone; a step for several is done again one by one.
    assert list(failed.values()) == ["device"] * (call <= 2)
    assert not [event for event in lane.events if isinstance(event, ModelFailed)]
    for number, prompt in enumerate(PROMPTS):
        if f"r{number}" not in failed:
            assert lane.answer(f"r{number}") == greedy(plain, prompt, COUNT)


@pytest.mark.parametrize("poisoned", [0, 1, 2])
def test_a_poisoned_prompt_fails_and_the_others_of_the_batch_do_not(
    lane: Lane, checkpoint: Path, poisoned: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    prefill = Numbers.prefill
    faults = [Fault("nan_logits")]

    def poisonous(model: Numbers, chunks: Sequence[PromptChunk]) -> Any:
        if chunks[0].prompt.token_ids == PROMPTS[poisoned] and faults:
            FAULTS.inject(faults.pop())
        return prefill(model, chunks)

    monkeypatch.setattr(Numbers, "prefill", poisonous)
    plain = plain_model(checkpoint)
    for number, prompt in enumerate(PROMPTS):
        lane.ask(f"r{number}", f"c{number}", prompt)
    lane.run()
    ended = {event.request_id: event for event in lane.events if isinstance(event, Failed | Finished)}
    bad = ended[f"r{poisoned}"]
    assert isinstance(bad, Failed)
    assert bad.error.code == "request.bad_logits"
    for number, prompt in enumerate(PROMPTS):
        if number != poisoned:
            assert lane.answer(f"r{number}") == greedy(plain, prompt, COUNT)
    lane.ask("again", f"c{poisoned}", PROMPTS[poisoned])
    lane.run()
    assert lane.answer("again") == greedy(plain, PROMPTS[poisoned], COUNT)
