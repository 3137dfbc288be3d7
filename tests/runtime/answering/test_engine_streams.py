"""Requests that come, go and are stopped in any order: what the engine does with each."""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.families.base import Logits, PromptChunk
from runtime.messages import Failed, Finished, Generate, Queued, TextDelta, TextPart, Turn
from runtime.messages.chat import Priority
from runtime.sampling.params import SamplingRequest
from tests.runtime.answering.scripted import ScriptedCache, ScriptedModel
from tests.runtime.answering.test_engine import Bench

CONTEXT = 24


class Strict(ScriptedModel):
    """Never ends an answer by itself, and takes nothing beyond its context."""

    def prefill(self, chunks: Sequence[PromptChunk]) -> list[Logits]:
        assert all(chunk.end - chunk.start <= self.prefill_chunk for chunk in chunks)
        assert all(chunk.end <= self.context_length for chunk in chunks)
        return super().prefill(chunks)

    def decode(self, token_ids: Sequence[int], caches: Sequence[ScriptedCache]) -> list[Logits]:
        assert all(cache.length < self.context_length for cache in caches)
        return super().decode(token_ids, caches)


def ask(
    bench: Bench, name: str, conversation: str, prompt: int, answer: int, priority: Priority = "interactive"
) -> None:
    turns = (Turn("user", (TextPart("abcdefghijklmnopqrstuvwxyz"[:prompt]),)),)
    sampling = SamplingRequest(max_tokens=answer)
    bench.engine.handle(Generate(name, conversation, "scripted", turns, sampling, 1, priority))


@settings(max_examples=60)
@given(
    st.integers(1, 3),
    st.lists(
        st.tuples(
            st.sampled_from("abcd"),
            st.integers(1, CONTEXT - 1),
            st.integers(1, CONTEXT),
            st.booleans(),
            st.integers(0, 7),
            st.one_of(st.none(), st.integers(0, 9)),
        ),
        min_size=1,
        max_size=10,
    ),
    st.integers(1, 40),
)
def test_each_ends_once_within_its_limits_and_nothing_is_said_of_a_stopped_one(
    slots: int, work: list[tuple[str, int, int, bool, int, int | None]], call_of_stop: int
) -> None:
    with tempfile.TemporaryDirectory() as folder:
        bench = Bench(Strict(script=(1,), context_length=CONTEXT, slots=slots), Path(folder))
        said: dict[str, int] = {}

        def stop(name: str) -> None:
            if bench.marks.is_cancelled(name) or bench.of(Finished, name):
                return
            bench.marks.cancel(name)
            said[name] = len(bench.of(TextDelta, name))

        def during(call: int) -> None:
            if call == call_of_stop:
                stop("r0")

        bench.model.on_step = during
        for index, (conversation, prompt, answer, behind, steps, victim) in enumerate(work):
            ask(bench, f"r{index}", conversation, prompt, answer, "background" if behind else "interactive")
            for _ in range(steps):
                bench.engine.step()
            if victim is not None and victim <= index:
                stop(f"r{victim}")
        bench.run()
        for index, (_, prompt, answer, _, _, _) in enumerate(work):
            name = f"r{index}"
            assert bench.of(Failed, name) == []
            (finished,) = bench.of(Finished, name)
            assert finished.usage.completion <= min(answer, CONTEXT - prompt + 1)
            if name in said:
                assert finished.reason == "cancelled"
                assert len(bench.of(TextDelta, name)) == said[name]
            else:
                assert finished.reason in ("length", "context")
        bench.engine.close()


def test_a_background_answer_that_gives_way_says_so_and_goes_on(tmp_path: Path) -> None:
    bench = Bench(Strict(script=(1,), context_length=CONTEXT), tmp_path)
    ask(bench, "behind", "b", 20, 2, "background")
    for _ in range(3):
        bench.engine.step()
    ask(bench, "quick", "q", 3, 2)
    bench.run()
    assert [event.position for event in bench.of(Queued, "behind")] == [0, 1, 0]
    assert [event.position for event in bench.of(Queued, "quick")] == [0]
    assert [event.request_id for event in bench.of(Finished)] == ["quick", "behind"]
