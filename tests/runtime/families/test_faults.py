"""Faults of a device or a model folder: the right branch of the tree, in words; nothing else is harmed."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from runtime.answering.engine import Engine
from runtime.catalog.entries import DEMO_CHAT
from runtime.config import RuntimeConfig
from runtime.device.active import ActiveDevice
from runtime.errors import DeviceError, WrongDeviceError
from runtime.families.faults import sort_fault
from runtime.families.opening import require_artifact
from runtime.lanes.lane import CancelMarks
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    Event,
    Failed,
    Finished,
    Generate,
    LoadModel,
    ModelFailed,
    ModelLoaded,
    TextPart,
    Turn,
)
from runtime.sampling.params import SamplingRequest
from runtime.simulator.faults import FAULTS, Fault


class Lane:
    """An engine on the simulated device."""

    def __init__(self, folder: Path) -> None:
        self.events: list[Event] = []
        self.engine = Engine(RuntimeConfig(folder, "simulated"), self.events.append, CancelMarks())

    def load(self, folder: Path) -> Event:
        self.engine.handle(LoadModel("m", str(folder), LayoutRequest()))
        return next(event for event in reversed(self.events) if isinstance(event, ModelLoaded | ModelFailed))

    def ask(self, request_id: str) -> Event:
        turns = (Turn("user", (TextPart("Name a colour."),)),)
        sampling = SamplingRequest(temperature=0.0, max_tokens=6)
        self.engine.handle(Generate(request_id, "c", "m", turns, sampling, 1))
        while self.engine.step():
            pass
        return next(
            event
            for event in self.events
            if isinstance(event, Failed | Finished) and event.request_id == request_id
        )


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[Lane]:
    lane = Lane(tmp_path)
    yield lane
    FAULTS.clear()
    lane.engine.close()


@pytest.fixture
def copy(demo_models: Path, tmp_path: Path) -> Path:
    """The demo model by links, so that single files can be spoiled."""
    folder = tmp_path / "copy"
    folder.mkdir()
    for file in (demo_models / DEMO_CHAT).iterdir():
        (folder / file.name).symlink_to(file)
    return folder


@pytest.mark.parametrize("pattern", ["*.mxq", "*.safetensors"])
def test_a_folder_without_weights_names_what_is_missing(lane: Lane, copy: Path, pattern: str) -> None:
    for file in copy.glob(pattern):
        file.unlink()
    event = lane.load(copy)
    assert isinstance(event, ModelFailed)
    assert event.error.code == "model.incomplete"
    assert "copy" in event.error.summary
    assert event.error.remedy


def test_an_empty_folder_and_no_folder(lane: Lane, tmp_path: Path) -> None:
    (tmp_path / "empty").mkdir()
    for name, code in (("empty", "model.incomplete"), ("nowhere", "model.not_found")):
        event = lane.load(tmp_path / name)
        assert isinstance(event, ModelFailed)
        assert event.error.code == code
        assert name in event.error.summary


def test_a_config_that_is_not_one(lane: Lane, copy: Path) -> None:
    (copy / "config.json").unlink()
    (copy / "config.json").write_text("{")
    event = lane.load(copy)
    assert isinstance(event, ModelFailed)
    assert event.error.code == "model.damaged"


def test_a_model_of_a_family_that_cannot_chat(lane: Lane, demo_models: Path) -> None:
    event = lane.load(demo_models / "whisper-tiny.en-sim")
    assert isinstance(event, ModelFailed)
    assert event.error.code == "model.unsupported"
    assert "whisper" in event.error.summary


def test_a_boards_file_on_the_simulated_device(lane: Lane, copy: Path) -> None:
    (compiled,) = copy.glob("*.mxq")
    compiled.unlink()
    compiled.write_bytes(b"MXQ\x00" + bytes(4096))
    event = lane.load(copy)
    assert isinstance(event, ModelFailed)
    assert event.error.code == "model.wrong_device"
    assert compiled.name in event.error.summary


def test_a_simulated_file_is_never_given_to_a_board(copy: Path) -> None:
    board = ActiveDevice("ARIES (aries-rb)", simulated=False, board="aries-rb", devices=1)
    with pytest.raises(WrongDeviceError) as caught:
        require_artifact(copy, board)
    assert "simulated" in caught.value.summary


def test_a_cut_weight_file_is_named(lane: Lane, copy: Path) -> None:
    weights = copy / "simulated.safetensors"
    whole = weights.resolve()
    weights.unlink()
    with whole.open("rb") as source:
        weights.write_bytes(source.read(100_000))
    event = lane.load(copy)
    assert isinstance(event, ModelFailed)
    assert event.error.code.startswith("model.")
    assert "simulated.safetensors" in event.error.summary


def test_device_lost_in_the_middle_of_an_answer(lane: Lane, demo_models: Path) -> None:
    assert isinstance(lane.load(demo_models / DEMO_CHAT), ModelLoaded)
    FAULTS.inject(Fault("device_lost", nth=4))
    lost = lane.ask("r1")
    assert isinstance(lost, Failed)
    assert lost.error.code == "device.lost"
    # Who asks again at once knows to load it first.
    assert [type(event) for event in lane.events[-2:]] == [ModelFailed, Failed]
    assert isinstance(lane.load(demo_models / DEMO_CHAT), ModelLoaded)
    assert isinstance(lane.ask("r2"), Finished)


def test_bad_numbers_fail_one_request(lane: Lane, demo_models: Path) -> None:
    assert isinstance(lane.load(demo_models / DEMO_CHAT), ModelLoaded)
    FAULTS.inject(Fault("nan_logits", nth=3))
    bad = lane.ask("r1")
    assert isinstance(bad, Failed)
    assert bad.error.code == "request.bad_logits"
    assert isinstance(lane.ask("r2"), Finished)


def test_out_of_device_memory_says_what_helps(lane: Lane, demo_models: Path) -> None:
    FAULTS.inject(Fault("out_of_memory"))
    event = lane.load(demo_models / DEMO_CHAT)
    assert isinstance(event, ModelFailed)
    assert event.error.code == "device.memory"
    assert "Unload another model" in event.error.remedy
    assert "load it on one cluster instead of 2" in event.error.remedy


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("Model_NotAlive occurred.\nPlease visit", "device.lost"),
        ("Acc_DeviceNotFound occurred.", "device.lost"),
        ("Driver_NotInitialized occurred.", "device.lost"),
        ("Model_FailedToLoadMXQ occurred.", "model.damaged"),
        ("Something BadAlloc occurred.", "device.memory"),
        ("Acc_Timeout occurred.", "device.stalled"),
        ("Whatever occurred.", "device"),
        ("", "device"),
    ],
)
def test_the_vendors_code_words(text: str, code: str) -> None:
    error = sort_fault("a model", text)
    assert error.info.code == code
    assert isinstance(error, DeviceError) or code.startswith("model")
    assert error.detail == text
    assert error.remedy
