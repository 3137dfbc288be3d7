"""What the tests of families share, and those of conversations' KV."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime.layout.request import LayoutRequest
from runtime.simulator.build import build_artifact
from tests.runtime.families import talk as words
from tests.runtime.families.kv_talk import NAMES, Expected, Talk
from tests.simulator.checkpoints import greedy, make_checkpoint, plain_model


@pytest.fixture
def talk() -> Iterator[Callable[..., words.Talk]]:
    """Begins a talk in words with the model of a folder, in a layout if one is given; ends it afterwards."""
    begun: list[words.Talk] = []

    def begin(folder: Path, *layout: LayoutRequest) -> words.Talk:
        begun.append(words.Talk(folder, *layout))
        return begun[-1]

    yield begin
    for one in begun:
        one.engine.close()


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("kv") / "checkpoint", "llama")


@pytest.fixture(scope="module")
def folder(checkpoint: Path) -> Path:
    made = checkpoint.parent / "artifact"
    build_artifact(checkpoint, made, max_batch_size=1, context_length=200, prefill_chunk=16)
    return made


@pytest.fixture(scope="module")
def expected(checkpoint: Path) -> Expected:
    plain = plain_model(checkpoint)
    return lambda prompt, count: greedy(plain, list(prompt), count)


@pytest.fixture
def start(folder: Path, tmp_path: Path, expected: Expected) -> Iterator[Callable[..., Talk]]:
    made: list[Talk] = []

    def start(**kv: Any) -> Talk:
        made.append(Talk(folder, tmp_path / "data", expected, **kv))
        return made[-1]

    yield start
    for talk in made:
        talk.lane.engine.close()


@pytest.fixture
def name() -> str:
    return f"kv-{next(NAMES)}"
