"""An answer that outgrows its context and goes on, on a real small model, against plain transformers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.messages import Generate, PrefillProgress, TextPart, Turn
from runtime.sampling.params import SamplingRequest
from runtime.simulator.build import build_artifact
from tests.runtime.families.numbers import K, Lane
from tests.simulator.checkpoints import greedy, make_checkpoint, plain_model

CONTEXT = 96
SYSTEM, FIRST, REPLY, LAST = [3, 4], list(range(10, 40)), list(range(50, 60)), list(range(60, 80))
ROLLING = SamplingRequest(temperature=0.0, max_tokens=200, context_policy="rolling")


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("rolling") / "checkpoint", "llama")


@pytest.fixture(scope="module")
def lane(checkpoint: Path) -> Iterator[Lane]:
    made = checkpoint.parent / "artifact"
    build_artifact(checkpoint, made, max_batch_size=K, context_length=CONTEXT, prefill_chunk=16)
    lane = Lane(made)
    yield lane
    lane.engine.close()


def ask(lane: Lane, name: str, *turns: tuple[str, list[int]]) -> None:
    said = tuple(Turn(role, (TextPart(" ".join(map(str, ids))),)) for role, ids in turns)  # type: ignore[arg-type]
    lane.engine.handle(Generate(name, name, "tiny", said, ROLLING, 1))


def test_it_goes_on_as_if_the_left_out_turns_had_never_been(lane: Lane, checkpoint: Path) -> None:
    ask(lane, "long", ("system", SYSTEM), ("user", FIRST), ("assistant", REPLY), ("user", LAST))
    lane.ask("beside", "beside", FIRST, count=60)
    lane.run()
    plain = plain_model(checkpoint)
    before = [*SYSTEM, *FIRST, *REPLY, *LAST]
    filled = greedy(plain, before, CONTEXT - len(before))
    after = [*SYSTEM, *LAST, *filled]
    assert lane.answer("long") == filled + greedy(plain, after, CONTEXT - len(after))
    finished = lane.finished("long")
    assert (finished.reason, finished.left_out) == ("context", 2)
    assert finished.usage.prompt == len(before)
    # Another conversation in the same calls is not disturbed.
    assert lane.answer("beside") == greedy(plain, FIRST, 60)


def test_reading_again_keeps_the_shared_start_and_says_so(lane: Lane) -> None:
    ask(lane, "again", ("system", SYSTEM), ("user", FIRST), ("assistant", REPLY), ("user", LAST))
    lane.run()
    progress = [e for e in lane.events if isinstance(e, PrefillProgress) and e.request_id == "again"]
    assert all(event.cached <= event.done <= event.total for event in progress)
    assert progress[-1].cached == len(SYSTEM)
