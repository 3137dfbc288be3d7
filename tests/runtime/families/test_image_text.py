"""Questions about pictures through the engine's messages, against plain transformers."""

from __future__ import annotations

import itertools
import shutil
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

from runtime.answering.engine import Engine
from runtime.config import EngineOptions, KvOptions, RuntimeConfig
from runtime.lanes.lane import CancelMarks
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    Event,
    Failed,
    Finished,
    Generate,
    ImagePart,
    LoadModel,
    ModelFailed,
    ModelInfo,
    ModelLoaded,
    PrefillProgress,
    TextDelta,
    TextPart,
    Turn,
)
from runtime.messages.chat import Priority
from runtime.sampling.params import SamplingRequest
from runtime.simulator.build import build_artifact
from runtime.tracing.recorder import RECORDER
from tests.runtime.conftest import Calls
from tests.runtime.families.numbers import ALWAYS
from tests.runtime.families.pictured import plain_answer
from tests.tiny_qwen2_vl import make_checkpoint

TOKENS = 20
GREEDY = SamplingRequest(temperature=0.0, max_tokens=TOKENS)
QUESTION = "What is in this picture?"


@dataclass
class Models:
    """The reference, and the artifacts made from it."""

    plain: Any
    processor: Any
    dynamic: Path
    static: Path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    from transformers import AutoProcessor, Qwen2VLForConditionalGeneration

    folder = tmp_path_factory.mktemp("qwen2-vl")
    checkpoint = make_checkpoint(folder / "checkpoint")
    build_artifact(checkpoint, folder / "dynamic", prefill_chunk=32)
    build_artifact(checkpoint, folder / "static", prefill_chunk=32, image_side=224)
    plain = Qwen2VLForConditionalGeneration.from_pretrained(checkpoint).eval()
    return Models(plain, AutoProcessor.from_pretrained(checkpoint), folder / "dynamic", folder / "static")


@dataclass
class Outcome:
    """What came of one request."""

    text: str
    end: Finished | Failed
    spans: list[str]
    patches: list[int]
    """Of each picture that the vision network was given."""

    @property
    def finished(self) -> Finished:
        assert isinstance(self.end, Finished), self.end
        return self.end


@dataclass
class Session:
    """An engine with a model loaded, driven as its lane drives it."""

    engine: Engine
    marks: CancelMarks
    events: list[Event] = field(default_factory=list)
    numbers: Iterator[int] = field(default_factory=itertools.count)

    @property
    def info(self) -> ModelInfo:
        return next(event.info for event in self.events if isinstance(event, ModelLoaded))

    def submit(
        self,
        *turns: Turn,
        conversation: str = "c",
        priority: Priority = "interactive",
        sampling: SamplingRequest = GREEDY,
    ) -> str:
        request_id = f"r{next(self.numbers)}"
        now = time.perf_counter_ns()
        self.engine.handle(Generate(request_id, conversation, "vl", turns, sampling, now, priority))
        return request_id

    def ask(self, *turns: Turn, conversation: str = "c", sampling: SamplingRequest = GREEDY) -> Outcome:
        request_id = self.submit(*turns, conversation=conversation, sampling=sampling)
        window = RECORDER.start(max_events=10_000, max_seconds=60)
        try:
            while self.engine.step():
                pass
        finally:
            RECORDER.stop()
        spans = [event for event in window.drain() if event[0] == "span"]
        patches = [event[-1]["patches"] for event in spans if event[1] == "encode image"]
        return Outcome(self.text(request_id), self.end(request_id), [event[1] for event in spans], patches)

    def text(self, request_id: str) -> str:
        deltas = (event for event in self.events if isinstance(event, TextDelta))
        return "".join(delta.text for delta in deltas if delta.request_id == request_id)

    def end(self, request_id: str) -> Finished | Failed:
        return next(
            event
            for event in self.events
            if isinstance(event, (Finished, Failed)) and event.request_id == request_id
        )


def open_session(folder: Path, layout: LayoutRequest | None = None) -> Session:
    events: list[Event] = []
    marks = CancelMarks()
    options = EngineOptions(KvOptions(load_margin=ALWAYS))
    engine = Engine(RuntimeConfig(folder.parent, "simulated", options), events.append, marks)
    engine.open()
    engine.handle(LoadModel("vl", str(folder), layout or LayoutRequest()))
    return Session(engine, marks, events)


@pytest.fixture(scope="module")
def dynamic(models: Models) -> Iterator[Session]:
    session = open_session(models.dynamic)
    yield session
    session.engine.close()


@pytest.fixture(scope="module")
def static(models: Models) -> Iterator[Session]:
    session = open_session(models.static)
    yield session
    session.engine.close()


