"""Nothing stays on the device of a model that was unloaded, or that failed to load, at whatever stage.

The compiled models are counted themselves, and the device's memory; garbage is collected between tests only,
so that nothing goes by luck.
"""

from __future__ import annotations

import gc
import shutil
import weakref
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from runtime import simulator
from runtime.config import RuntimeConfig
from runtime.device.active import activate, vendor_stack
from runtime.errors import DeviceMemoryError, MbltError, ModelError
from runtime.families import load_model
from runtime.families.opening import Opening
from runtime.lanes.building import building
from runtime.lanes.device_call import NotWantedError
from runtime.layout.request import LayoutRequest
from runtime.messages import LoadSpeech
from runtime.simulator.build import build_artifact
from runtime.simulator.faults import FAULTS, Fault
from runtime.simulator.model import NativeModel
from runtime.speech.engine import load_engine
from tests import tiny_qwen2_vl, tiny_qwen3_vl
from tests.runtime.families import test_aya_vision, test_caption
from tests.runtime.families.talk import save_tokenizer
from tests.runtime.speech import test_npu_lfm2_audio
from tests.simulator.checkpoints import make_checkpoint
from tests.simulator.drafts import make_base, make_draft
from tests.simulator.lfm2_audio import make_reference, write_checkpoint
from tests.simulator.qwen3_asr import make_artifact, make_talkative
from tests.simulator.test_qwen3_moe import make_moe

SPEECH = ("whisper", "lfm2_audio", "qwen3_asr")
FAMILIES = ("llama", "qwen2_vl", "qwen3_vl", "aya_vision", "blip", "eagle3", "qwen3_moe", *SPEECH)
COPIES = LayoutRequest(max_batch_size=3)
"""A plain text model has no submodels, but as many copies as this needs."""


def silent(_stage: str, _fraction: float | None) -> None:
    pass


class Device:
    """What is on the simulated board."""

    def __init__(self, launched: list[weakref.ref[NativeModel]]) -> None:
        self._launched = launched
        self._before = self._used()

    @staticmethod
    def _used() -> int:
        return simulator.usage()[0].memory_used

    @property
    def models(self) -> int:
        """Compiled models that were launched since the test began and are still there."""
        alive = [model for model in (reference() for reference in self._launched) if model is not None]
        return sum(model._device is not None for model in alive)

    @property
    def is_as_before(self) -> bool:
        return self.models == 0 and self._used() == self._before


@pytest.fixture
def device(monkeypatch: pytest.MonkeyPatch) -> Iterator[Device]:
    activate("simulated")
    vendor_stack()
    launched: list[weakref.ref[NativeModel]] = []
    launch = NativeModel.launch

    def noted(model: NativeModel, accelerator: Any) -> None:
        launch(model, accelerator)
        launched.append(weakref.ref(model))

    monkeypatch.setattr(NativeModel, "launch", noted)
    gc.collect()
    yield Device(launched)
    FAULTS.clear()


def build(family: str, folder: Path) -> Path:
    """A tiny artifact of the family."""
    source, out = folder / "checkpoint", folder / "artifact"
    if family == "qwen3_asr":
        return make_artifact(make_talkative(), folder, context_length=256)
    if family == "eagle3":
        make_base(source, "llama")
        save_tokenizer(source)
        build_artifact(source, out, draft_dir=make_draft(folder / "draft"), context_length=192)
        return out
    if family == "lfm2_audio":
        write_checkpoint(make_reference(), source)
    elif family in ("llama", "qwen3_moe"):
        make_moe(source) if family == "qwen3_moe" else make_checkpoint(source, family)
        save_tokenizer(source)
    else:
        makers = {
            "qwen2_vl": tiny_qwen2_vl.make_checkpoint,
            "qwen3_vl": tiny_qwen3_vl.make_checkpoint,
            "aya_vision": test_aya_vision.write_checkpoint,
            "blip": test_caption.write_checkpoint,
        }
        makers[family](source)
    build_artifact(source, out)
    if family == "lfm2_audio":
        test_npu_lfm2_audio.make_processor().save_pretrained(out)
    return out


