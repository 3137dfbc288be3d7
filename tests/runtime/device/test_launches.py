"""While many networks are launched, a load says how far it is, shows that it lives, and can be ended."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime import simulator
from runtime.families import load_model
from runtime.lanes.device_call import NotWantedError
from runtime.layout.request import LayoutRequest
from runtime.simulator.build import build_artifact
from runtime.simulator.faults import FAULTS, Fault
from tests.runtime.families.talk import save_tokenizer
from tests.simulator.test_qwen3_moe import make_moe


@pytest.fixture(scope="module")
def mixture(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("mixture")
    make_moe(folder / "checkpoint")
    save_tokenizer(folder / "checkpoint")
    build_artifact(folder / "checkpoint", folder / "artifact", context_length=64)
    return folder / "artifact"


@pytest.fixture(autouse=True)
def _slow() -> Iterator[None]:
    FAULTS.inject(Fault("slow_launch", value=0.1, times=100))
    yield
    FAULTS.clear()


def test_a_mixture_tells_how_many_networks_are_there(mixture: Path) -> None:
    stages: list[str] = []
    load_model(
        "m", mixture, LayoutRequest(), "simulated", lambda stage, _part: stages.append(stage)
    ).dispose()
    told = [int(stage.split()[-2]) for stage in stages if stage.endswith(" networks")]
    assert len(told) >= 3
    assert told == sorted(set(told))
    assert told[-1] <= len(list(mixture.glob("*.mxq")))
    # Another load counts from the beginning.
    stages.clear()
    load_model(
        "m", mixture, LayoutRequest(), "simulated", lambda stage, _part: stages.append(stage)
    ).dispose()
    assert int(next(stage for stage in stages if stage.endswith(" networks")).split()[-2]) <= told[0] + 3


def test_a_load_that_is_not_wanted_ends_between_two_networks(mixture: Path) -> None:
    before = simulator.usage()[0].memory_used
    stages: list[str] = []

    def refuse(stage: str, _part: float | None) -> None:
        stages.append(stage)
        if stage.endswith(" networks"):
            raise NotWantedError("It is not wanted.", remedy="Load it again.")

    with pytest.raises(Exception, match=r"not wanted|damaged"):
        load_model("m", mixture, LayoutRequest(), "simulated", refuse)
    assert len([stage for stage in stages if stage.endswith(" networks")]) == 1
    assert simulator.usage()[0].memory_used == before
