"""Answers about pictures that have to be read again: their KV is lost, or the context is full."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from math import isqrt
from pathlib import Path
from typing import Any

import pytest
import torch

from runtime.families.decode_stream import DecodeStream
from runtime.images import load_for_model
from runtime.messages import Finished, Turn
from runtime.sampling.params import SamplingRequest
from runtime.simulator.build import build_artifact
from tests import tiny_qwen2_vl, tiny_qwen3_vl
from tests.runtime.families import test_aya_vision
from tests.runtime.families.pictured import inputs_of, said, saved, user
from tests.runtime.families.test_image_text import TOKENS, Session, open_session
from tests.simulator.pictures import counted

CONTEXT = 256
KINDS = ("qwen2_vl", "qwen2_vl static", "qwen3_vl", "qwen3_vl static", "aya_vision")
ROLLING = SamplingRequest(temperature=0.0, max_tokens=400, context_policy="rolling")


@dataclass
class Model:
    """An artifact of a small context, and what plain transformers answers."""

    plain: Any
    processor: Any
    artifact: Path
    side: int
    """Of the only picture a static model takes; 0 for a dynamic one."""

    @property
    def static(self) -> bool:
        return self.side > 0

    def batch(self, turns: Sequence[Turn], longest: int) -> Any:
        def read(path: str) -> Any:
            picture = load_for_model(path, longest)
            if self.static:  # by way of 224, as the vendor's processor does
                return picture.resize((224, 224)).resize((self.side, self.side))
            return picture

        return inputs_of(self.processor, turns, read)

    def answer(
        self, turns: Sequence[Turn], count: int, so_far: Sequence[int] = (), longest: int = 1536
    ) -> list[int]:
        """The greedy answer's next tokens, if it began with those."""
        batch = dict(self.batch(turns, longest))
        ids = torch.cat([batch["input_ids"], torch.tensor([list(so_far)], dtype=torch.long)], dim=1)
        batch |= {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
        if "mm_token_type_ids" in batch:
            kinds = batch["mm_token_type_ids"]
            batch["mm_token_type_ids"] = torch.nn.functional.pad(kinds, (0, len(so_far)))
        if self.static and "pixel_values" in batch:
            return counted(self.plain, batch, count)[ids.shape[1] :]
        with torch.inference_mode():
            output = self.plain.generate(**batch, max_new_tokens=count, do_sample=False)
        return list(output[0, ids.shape[1] :].tolist())

    def text(self, tokens: Sequence[int]) -> str:
        stream = DecodeStream(self.processor.tokenizer)
        return "".join([stream.push(token) for token in tokens]) + stream.finish()


@pytest.fixture(scope="module")
def model_of(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Model]:
    made: dict[str, Model] = {}

    def model_of(kind: str) -> Model:
        if kind not in made:
            made[kind] = make_model(kind, tmp_path_factory.mktemp("again"))
        return made[kind]

    return model_of


def make_model(kind: str, folder: Path) -> Model:
    from transformers import AutoModelForImageTextToText, AutoProcessor

    checkpoint = folder / "checkpoint"
    family, _, static = kind.partition(" ")
    if family == "aya_vision":
        test_aya_vision.write_checkpoint(checkpoint)
    elif family == "qwen2_vl":
        tiny_qwen2_vl.make_checkpoint(checkpoint)
    else:
        tiny_qwen3_vl.make_checkpoint(checkpoint)
    side = {"qwen2_vl": 224, "qwen3_vl": 256}[family] if static else 0
    options = {"image_side": side} if static else {}
    plain = AutoModelForImageTextToText.from_pretrained(checkpoint).eval()
    processor = AutoProcessor.from_pretrained(checkpoint)
    with torch.no_grad():  # no mark is ever answered: to the reference one would be a picture, or the end
        plain.get_output_embeddings().weight[list(processor.tokenizer.added_tokens_decoder)] = 0
    plain.save_pretrained(checkpoint)
    build_artifact(checkpoint, folder / "artifact", prefill_chunk=32, context_length=CONTEXT, **options)
    return Model(plain, processor, folder / "artifact", side)


@pytest.fixture(params=KINDS)
def model(request: pytest.FixtureRequest, model_of: Callable[[str], Model]) -> Model:
    return model_of(request.param)


@pytest.fixture
def session(model: Model) -> Iterator[Session]:
    session = open_session(model.artifact)
    yield session
    session.engine.close()


def lose_kv(session: Session, conversation: str) -> None:
    """As after a board that was taken away: what is in host memory is not whole."""
    entries = dict(session.engine._loaded.caches._caches.entries())  # type: ignore[union-attr]
    entries[conversation].cache.layers[0]._host_valid_len = 3  # type: ignore[attr-defined]


def step_aside(session: Session, name: str) -> None:
    """Another question takes the slot, and the KV of the one that gave way is lost."""
    session.submit(user("Hello"), conversation=f"quick {name}")
    while "behind" not in in_host_memory(session):
        assert session.engine.step()
    lose_kv(session, "behind")


def in_host_memory(session: Session) -> list[str]:
    entries = session.engine._loaded.caches._caches.entries()  # type: ignore[union-attr]
    return [name for name, entry in entries if entry.cache.get_seq_length() and not entry.cache.is_resident]


def run(session: Session, steps: int | None = None) -> None:
    for _ in itertools.count() if steps is None else range(steps):
        if not session.engine.step():
            return


# -- its KV is lost ------------------------------------------------------------------------------


@pytest.mark.parametrize("steps", [(2,), (5,), (12,), (12, 40)], ids=str)
def test_an_answer_whose_kv_is_lost_while_it_gives_way_goes_on(
    model: Model, session: Session, tmp_path: Path, steps: tuple[int, ...]
) -> None:
    turn = user("What?", saved(tmp_path, 84, 56))
    behind = session.submit(turn, conversation="behind", priority="background")
    for index, count in enumerate(steps):  # in the prompt, early and late in the answer, and twice
        run(session, count)
        step_aside(session, str(index))
    run(session)
    expected = model.text(model.answer([turn], TOKENS))
    assert session.text(behind) == expected
    end = session.end(behind)
    assert isinstance(end, Finished)
    assert (end.reason, end.usage.completion) == ("length", TOKENS)
    next_turn = (turn, said(expected), user("And?"))
    assert session.ask(*next_turn, conversation="behind").text == model.text(model.answer(next_turn, TOKENS))


# -- the context is full -------------------------------------------------------------------------


def test_a_long_answer_goes_on_without_the_oldest_picture(
    model: Model, session: Session, tmp_path: Path
) -> None:
    one, other = saved(tmp_path, 84, 56), saved(tmp_path, 56, 84, seed=1)
    kept = user("Two?") if model.static else user("Two?", other)  # a static model takes one picture in all
    turns = (user("What?", one), said("Noise, I think."), kept)
    rolls(model, session, turns, turns[2:])


def test_a_long_answer_keeps_the_picture_it_is_about(model: Model, session: Session, tmp_path: Path) -> None:
    picture = saved(tmp_path, 84, 56)
    turns = (user("Hello there, how are you?"), said("Fine, and you?"), user("What?", picture))
    rolls(model, session, turns, turns[2:])


def rolls(model: Model, session: Session, turns: Sequence[Turn], kept: Sequence[Turn]) -> None:
    """The answer fills the context, goes on after `kept` only, and ends when that is full."""
    before, after = (len(model.batch(some, 1536)["input_ids"][0]) for some in (turns, kept))
    context = session.info.context_length
    filled = model.answer(turns, context - before)
    more = model.answer(kept, context - after - len(filled), filled)
    assert len(more) > 8
    outcome = session.ask(*turns, sampling=ROLLING)
    assert outcome.text == model.text([*filled, *more])
    assert (outcome.finished.reason, outcome.finished.left_out) == ("context", len(turns) - len(kept))
    assert outcome.finished.usage.prompt == before


def test_a_rolling_answer_whose_kv_is_lost_goes_on_where_it_was(
    model: Model, session: Session, tmp_path: Path
) -> None:
    picture = saved(tmp_path, 84, 56)
    turns = (user("Hello there, how are you?"), said("Fine, and you?"), user("What?", picture))
    undisturbed = session.ask(*turns, conversation="alone", sampling=ROLLING)
    assert undisturbed.finished.left_out == 2
    behind = session.submit(*turns, conversation="behind", priority="background", sampling=ROLLING)
    running = None
    while running is None or not running.left_out:
        assert session.engine.step()
        (running,) = [one.running for one in session.engine._scheduler._active.values()]
    run(session, 20)  # read again, and some tokens further
    step_aside(session, "late")
    run(session)
    assert session.text(behind) == undisturbed.text
    end = session.end(behind)
    assert isinstance(end, Finished)
    assert end.usage.completion == undisturbed.finished.usage.completion


@pytest.mark.parametrize("model", ["qwen2_vl", "qwen3_vl"], indirect=True)
def test_pictures_that_stay_keep_their_size(model: Model, session: Session, tmp_path: Path) -> None:
    """Grown into the room of those that go, they would be other pictures, and nothing would be won."""
    pictures = [saved(tmp_path, 300, 300, seed) for seed in range(2)]
    unit = 28 if "Qwen2VL" in type(model.processor).__name__ else 32
    longest = isqrt(CONTEXT // 2 // 2) * unit
    turns = (user("What?", pictures[0]), said("Noise."), user("And?", pictures[1]))
    before, after = (len(model.batch(some, longest)["input_ids"][0]) for some in (turns, turns[2:]))
    filled = model.answer(turns, CONTEXT - before, longest=longest)
    more = model.answer(turns[2:], CONTEXT - after - len(filled), filled, longest)
    outcome = session.ask(*turns, sampling=ROLLING)
    assert outcome.text == model.text([*filled, *more])
    assert outcome.spans.count("encode image") == 2, "the one that stays is not looked at again"