@pytest.fixture(scope="module")
def artifacts(tmp_path_factory: pytest.TempPathFactory, demo_models: Path) -> Callable[[str], Path]:
    made = {"whisper": demo_models / "whisper-tiny.en-sim"}

    def artifact(family: str) -> Path:
        activate("simulated")
        vendor_stack()
        if family not in made:
            made[family] = build(family, tmp_path_factory.mktemp(family))
        return made[family]

    return artifact


def load(family: str, folder: Path, progress: Callable[[str, float | None], None] = silent) -> Any:
    """Load the model; returns what unloads it."""
    if family in SPEECH:
        command = LoadSpeech("m", str(folder), LayoutRequest())
        return load_engine(command, RuntimeConfig(folder, "simulated"), progress).close
    layout = COPIES if family == "llama" else LayoutRequest()
    return load_model("m", folder, layout, "simulated", progress).dispose


@pytest.fixture(params=FAMILIES)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


Artifacts = Callable[[str], Path]


def test_every_part_of_a_model_leaves_the_device(family: str, artifacts: Artifacts, device: Device) -> None:
    folder = artifacts(family)
    for _ in range(2):
        unload = load(family, folder)
        assert device.models >= 2
        unload()
        assert device.is_as_before


def test_nothing_stays_when_a_part_does_not_fit(family: str, artifacts: Artifacts, device: Device) -> None:
    folder = artifacts(family)
    unload = load(family, folder)
    launches = device.models
    unload()
    for nth in sorted({1, 2, launches // 2, launches} - {0}):
        FAULTS.inject(Fault("out_of_memory", nth=nth))
        with pytest.raises(DeviceMemoryError) as failure:
            load(family, folder)
        assert device.is_as_before, f"after launch {nth} of {launches}"
        assert failure.value.info.remedy


@pytest.mark.parametrize("spoil", ["missing", "damaged"])
def test_nothing_stays_when_a_part_is_missing_or_damaged(
    family: str, artifacts: Artifacts, device: Device, tmp_path: Path, spoil: str
) -> None:
    whole = artifacts(family)
    names = sorted(path.name for path in whole.glob("*.mxq"))
    for name in {names[0], names[-1]}:
        folder = tmp_path / name / "spoilt"
        shutil.copytree(whole, folder, copy_function=lambda src, dst: Path(dst).symlink_to(src))
        (folder / name).unlink()
        if spoil == "damaged":
            (folder / name).write_bytes(b"junk")
        with pytest.raises(ModelError):
            load(family, folder)
        assert device.is_as_before, name


def test_nothing_stays_when_the_model_cannot_be_used_after_all(
    family: str, artifacts: Artifacts, device: Device, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = artifacts(family)
    on_device: list[int] = []
    vendors = Opening.load

    def then_fail(opening: Opening, *args: Any) -> Any:
        model = vendors(opening, *args)
        on_device.append(device.models)
        raise RuntimeError(type(model).__name__)

    monkeypatch.setattr(Opening, "load", then_fail)
    with pytest.raises(RuntimeError, match="Mobilint"):
        load(family, folder)
    assert on_device[0] >= 2
    assert device.is_as_before


def test_nothing_stays_of_a_load_that_is_not_wanted_any_more(artifacts: Artifacts, device: Device) -> None:
    def refuse(stage: str, _fraction: float | None) -> None:
        if stage.startswith("Loading weights"):
            raise NotWantedError("It is not wanted.", remedy="Load it again.")

    with pytest.raises(NotWantedError):
        load("qwen2_vl", artifacts("qwen2_vl"), refuse)
    assert device.is_as_before


def test_the_next_load_has_its_turn_after_a_failure(artifacts: Artifacts, device: Device) -> None:
    FAULTS.inject(Fault("out_of_memory", nth=2))
    with pytest.raises(MbltError):
        load("qwen2_vl", artifacts("qwen2_vl"))
    with building(silent):
        pass
    load("qwen2_vl", artifacts("qwen2_vl"))()
    assert device.is_as_before