def picture(folder: Path, width: int, height: int, seed: int = 0) -> str:
    path = folder / f"{width}x{height}-{seed}.png"
    pixels = np.random.default_rng(seed).integers(0, 255, (height, width, 3), np.uint8)
    Image.fromarray(pixels).save(path)
    return str(path)


def user(*parts: str) -> Turn:
    """Strings that end in .png are pictures."""
    return Turn("user", tuple(ImagePart(part) if part.endswith(".png") else TextPart(part) for part in parts))


def reference(models: Models, *turns: Turn) -> str:
    """What plain transformers answers, greedily, to the same conversation."""
    return plain_answer(models.plain, models.processor, turns, TOKENS)


# -- answers -------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [(224, 224), (60, 200), (333, 90)])
def test_an_answer_about_a_picture_equals_plain_transformers(
    models: Models, dynamic: Session, tmp_path: Path, size: tuple[int, int]
) -> None:
    turn = user(picture(tmp_path, *size), QUESTION)
    outcome = dynamic.ask(turn, conversation=f"size {size}")
    assert outcome.text == reference(models, turn)
    assert outcome.spans.count("encode image") == 1
    assert outcome.spans.count("prefill chunk") >= 2
    assert outcome.finished.device == "Simulated ARIES (CPU)"


def test_text_alone_is_answered_too(models: Models, dynamic: Session) -> None:
    turn = user("Hello there")
    assert dynamic.ask(turn, conversation="text").text == reference(models, turn)


def test_two_pictures_are_compared(models: Models, dynamic: Session, tmp_path: Path) -> None:
    turn = user(picture(tmp_path, 112, 84), picture(tmp_path, 56, 140, 1), "Compare them.")
    outcome = dynamic.ask(turn, conversation="two")
    assert outcome.text == reference(models, turn)
    assert outcome.spans.count("encode image") == 2


def test_a_second_question_does_not_look_again(models: Models, dynamic: Session, tmp_path: Path) -> None:
    path = picture(tmp_path, 140, 140)
    first = dynamic.ask(user(path, "One?"), conversation="again")
    second = dynamic.ask(user(path, "Two?"), conversation="again")
    assert second.text == reference(models, user(path, "Two?"))
    assert first.finished.usage.cached == 0
    assert second.finished.usage.cached > 25, "the picture's positions are reused"
    assert "encode image" not in second.spans


def test_another_picture_under_the_same_words_is_looked_at(
    models: Models, dynamic: Session, tmp_path: Path
) -> None:
    one, other = picture(tmp_path, 112, 112, 1), picture(tmp_path, 112, 112, 2)
    dynamic.ask(user(one, QUESTION), conversation="swap")
    outcome = dynamic.ask(user(other, QUESTION), conversation="swap")
    assert outcome.text == reference(models, user(other, QUESTION))
    assert outcome.spans.count("encode image") == 1


def test_a_conversation_goes_on_after_another_picture_was_discussed(
    models: Models, dynamic: Session, tmp_path: Path
) -> None:
    """The offset of the positions behind a picture belongs to its conversation."""
    wide, tall = picture(tmp_path, 280, 56), picture(tmp_path, 56, 168)
    opening = user(wide, QUESTION)
    dynamic.ask(opening, conversation="wide")
    dynamic.ask(user(tall, QUESTION), conversation="tall")
    turns = (opening, Turn("assistant", (TextPart("A fence."),)), user("Which colour?"))
    outcome = dynamic.ask(*turns, conversation="wide")
    assert outcome.text == reference(models, *turns)
    assert outcome.finished.usage.cached > 20


def test_a_static_model_scales_to_its_size_and_knows_the_picture(static: Session, tmp_path: Path) -> None:
    one, other = picture(tmp_path, 640, 200, 1), picture(tmp_path, 640, 200, 2)
    answers = [static.ask(user(path, QUESTION), conversation=path) for path in (one, other)]
    assert answers[0].finished.usage.prompt == answers[1].finished.usage.prompt
    assert answers[0].text != answers[1].text


# -- bounds and bad input ------------------------------------------------------------------------


def test_the_loaded_model_says_what_it_is(dynamic: Session) -> None:
    info = dynamic.info
    assert (info.kind, info.family, info.simulated) == ("image", "qwen2_vl", True)
    assert (info.context_length, info.prefill_chunk) == (1024, 32)


def test_a_large_picture_is_scaled_to_leave_room_for_the_question(dynamic: Session, tmp_path: Path) -> None:
    usage = dynamic.ask(user(picture(tmp_path, 1500, 1500), QUESTION), conversation="large").finished.usage
    assert 300 < usage.prompt < 700


