"""Qwen3-VL on the simulated device, in every layout its text model has, against the reference."""

from __future__ import annotations

import itertools
import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from runtime.errors import ModelUnsupportedError, SettingError
from runtime.families.vendor import new_slot_cache
from runtime.simulator import artifact
from runtime.simulator.build import build_artifact
from tests.simulator.headers import assert_refused
from tests.simulator.pictures import ask, counted, generate, loaded, noise, prompt_of
from tests.tiny_qwen3_vl import make_checkpoint

CHUNK = 16
SIDE = 256
LAYOUTS = ("bundled", "split")
QUESTION = "What is this?"
MODES: dict[str, dict[str, Any]] = {
    "auto": {},
    "single": {"target_cores": ["0:1:2"]},
    "multi": {"target_clusters": ["0:1"]},
    "global4": {"target_clusters": ["0:0"]},
    "global8": {"target_clusters": ["0:0", "0:1"]},
}


@dataclass
class Models:
    """The reference, and the artifacts made from it."""

    checkpoint: Path
    plain: Any
    folder: Path

    def artifact(self, layout: str, kind: str) -> Path:
        """`kind` is dynamic, static or batched."""
        return self.folder / f"{layout}-{kind}"


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    from transformers import Qwen3VLForConditionalGeneration

    folder = tmp_path_factory.mktemp("qwen3-vl")
    checkpoint = make_checkpoint(folder / "checkpoint")
    plain = Qwen3VLForConditionalGeneration.from_pretrained(checkpoint).eval()
    models = Models(checkpoint, plain, folder)
    kinds: dict[str, dict[str, Any]] = {
        "dynamic": {},
        "static": {"image_side": SIDE},
        "batched": {"max_batch_size": 3},
    }
    for layout, kind in itertools.product(LAYOUTS, kinds):
        build_artifact(
            checkpoint,
            models.artifact(layout, kind),
            prefill_chunk=CHUNK,
            split_features=layout == "split",
            **kinds[kind],
        )
    return models


