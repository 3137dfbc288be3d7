"""KV of every kind of model: drafts, mixtures and pictures, back from memory and over a restart.

A restart is an engine of its own on the same folders; the one before is not closed, as if it had been killed.
Answers are those of an engine that has never seen the conversation; other tests compare these with plain
transformers.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.answering.engine import Engine
from runtime.config import EngineOptions, KvOptions, RuntimeConfig
from runtime.families import vendor_caches
from runtime.lanes.lane import CancelMarks
from runtime.layout.request import LayoutRequest
from runtime.messages import Event, Finished, Generate, LoadModel, TextDelta, Turn
from runtime.sampling.params import SamplingRequest
from runtime.simulator.build import build_artifact
from tests import tiny_qwen2_vl, tiny_qwen3_vl
from tests.runtime.families.numbers import ALWAYS, turn
from tests.runtime.families.pictured import said, user
from tests.runtime.families.talk import save_tokenizer
from tests.runtime.families.test_aya_vision import write_checkpoint as write_aya
from tests.runtime.families.test_caption import write_checkpoint as write_blip
from tests.simulator.drafts import make_agreeing_pair, make_base, make_draft
from tests.simulator.pictures import noise
from tests.simulator.test_qwen3_moe import LAYERS, make_moe

NAMES = map(str, itertools.count())
TEXT = ("eagle3", "eagle3-agreeing", "qwen3_moe")
PICTURES = ("qwen2_vl", "qwen3_vl", "aya_vision")
FIRST = " ".join(f"t{(7 * number) % 120 + 5}" for number in range(37))


class Program:
    """The engine as one start of the program has it."""

    def __init__(self, model: Path, data: Path, **kv: object) -> None:
        self.events: list[Event] = []
        options = EngineOptions(KvOptions(**{"load_margin": ALWAYS, **kv}))  # type: ignore[arg-type]
        self.engine = Engine(RuntimeConfig(data, "simulated", options), self.events.append, CancelMarks())
        self.engine.handle(LoadModel("tiny", str(model), LayoutRequest()))

    def ask(self, conversation: str, *turns: Turn) -> tuple[str, Finished]:
        request = next(NAMES)
        sampling = SamplingRequest(temperature=0.0, max_tokens=12)
        self.engine.handle(Generate(request, conversation, "tiny", turns, sampling, 1))
        while turn(self.engine):
            pass
        mine = [event for event in self.events if getattr(event, "request_id", None) == request]
        assert isinstance(mine[-1], Finished), mine[-1]
        return "".join(event.text for event in mine if isinstance(event, TextDelta)), mine[-1]


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    root, made = tmp_path_factory.mktemp("families"), set[str]()

    def artifact(family: str) -> Path:
        folder = root / family
        if family not in made:
            _build(family, folder)
            made.add(family)
        return folder / "artifact"

    return artifact


def _build(family: str, folder: Path) -> None:
    source, target = folder / "checkpoint", folder / "artifact"
    if family == "eagle3":
        base, draft = make_base(folder / "base", "llama"), make_draft(folder / "draft")
        save_tokenizer(base)
        build_artifact(base, target, draft_dir=draft, context_length=192, prefill_chunk=16)
    elif family == "eagle3-agreeing":
        base, draft = make_agreeing_pair(folder)
        save_tokenizer(base)
        build_artifact(base, target, draft_dir=draft, context_length=192, prefill_chunk=16)
    elif family == "qwen3_moe":
        make_moe(source)
        save_tokenizer(source)
        build_artifact(source, target, context_length=160, prefill_chunk=16)
    else:
        makers = {
            "qwen2_vl": tiny_qwen2_vl.make_checkpoint,
            "qwen3_vl": tiny_qwen3_vl.make_checkpoint,
            "aya_vision": write_aya,
            "blip": write_blip,
        }
        makers[family](source)
        build_artifact(source, target, prefill_chunk=16 if family in ("aya_vision", "blip") else 32)


@pytest.fixture
def start(artifacts: Callable[[str], Path], tmp_path: Path) -> Iterator[Callable[..., Program]]:
    begun: list[Program] = []

    def begin(family: str, data: str = "data", **kv: object) -> Program:
        begun.append(Program(artifacts(family), tmp_path / data, **kv))
        return begun[-1]

    yield begin
    for program in begun:
        program.engine.close()


def opening(family: str, folder: Path, seed: int = 0) -> Turn:
    if family in TEXT:
        return user(FIRST)
    path = folder / f"{seed}.png"
    noise(56, 84, seed).save(path)
    return user("What is in this picture?", path)


@pytest.mark.parametrize("family", [*TEXT, *PICTURES])
def test_a_conversation_comes_back_from_memory_and_the_time_is_learnt(
    family: str, start: Callable[..., Program], tmp_path: Path
) -> None:
    program, name = start(family), f"{family}-{next(NAMES)}"
    first = opening(family, tmp_path)
    text, before = program.ask(name, first)
    program.ask(f"{name}-other", user("t9 t8"))  # takes the slots
    assert program.engine._loaded.caches._costs.load_seconds(1000) is None
    turns = (first, said(text), user("t90 t17 t44"))
    again, finished = program.ask(name, *turns)
    assert program.engine._loaded.caches._costs.load_seconds(1000) > 0
    assert finished.usage.cached >= before.usage.prompt - 1
    assert again == start(family, "fresh").ask(f"{name}-fresh", *turns)[0]


@pytest.mark.parametrize("family", ["eagle3", "qwen3_moe", "qwen2_vl"])
def test_every_network_is_loaded_and_saving_the_one_before_is_not_counted(
    family: str, start: Callable[..., Program], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, name = start(family), f"{family}-{next(NAMES)}"
    program.ask(name, opening(family, tmp_path))
    program.ask(f"{name}-other", user("t9 t8"))
    saved, evict = [0], vendor_caches._evict_owner

    def slowly(*slot: Any) -> None:
        saved[0] += 1
        time.sleep(0.1)
        evict(*slot)

    monkeypatch.setattr(vendor_caches, "_evict_owner", slowly)
    cache = dict(program.engine._loaded.caches._caches.entries())[name].cache
    assert not cache.is_resident
    assert 0 < vendor_caches.load(cache) < 0.1
    assert saved[0] == {"eagle3": 2, "qwen3_moe": LAYERS}.get(family, 1)
    assert cache.is_resident


@pytest.mark.parametrize("family", [*TEXT, *PICTURES])
def test_a_conversation_goes_on_after_the_program_was_killed(
    family: str, start: Callable[..., Program], tmp_path: Path
) -> None:
    name, first = f"{family}-{next(NAMES)}", opening(family, tmp_path)
    text, before = start(family, keep_on_disk=True).ask(name, first)
    program = start(family, keep_on_disk=True)
    turns = (first, said(text), user("t90 t17 t44"))
    again, finished = program.ask(name, *turns)
    assert finished.reuse is not None
    assert finished.reuse.from_disk
    assert finished.usage.cached >= before.usage.prompt - 1
    fresh = start(family, "fresh")
    assert again == fresh.ask(f"{name}-fresh", *turns)[0]
    # And from the middle of what came from the disk.
    edited = (first, said("t5"), user("t90"))
    assert start(family, keep_on_disk=True).ask(name, *edited)[0] == fresh.ask(f"{name}-edited", *edited)[0]


@pytest.mark.parametrize("family", PICTURES)
def test_another_picture_is_not_taken_for_the_one_that_was_kept(
    family: str, start: Callable[..., Program], tmp_path: Path
) -> None:
    name, one, other = f"{family}-{next(NAMES)}", opening(family, tmp_path), opening(family, tmp_path, 1)
    start(family, keep_on_disk=True).ask(name, one)
    text, finished = start(family, keep_on_disk=True).ask(name, other)
    assert finished.reuse is not None
    assert finished.reuse.cause == "image"
    assert finished.usage.cached < finished.usage.prompt // 2
    assert text == start(family, "fresh").ask(f"{name}-fresh", other)[0]


@pytest.mark.parametrize("family", ["eagle3", "qwen3_moe"])
def test_one_damaged_network_is_enough_to_compute_again(
    family: str, start: Callable[..., Program], tmp_path: Path
) -> None:
    name, first = f"{family}-{next(NAMES)}", opening(family, tmp_path)
    text, _ = start(family, keep_on_disk=True).ask(name, first)
    file = sorted((tmp_path / "data" / "kv").glob("*/*/data-*/*/*.bin"))[-1]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    again, finished = start(family, keep_on_disk=True).ask(name, first)
    assert finished.reuse is not None
    assert (again, finished.usage.cached, finished.reuse.cause) == (text, 0, "rejected")


@pytest.mark.parametrize("family", [*TEXT, *PICTURES])
def test_both_times_are_measured_around_a_question_and_no_answer_changes(
    family: str, start: Callable[..., Program], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    program, name = start(family, calibrate=True, block=16, calibration_blocks=(1, 2, 4)), f"m-{family}"
    for _ in range(9):  # in the middle of a length
        assert turn(program.engine)
    first = opening(family, tmp_path)
    text, _ = program.ask(name, first)  # and goes on measuring
    turns = (first, said(text), user("t90 t17 t44"))
    again, finished = program.ask(name, *turns)
    costs = program.engine._loaded.caches._costs
    assert set(costs._prefill) >= {16, 32, 64}
    assert costs.load_seconds(1000) > 0
    assert caplog.records == []
    assert finished.usage.cached > 0
    assert again == start(family, "fresh").ask(f"{name}-fresh", *turns)[0]


def test_a_model_whose_kv_nobody_reuses_is_not_measured(
    start: Callable[..., Program], caplog: pytest.LogCaptureFixture
) -> None:
    program = start("blip", calibrate=True, block=16, calibration_blocks=(1, 2))
    assert not turn(program.engine)
    assert caplog.records == []


def test_what_no_second_answer_could_use_is_not_written(
    start: Callable[..., Program], tmp_path: Path
) -> None:
    program = start("blip", keep_on_disk=True)
    program.ask("captions", opening("blip", tmp_path))
    program.engine.close()
    assert not (tmp_path / "data" / "kv").exists()
