"""The engine's behaviour through its commands and events, on a scripted model."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

from runtime.answering.engine import Engine
from runtime.config import RuntimeConfig
from runtime.errors import DeviceLostError, DeviceMemoryError, ModelDamagedError
from runtime.lanes.lane import CancelMarks
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    Event,
    Failed,
    Finished,
    ForgetConversation,
    Generate,
    LoadModel,
    ModelFailed,
    ModelLoaded,
    ModelUnloaded,
    PrefillProgress,
    Queued,
    TextDelta,
    TextPart,
    Turn,
    UnloadModel,
)
from runtime.sampling.params import SamplingRequest
from tests.runtime.answering.scripted import EOS, ScriptedModel


class Bench:
    """An engine, its events, and the means to run it until it is idle."""

    def __init__(self, model: ScriptedModel, tmp_path: Path) -> None:
        self.events: list[Event] = []
        self.marks = CancelMarks()
        self.model = model
        self.engine = Engine(
            RuntimeConfig(tmp_path), self.events.append, self.marks, load=lambda *_: self.model
        )
        self.engine.open()
        self.engine.handle(LoadModel("scripted", "", LayoutRequest()))

    def ask(
        self, request_id: str, *texts: str, conversation: str = "c", sampling: SamplingRequest | None = None
    ) -> None:
        roles = ("user", "assistant")
        turns = tuple(Turn(roles[i % 2], (TextPart(text),)) for i, text in enumerate(texts))
        self.engine.handle(
            Generate(request_id, conversation, "scripted", turns, sampling or SamplingRequest(), 1)
        )

    def run(self) -> None:
        while self.engine.step():
            pass

    def of(self, kind: type, request_id: str | None = None) -> list:
        return [
            event
            for event in self.events
            if isinstance(event, kind) and (request_id is None or event.request_id == request_id)
        ]

    def text(self, request_id: str) -> str:
        return "".join(event.text for event in self.of(TextDelta, request_id))


@pytest.fixture
def make(tmp_path: Path) -> Callable[..., Bench]:
    return lambda **options: Bench(ScriptedModel(**options), tmp_path)


def test_an_answer_streams_and_ends_at_the_end_token(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.ask("r", "hello")
    bench.run()
    assert bench.text("r") == "ABC"
    (finished,) = bench.of(Finished, "r")
    assert finished.reason == "end"
    assert (finished.usage.prompt, finished.usage.cached, finished.usage.completion) == (5, 0, 4)


def test_a_prompt_is_prefilled_in_chunks_and_says_how_far_it_is(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.ask("r", "0123456789")
    bench.run()
    assert bench.model.calls[:3] == [("prefill", 4), ("prefill", 4), ("prefill", 2)]
    assert [event.done for event in bench.of(PrefillProgress)] == [0, 4, 8, 10]


def test_the_second_turn_computes_only_what_is_new(make: Callable[..., Bench]) -> None:
    bench = make(script=(1, 2, EOS))
    bench.ask("r1", "abcdefg")
    bench.run()
    bench.model.calls.clear()
    # The scripted answer "AB" tokenises back to other ids than it was made of, so only the prompt is shared.
    bench.ask("r2", "abcdefg", "xy", "more")
    bench.run()
    assert [count for kind, count in bench.model.calls if kind == "prefill"] == [4, 2]
    (finished,) = bench.of(Finished, "r2")
    assert (finished.usage.cached, finished.usage.new) == (7, 6)


def test_the_same_prompt_again_still_computes_its_last_token(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.ask("r1", "same")
    bench.run()
    bench.ask("r2", "same")
    bench.run()
    assert bench.of(Finished, "r2")[0].usage.cached == 3
    assert bench.text("r2") == "ABC"


def test_conversations_do_not_share_a_cache(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.ask("r1", "same", conversation="one")
    bench.ask("r2", "same", conversation="two")
    bench.run()
    assert bench.of(Finished, "r2")[0].usage.cached == 0


def test_stop_takes_effect_within_one_step(make: Callable[..., Bench]) -> None:
    bench = make(script=(1,))
    bench.ask("r", "hi")
    for _ in range(6):
        bench.engine.step()
    before = len(bench.model.calls)
    bench.marks.cancel("r")
    bench.run()
    assert len(bench.model.calls) == before
    (finished,) = bench.of(Finished, "r")
    assert finished.reason == "cancelled"
    assert bench.text("r") == "A" * finished.usage.completion
    assert not bench.marks.is_cancelled("r")


def test_a_queued_request_can_be_cancelled_before_it_starts(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.ask("r1", "one")
    bench.ask("r2", "two", conversation="d")
    bench.marks.cancel("r2")
    bench.run()
    assert bench.of(Finished, "r2")[0].reason == "cancelled"
    assert bench.of(Finished, "r2")[0].usage.prompt == 0
    assert bench.of(Finished, "r1")[0].reason == "end"


def test_waiting_requests_learn_their_place(make: Callable[..., Bench]) -> None:
    bench = make()
    for name in ("r1", "r2", "r3"):
        bench.ask(name, "x", conversation=name)
    bench.engine.step()
    assert [event.position for event in bench.of(Queued, "r3")] == [2]
    bench.run()
    assert [event.position for event in bench.of(Queued, "r3")] == [2, 1, 0]


def test_a_cancelled_answer_leaves_a_cache_that_is_right(make: Callable[..., Bench]) -> None:
    bench = make(script=(1, 2, 3, 4, 5, EOS))
    bench.ask("r1", "hello")
    for _ in range(5):
        bench.engine.step()
    bench.marks.cancel("r1")
    bench.run()
    bench.ask("r2", "hello")
    bench.run()
    assert bench.text("r2") == "ABCDE"


def test_a_token_limit_and_the_context_are_told_apart(make: Callable[..., Bench]) -> None:
    bench = make(script=(1,), context_length=10)
    bench.ask("r1", "hello", sampling=SamplingRequest(max_tokens=2))
    bench.ask("r2", "hello", conversation="d")
    bench.run()
    assert bench.of(Finished, "r1")[0].reason == "length"
    assert bench.text("r1") == "AA"
    assert bench.of(Finished, "r2")[0].reason == "context"
    assert bench.of(Finished, "r2")[0].usage.completion == 5


def test_a_prompt_over_the_context_is_refused_in_words(make: Callable[..., Bench]) -> None:
    bench = make(context_length=8)
    bench.ask("r", "far too long a prompt")
    bench.run()
    (failed,) = bench.of(Failed, "r")
    assert failed.error.code == "request.context_full"
    assert "21 tokens" in failed.error.summary
    assert failed.error.remedy


def test_a_stop_string_ends_the_answer_before_it_shows(make: Callable[..., Bench]) -> None:
    bench = make(script=(1, 2, 3, 4, EOS))
    bench.ask("r", "x", sampling=SamplingRequest(stop=("BC",)))
    bench.run()
    assert bench.text("r") == "A"
    assert bench.of(Finished, "r")[0].reason == "stop_string"


def test_text_held_back_for_a_stop_string_is_shown_at_the_end(make: Callable[..., Bench]) -> None:
    bench = make(script=(1, 2, EOS))
    bench.ask("r", "x", sampling=SamplingRequest(stop=("BZ",)))
    bench.run()
    assert bench.text("r") == "AB"


def test_asking_a_model_that_is_not_loaded_says_so(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.engine.handle(UnloadModel("scripted"))
    bench.ask("r", "x")
    bench.run()
    assert bench.of(Failed, "r")[0].error.code == "request.model_not_loaded"


def test_a_request_without_a_message_is_refused_in_words(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.engine.handle(Generate("r", "c", "scripted", (), SamplingRequest(), 1))
    bench.run()
    assert bench.of(Failed, "r")[0].error.summary == "There is no message to answer."


def test_who_asks_a_model_that_failed_hears_why(tmp_path: Path) -> None:
    def load(*_: object) -> ScriptedModel:
        raise DeviceMemoryError("It does not fit.", remedy="Unload another model.")

    events: list[Event] = []
    engine = Engine(RuntimeConfig(tmp_path), events.append, CancelMarks(), load=load)
    engine.handle(LoadModel("scripted", "", LayoutRequest()))
    turns = (Turn("user", (TextPart("hello"),)),)
    engine.handle(Generate("r", "c", "scripted", turns, SamplingRequest(), 1))
    while engine.step():
        pass
    (error,) = (event.error for event in events if isinstance(event, Failed))
    assert (error.code, error.summary, error.remedy) == (
        "request.model_not_loaded",
        "The model is not loaded. It does not fit.",
        "Unload another model.",
    )


def test_a_bad_sampling_value_fails_its_request_only(make: Callable[..., Bench]) -> None:
    bench = make()
    bench.ask("bad", "x", sampling=SamplingRequest(top_p=1.5))
    bench.ask("good", "x", conversation="d")
    bench.run()
    assert bench.of(Failed, "bad")[0].error.code == "setting.invalid"
    assert "1.5" in bench.of(Failed, "bad")[0].error.summary
    assert bench.of(Finished, "good")[0].reason == "end"


def test_bad_numbers_fail_the_request_and_drop_its_cache(
    make: Callable[..., Bench], monkeypatch: pytest.MonkeyPatch
) -> None:
    bench = make()
    good = bench.model._next
    monkeypatch.setattr(bench.model, "_next", lambda _: np.full(64, np.nan, np.float32))
    bench.ask("r1", "hello")
    bench.run()
    assert bench.of(Failed, "r1")[0].error.code == "request.bad_logits"
    monkeypatch.setattr(bench.model, "_next", good)
    bench.ask("r2", "hello")
    bench.run()
    assert bench.of(Finished, "r2")[0].usage.cached == 0
    assert bench.text("r2") == "ABC"


def test_a_lost_device_fails_everything_queued_and_asks_for_a_reload(make: Callable[..., Bench]) -> None:
    def lose(step: int) -> None:
        if step == 2:
            raise DeviceLostError("The device was lost.", remedy="Check the cable.")

    bench = make(on_step=lose)
    bench.ask("r1", "x")
    bench.ask("r2", "x", conversation="d")
    bench.run()
    assert [bench.of(Failed, name)[0].error.code for name in ("r1", "r2")] == ["device.lost"] * 2
    assert bench.of(ModelFailed)[0].model_id == "scripted"
    assert bench.model.disposed
    bench.model = ScriptedModel()
    bench.engine.handle(LoadModel("scripted", "", LayoutRequest()))
    bench.ask("r3", "x")
    bench.run()
    assert bench.text("r3") == "ABC"


def test_an_unexpected_fault_fails_one_request_with_details(make: Callable[..., Bench]) -> None:
    def break_once(step: int) -> None:
        if step == 1:
            raise KeyError("surprise")

    bench = make(on_step=break_once)
    bench.ask("r1", "x")
    bench.ask("r2", "x")
    bench.run()
    (failed,) = bench.of(Failed, "r1")
    assert failed.error.code == "internal"
    assert "Traceback" in failed.error.detail
    assert "Traceback" not in failed.error.sentence()
    assert bench.of(Finished, "r2")


def test_a_model_that_cannot_be_loaded_is_told_apart(tmp_path: Path) -> None:
    events: list[Event] = []

    def refuse(*_: object) -> ScriptedModel:
        raise ModelDamagedError("The file x is damaged.", remedy="Fetch it again.")

    engine = Engine(RuntimeConfig(tmp_path), events.append, CancelMarks(), load=refuse)
    engine.handle(LoadModel("m", "", LayoutRequest()))
    (failed,) = (event for event in events if isinstance(event, ModelFailed))
    assert failed.error.code == "model.damaged"


def test_loading_another_model_ends_the_first_one_cleanly(make: Callable[..., Bench]) -> None:
    bench = make(script=(1,))
    first = bench.model
    bench.ask("r", "x")
    bench.engine.step()
    bench.model = ScriptedModel()
    bench.engine.handle(LoadModel("scripted", "", LayoutRequest()))
    assert bench.of(Finished, "r")[0].reason == "cancelled"
    assert first.disposed
    assert len(bench.of(ModelUnloaded)) == 1
    assert len(bench.of(ModelLoaded)) == 2


def test_forgetting_a_conversation_stops_it_and_drops_its_cache(make: Callable[..., Bench]) -> None:
    bench = make(script=(1,))
    bench.ask("r1", "hello")
    for _ in range(5):
        bench.engine.step()
    bench.engine.handle(ForgetConversation("c"))
    assert bench.of(Finished, "r1")[0].reason == "cancelled"
    bench.ask("r2", "hello", sampling=SamplingRequest(max_tokens=1))
    bench.run()
    assert bench.of(Finished, "r2")[0].usage.cached == 0


def test_every_request_ends_exactly_once(make: Callable[..., Bench]) -> None:
    bench = make(script=(1, 2, EOS))
    names = [f"r{index}" for index in range(6)]
    for name in names:
        bench.ask(name, "hello", conversation=name)
    bench.marks.cancel("r3")
    for _ in range(4):
        bench.engine.step()
    bench.marks.cancel("r0")
    bench.run()
    bench.engine.close()
    for name in names:
        assert len(bench.of(Finished, name)) + len(bench.of(Failed, name)) == 1
