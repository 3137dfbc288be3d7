"""EXAONE, Cohere and a mixture of experts through the engine, against plain transformers."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from runtime import simulator
from runtime.device.active import activate
from runtime.layout.request import LayoutRequest
from runtime.messages import ModelFailed, ModelUnloaded, UnloadModel
from runtime.simulator.build import build_artifact
from runtime.simulator.faults import FAULTS, Fault
from tests.runtime.conftest import Calls
from tests.runtime.families.talk import Talk, prompt_ids, save_tokenizer
from tests.simulator.checkpoints import greedy, make_checkpoint, plain_model
from tests.simulator.test_qwen3_moe import make_moe

FAMILIES = ("exaone", "exaone4", "exaone4-sliding", "cohere2", "qwen3_moe")
FIRST = [(7 * number) % 120 + 5 for number in range(37)]
SECOND = [90, 17, 44]


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """For each family a checkpoint, and beside it the artifact."""
    root = tmp_path_factory.mktemp("families")
    for family in FAMILIES:
        source = root / family / "checkpoint"
        if family == "qwen3_moe":
            make_moe(source)
        else:
            make_checkpoint(source, family)
        save_tokenizer(source)
        build_artifact(source, root / family / "artifact", context_length=160, prefill_chunk=16)
    return root


@pytest.mark.parametrize("family", FAMILIES)
def test_two_turns_equal_plain_transformers_and_the_second_reuses_the_first(
    family: str, folders: Path, talk: Callable[..., Talk]
) -> None:
    chat, plain = talk(folders / family / "artifact"), plain_model(folders / family / "checkpoint")
    assert chat.info.family == family.removesuffix("-sliding")
    first, one = chat.ask("turns/1", [FIRST])
    assert first == greedy(plain, prompt_ids([FIRST]), 12)
    chat.ask("other", [SECOND])  # takes the only slot
    second, two = chat.ask("turns/2", [FIRST, first, SECOND])
    assert second == greedy(plain, prompt_ids([FIRST, first, SECOND]), 12)
    # The template opens an answer with another token than a turn, so all up to there is reused.
    assert two.usage.cached == one.usage.prompt - 1
    assert one.usage.cached == 0


def test_a_mixture_says_where_it_runs_and_how_much_it_holds(folders: Path, talk: Callable[..., Talk]) -> None:
    chat = talk(folders / "qwen3_moe" / "artifact")
    layout = chat.info.layout
    assert layout is not None
    assert (layout.core_mode, layout.models, layout.slots_per_model) == ("single", 1, 1)
    assert layout.cores == tuple(f"0:{cluster}:{core}" for cluster in range(2) for core in range(4))
    assert chat.info.context_length == 160
    chat.send("long", [FIRST * 5])
    chat.run()
    assert "160" in chat.failure("long").error.summary


def test_a_cancel_ends_a_mixture_within_a_layer_and_spoils_nothing(
    folders: Path, talk: Callable[..., Talk], calls: Calls
) -> None:
    """The engine's thread computes two layers and the head a step; any of them may be the last."""
    chat, plain = talk(folders / "qwen3_moe" / "artifact"), plain_model(folders / "qwen3_moe" / "checkpoint")
    wanted = greedy(plain, prompt_ids([FIRST]), 12)
    for call in (*range(1, 16), 41):
        chat.send(f"c{call}/1", [FIRST])
        assert chat.cancel_in_call(f"c{call}/1", call, calls) == call
        assert chat.ask(f"c{call}/2", [FIRST])[0] == wanted, call


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixture")
    make_moe(folder / "checkpoint", max_position_embeddings=8192)
    save_tokenizer(folder / "checkpoint")
    build_artifact(folder / "checkpoint", folder / "artifact", context_length=8192)
    return folder / "artifact"


def test_a_mixture_holds_no_more_than_its_vendor_serves(mixture: Path, talk: Callable[..., Talk]) -> None:
    chat = talk(mixture, LayoutRequest(core_mode="single", target_cores=("0:1:0", "0:1:2")))
    assert chat.info.context_length == 4096
    assert chat.info.layout is not None
    assert chat.info.layout.cores == ("0:1:0", "0:1:2")
    chat.send("long", [FIRST * 120])
    chat.engine.step()
    assert "4096" in chat.failure("long").error.summary
    chat.engine.handle(UnloadModel("tiny"))
    assert any(isinstance(event, ModelUnloaded) for event in chat.events)


@pytest.mark.parametrize(
    ("layout", "words"),
    [
        (LayoutRequest(max_batch_size=4), "one conversation at a time, not 4"),
        (LayoutRequest(core_mode="global4", target_clusters=("0:0",)), "single mode only, not in global4"),
    ],
)
def test_a_mixture_refuses_other_layouts_in_words(
    mixture: Path, talk: Callable[..., Talk], layout: LayoutRequest, words: str
) -> None:
    assert words in talk(mixture, layout).refusal


@pytest.mark.parametrize("fault", ["stall", "device_lost"])
def test_of_a_mixture_that_fails_in_the_middle_nothing_stays_on_the_device(
    folders: Path, talk: Callable[..., Talk], fault: str
) -> None:
    activate("simulated")
    before = simulator.usage()[0].memory_used
    chat = talk(folders / "qwen3_moe" / "artifact")
    try:
        chat.send("failing", [FIRST])
        FAULTS.inject(Fault(fault, nth=3))
        chat.run()
        assert any(isinstance(event, ModelFailed) for event in chat.events)
        assert simulator.usage()[0].memory_used == before
    finally:
        FAULTS.clear()
