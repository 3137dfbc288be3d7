"""The chunk by the vendor's rules: a number, a map by core mode, its default, the limit of batches."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from runtime.answering.engine import Engine
from runtime.config import RuntimeConfig
from runtime.families.prefill_chunk import resolve_chunk
from runtime.lanes.lane import CancelMarks
from runtime.layout.request import LayoutRequest, PartLayout
from runtime.messages import Event, LoadModel, ModelLoaded
from runtime.simulator.build import build_artifact
from tests.runtime.families.talk import save_tokenizer
from tests.simulator.checkpoints import make_checkpoint
from tests.tiny_qwen2_vl import make_checkpoint as make_image_checkpoint


@pytest.mark.parametrize(
    ("stated", "core_mode", "expected"),
    [
        (256, "single", 256),
        ("512", "single", 512),
        (64.0, "auto", 64),
        ({"single": 256, "global4": 512}, "global4", 512),
        ({"single": 256, "default": 96}, "global8", 96),
        ({"single": 256, "DEFAULT": 96}, "multi", 96),
        ({"global4": 512}, "auto", 512),
        ({"global4": 512, "single": "junk"}, "auto", 512),
        ({"single": 256, "global4": 512}, "auto", 128),
        ({"global4": 512}, "single", 128),
        (None, "single", 128),
        (0, "single", 128),
        (-5, "single", 128),
        (True, "single", 128),
        ("many", "single", 128),
        ("9" * 5000, "single", 128),
        (0.5, "single", 128),
        ([256], "single", 128),
        ({}, "auto", 128),
    ],
)
def test_resolution(stated: object, core_mode: str, expected: int) -> None:
    assert resolve_chunk(stated, core_mode, batch=False) == expected


@pytest.mark.parametrize(
    ("stated", "expected"), [(512, 128), (96, 96), ({"default": 1024}, 128), (None, 128)]
)
def test_a_batch_model_takes_at_most_128(stated: object, expected: int) -> None:
    assert resolve_chunk(stated, "single", batch=True) == expected


# -- of loaded models -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def image_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chunk-vl")
    build_artifact(make_image_checkpoint(folder / "checkpoint"), folder / "artifact", prefill_chunk=32)
    return folder / "artifact"


@pytest.fixture(scope="module")
def batch_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("chunk-batch")
    checkpoint = make_checkpoint(folder / "checkpoint", "llama")
    save_tokenizer(checkpoint)
    build_artifact(checkpoint, folder / "artifact", max_batch_size=2, context_length=96)
    return folder / "artifact"


def loaded_chunk(source: Path, folder: Path, layout: LayoutRequest, **changes: Any) -> int:
    """The chunk of the artifact loaded with those changes in its config.json."""
    shutil.copytree(source, folder)
    config = json.loads((folder / "config.json").read_text()) | changes
    (folder / "config.json").write_text(json.dumps(config))
    events: list[Event] = []
    engine = Engine(RuntimeConfig(folder, "simulated"), events.append, CancelMarks())
    engine.handle(LoadModel("m", str(folder), layout))
    engine.close()
    (info,) = [event.info for event in events if isinstance(event, ModelLoaded)]
    return info.prefill_chunk


def test_the_text_networks_own_mode_counts_where_the_picture_network_has_another(
    image_model: Path, tmp_path: Path
) -> None:
    by_mode = {"single": 48, "global8": 24}
    text = PartLayout("text", LayoutRequest("single", ("0:0:0",)))
    layout = LayoutRequest(parts=(text, PartLayout("vision", LayoutRequest("global8"))))
    assert loaded_chunk(image_model, tmp_path / "m", layout, text_npu_prefill_chunk_size=by_mode) == 48


@pytest.mark.parametrize("conversations", [None, 1, 2, 4])
def test_a_batch_models_chunk_is_limited_however_many_conversations_it_holds(
    batch_model: Path, tmp_path: Path, conversations: int | None
) -> None:
    layout = LayoutRequest("single", ("0:0:0",), max_batch_size=conversations)
    assert loaded_chunk(batch_model, tmp_path / "m", layout, npu_prefill_chunk_size={"single": 512}) == 128