@pytest.mark.parametrize("size", [(256, 256), (84, 196), (320, 64)])
def test_the_dynamic_vision_network_equals_the_reference(models: Models, size: tuple[int, int]) -> None:
    with loaded(models.artifact("bundled", "dynamic")) as (model, processor):
        same_features(model, models.plain, ask(processor, "", noise(*size)))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_static_vision_network_equals_the_reference_on_its_picture(models: Models, layout: str) -> None:
    with loaded(models.artifact(layout, "static")) as (model, processor):
        batch = ask(processor, "", noise(500, 300))
        assert batch["image_grid_thw"].tolist() == [[1, SIDE // 16, SIDE // 16]]
        same_features(model, models.plain, batch)


def test_the_vendor_still_scales_a_static_picture_by_way_of_224(models: Models) -> None:
    """When this fails its processor knows the compiled side, and the limits that the builder gives it have
    nothing left to do."""
    with loaded(models.artifact("bundled", "static")) as (_, processor):
        assert processor._resize_images(noise(500, 300)).size == (224, 224)
        assert processor.image_processor.size["shortest_edge"] == SIDE**2


def same_features(model: Any, plain: Any, batch: Any) -> None:
    with torch.inference_mode():
        ours, theirs = (
            each.model.visual(batch["pixel_values"], grid_thw=batch["image_grid_thw"])
            for each in (model, plain)
        )
    torch.testing.assert_close(ours.pooler_output, theirs.pooler_output, atol=1e-4, rtol=1e-4)
    assert len(ours.deepstack_features) == 3
    for one, other in zip(ours.deepstack_features, theirs.deepstack_features, strict=True):
        torch.testing.assert_close(one, other, atol=1e-4, rtol=1e-4)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_greedy_answers_equal_plain_transformers(models: Models, layout: str) -> None:
    with loaded(models.artifact(layout, "dynamic")) as (model, processor):
        assert type(model).__module__.startswith("transformers_mblt.")
        answers = set()
        for pictures in ((), (noise(84, 196),), (noise(112, 112), noise(64, 140, 1))):
            batch = ask(processor, QUESTION, *pictures)
            (ours,) = generate(model, batch)
            assert [ours] == generate(models.plain, batch), len(pictures)
            answers.add(tuple(ours[batch["input_ids"].shape[1] :]))
    assert len(answers) == 3, "the pictures make a difference"


@pytest.mark.parametrize("core_mode", MODES)
def test_every_core_mode_answers_the_same(models: Models, core_mode: str) -> None:
    pictures = (noise(64, 96), noise(64, 96, 1))  # of one size: in multi mode they go in one call
    layout = MODES[core_mode] | {"core_mode": core_mode}
    options = {f"{half}_{name}": value for half in ("vision", "text") for name, value in layout.items()}
    with loaded(models.artifact("bundled", "dynamic"), **options) as (model, processor):
        for half in (model.model.visual, model.model.language_model):
            assert half.npu_backend.core_mode == core_mode
        batch = ask(processor, QUESTION, *pictures)
        assert generate(model, batch, 12) == generate(models.plain, batch, 12)


def test_frames_of_a_video(models: Models) -> None:
    frames = np.stack([np.asarray(noise(64, 96, seed)) for seed in range(4)])
    with loaded(models.artifact("split", "dynamic")) as (model, processor):
        batch = processor(
            text=[prompt_of(processor, QUESTION, ["video"])],
            videos=[frames],
            videos_kwargs={"do_sample_frames": False},
            return_tensors="pt",
        )
        assert batch["video_grid_thw"][0, 0] > 1
        assert generate(model, batch) == generate(models.plain, batch)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_static_decoder_counts_positions_one_by_one(models: Models, layout: str) -> None:
    with loaded(models.artifact(layout, "static")) as (model, processor):
        batch = ask(processor, QUESTION, noise(300, 300))
        assert generate(model, batch, 12) == [counted(models.plain, batch, 12)]
        text = ask(processor, QUESTION)
        assert generate(model, text) == generate(models.plain, text)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_second_turn_on_the_same_cache_equals_a_fresh_run(models: Models, layout: str) -> None:
    with loaded(models.artifact(layout, "dynamic")) as (model, processor):
        cache = new_slot_cache(model.model.language_model)
        batch = ask(processor, QUESTION, noise(84, 196))
        (first,) = generate(model, batch, 8, past_key_values=cache)
        more = processor.tokenizer("And what else is there?")["input_ids"]
        turn = follow(batch, [*first, *more])
        expected = generate(models.plain, turn)

        # Another conversation takes the slot in between.
        other = new_slot_cache(model.model.language_model)
        generate(model, ask(processor, "Something else"), 4, past_key_values=other)
        text_only = {name: turn[name] for name in ("input_ids", "attention_mask", "mm_token_type_ids")}
        assert generate(model, text_only, past_key_values=cache) == expected
        assert cache.get_seq_length() == len(expected[0]) - 1


def follow(batch: Any, tokens: list[int]) -> dict[str, Any]:
    """The first turn's pictures with a longer text."""
    ids = torch.tensor([tokens])
    kinds = torch.nn.functional.pad(
        batch["mm_token_type_ids"], (0, len(tokens) - batch["mm_token_type_ids"].shape[1])
    )
    return dict(batch) | {
        "input_ids": ids,
        "attention_mask": torch.ones_like(ids),
        "mm_token_type_ids": kinds,
    }


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_batch_is_its_rows_one_by_one(models: Models, layout: str) -> None:
    with loaded(models.artifact(layout, "batched"), text_core_mode="single") as (model, processor):
        pictures = [noise(64, 96), noise(128, 64, 1)]
        texts = [
            prompt_of(processor, text, ["image"]) for text in (QUESTION, "Where was this taken, and when?")
        ]
        batch = processor(text=texts, images=pictures, padding=True, padding_side="left", return_tensors="pt")
        together = generate(model, batch, 12)
        for text, picture, row in zip(texts, pictures, together, strict=True):
            alone = processor(text=[text], images=[picture], return_tensors="pt")
            assert row[-12:] == generate(models.plain, alone, 12)[0][-12:]


def test_a_tied_head_is_read_from_the_embedding(tmp_path: Path) -> None:
    from transformers import Qwen3VLForConditionalGeneration

    checkpoint = make_checkpoint(tmp_path / "tied", tied=True)
    build_artifact(checkpoint, tmp_path / "out")
    plain = Qwen3VLForConditionalGeneration.from_pretrained(checkpoint).eval()
    with loaded(tmp_path / "out") as (model, processor):
        batch = ask(processor, QUESTION, noise(112, 84))
        assert generate(model, batch) == generate(plain, batch)


def test_the_artifact_says_what_it_takes(models: Models) -> None:
    for layout, kind in itertools.product(LAYOUTS, ("dynamic", "static")):
        folder = models.artifact(layout, kind)
        config = json.loads((folder / "config.json").read_text())
        assert config["model_type"] == "mobilint-qwen3_vl"
        assert config["dynamic_vision"] is (kind == "dynamic")
        roles = {path.stem: artifact.read_header(path).role for path in folder.glob("*.mxq")}
        assert roles == {"text": f"{layout} {kind} decoder", "vision": "deepstack vision"}


@pytest.mark.parametrize("options", [{"image_side": 224}, {"image_side": SIDE, "max_batch_size": 2}])
def test_options_that_do_not_fit_are_refused(models: Models, tmp_path: Path, options: dict[str, int]) -> None:
    with pytest.raises(SettingError):
        build_artifact(models.checkpoint, tmp_path / "out", **options)
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    "change",
    [
        {"hidden_size": 128},  # as wide as a row of angles: the vendor's classes tell inputs apart by width
        {"deepstack_visual_indexes": [0, 1]},
        {"deepstack_visual_indexes": [0, 1, 9]},
    ],
)
def test_a_vision_network_the_vendor_cannot_run_is_refused(
    models: Models, tmp_path: Path, change: dict[str, Any]
) -> None:
    copy = tmp_path / "copy"
    copy.mkdir()
    for path in models.checkpoint.iterdir():
        (copy / path.name).symlink_to(path)
    config = json.loads((copy / "config.json").read_text())
    config["vision_config"] |= change
    (copy / "config.json").unlink()
    (copy / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelUnsupportedError, match="vision network"):
        build_artifact(copy, tmp_path / "out")


@pytest.mark.parametrize(
    ("key", "value"), [("features", [0, 1]), ("features", [0, 1, 7]), ("features", ["a"] * 3), ("embed", 33)]
)
def test_a_damaged_header_is_refused(models: Models, key: str, value: Any) -> None:
    assert_refused(models.artifact("bundled", "dynamic") / "vision.mxq", key, value)