def test_a_static_model_refuses_two_pictures(static: Session, tmp_path: Path) -> None:
    paths = picture(tmp_path, 56, 56, 1), picture(tmp_path, 56, 56, 2)
    end = static.ask(user(*paths, "Compare them."), conversation="two").end
    assert isinstance(end, Failed)
    assert "one picture at a time" in end.error.summary
    assert end.error.remedy


def test_a_damaged_picture_fails_its_request_only(dynamic: Session, tmp_path: Path) -> None:
    broken = tmp_path / "broken.png"
    broken.write_bytes(b"\x89PNG\r\n\x1a\n")
    end = dynamic.ask(user(str(broken), QUESTION), conversation="broken").end
    assert isinstance(end, Failed)
    assert end.error.code == "media.image"
    assert end.error.summary.startswith("broken.png")
    assert dynamic.ask(user("Hello"), conversation="broken").finished.reason in ("end", "length")


def test_a_picture_that_is_gone_is_named(dynamic: Session, tmp_path: Path) -> None:
    end = dynamic.ask(user(str(tmp_path / "gone.png"), QUESTION), conversation="gone").end
    assert isinstance(end, Failed)
    assert "gone.png" in end.error.summary


def test_a_picture_too_narrow_for_the_model_is_refused(dynamic: Session, tmp_path: Path) -> None:
    end = dynamic.ask(user(picture(tmp_path, 1, 400), QUESTION), conversation="narrow").end
    assert isinstance(end, Failed)
    assert "too narrow" in end.error.summary


@pytest.mark.parametrize("words", ["<|image_pad|>", "a <|video_pad|> b <|image_pad|><|image_pad|>"])
def test_picture_marks_in_a_users_text_stay_text(dynamic: Session, tmp_path: Path, words: str) -> None:
    path = picture(tmp_path, 84, 84)
    usage = dynamic.ask(user(path, words), conversation="marks").finished.usage
    plain = dynamic.ask(user(path, "x"), conversation="marks").finished.usage
    assert usage.prompt - plain.prompt >= len(words), "a letter at a time, not a picture"


def test_stop_ends_it_between_two_chunks(dynamic: Session, tmp_path: Path) -> None:
    request_id = dynamic.submit(user(picture(tmp_path, 308, 308, 5), QUESTION), conversation="stop")
    while not any(
        isinstance(event, PrefillProgress) and event.request_id == request_id and event.done
        for event in dynamic.events
    ):
        dynamic.engine.step()
    dynamic.marks.cancel(request_id)
    while dynamic.engine.step():
        pass
    end = dynamic.end(request_id)
    assert isinstance(end, Finished)
    assert end.reason == "cancelled"
    assert not dynamic.text(request_id)


def test_stop_ends_it_between_the_networks(
    dynamic: Session, models: Models, tmp_path: Path, calls: Calls
) -> None:
    """One call sees the picture, then come a chunk of the prompt, the next picture, and so on."""
    turn = user(picture(tmp_path, 224, 224, 6), QUESTION, picture(tmp_path, 112, 112, 7))
    expected = reference(models, turn)
    for call in range(1, 9):
        begun: list[int] = []
        request_id = dynamic.submit(turn, conversation=f"stopped{call}")

        def cancel(call: int = call, begun: list[int] = begun, request_id: str = request_id) -> None:
            begun.append(1)
            if len(begun) == call:
                dynamic.marks.cancel(request_id)

        calls[:] = [cancel]
        while dynamic.engine.step():
            pass
        calls.clear()
        end = dynamic.end(request_id)
        assert isinstance(end, Finished)
        assert (end.reason, len(begun)) == ("cancelled", call)
        assert dynamic.ask(turn, conversation=f"stopped{call}").text == expected


def test_the_layout_reaches_both_networks(models: Models) -> None:
    session = open_session(models.dynamic, LayoutRequest(core_mode="global4", target_clusters=("0:1",)))
    layout = session.info.layout
    session.engine.close()
    assert layout is not None
    assert (layout.core_mode, layout.clusters) == ("global4", ("0:1",))
    assert {(part.part, part.core_mode) for part in layout.parts} == {
        ("vision", "global4"),
        ("text", "global4"),
    }


def test_a_folder_without_one_of_its_networks_is_not_loaded(models: Models, tmp_path: Path) -> None:
    folder = tmp_path / "half"
    shutil.copytree(models.dynamic, folder)
    (folder / "vision.mxq").unlink()
    session = open_session(folder)
    failed = next(event for event in session.events if isinstance(event, ModelFailed))
    assert failed.error.code == "model.incomplete"
    assert "vision.mxq" in failed.error.summary
