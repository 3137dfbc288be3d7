"""Questions about pictures to Qwen3-VL through the engine's messages, against plain transformers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from PIL import Image

from runtime.messages import Failed, TextPart, Turn
from runtime.simulator.build import build_artifact
from tests.runtime.families.pictured import plain_answer, saved, user
from tests.runtime.families.test_image_text import TOKENS, Session, open_session
from tests.simulator.pictures import noise
from tests.tiny_qwen3_vl import make_checkpoint

QUESTION = "What is in this picture?"
SIDE = 256


@dataclass
class Models:
    """The reference, and the artifacts made from it."""

    plain: Any
    processor: Any
    folder: Path


@pytest.fixture(scope="module")
def models(tmp_path_factory: pytest.TempPathFactory) -> Models:
    from transformers import AutoProcessor, Qwen3VLForConditionalGeneration

    folder = tmp_path_factory.mktemp("qwen3-vl")
    checkpoint = make_checkpoint(folder / "checkpoint")
    build_artifact(checkpoint, folder / "bundled", prefill_chunk=32)
    build_artifact(checkpoint, folder / "split", prefill_chunk=32, split_features=True)
    build_artifact(checkpoint, folder / "static", prefill_chunk=32, image_side=SIDE)
    plain = Qwen3VLForConditionalGeneration.from_pretrained(checkpoint).eval()
    return Models(plain, AutoProcessor.from_pretrained(checkpoint), folder)


@pytest.fixture
def session(request: pytest.FixtureRequest, models: Models) -> Iterator[Session]:
    session = open_session(models.folder / getattr(request, "param", "bundled"))
    yield session
    session.engine.close()


def expected(models: Models, *turns: Turn) -> str:
    return plain_answer(models.plain, models.processor, turns, TOKENS)


@pytest.mark.parametrize("session", ["bundled", "split"], indirect=True)
def test_answers_equal_plain_transformers_and_the_second_reuses_the_first(
    session: Session, models: Models, tmp_path: Path
) -> None:
    wide, small = saved(tmp_path, 196, 84), saved(tmp_path, 64, 140, seed=1)
    first = user(QUESTION, wide, small)
    one = session.ask(first)
    assert one.text == expected(models, first)
    assert one.spans.count("encode image") == 2
    turns = (first, Turn("assistant", (TextPart(one.text),)), user("And now?"))
    two = session.ask(*turns)
    assert two.text == expected(models, *turns)
    assert two.finished.usage.cached >= one.finished.usage.prompt
    assert "encode image" not in two.spans
    assert session.ask(user("No picture."), conversation="text").text == expected(models, user("No picture."))


@pytest.fixture(scope="module")
def roomy(models: Models) -> Iterator[Session]:
    """A context for more than a network's pictures, and a processor that would make them as large."""
    checkpoint = models.folder / "roomy checkpoint"
    shutil.copytree(models.folder / "checkpoint", checkpoint)
    for name in ("config.json", "preprocessor_config.json", "processor_config.json"):
        path = checkpoint / name
        if path.exists():
            text = path.read_text().replace(
                '"max_position_embeddings": 1024', '"max_position_embeddings": 6144'
            )
            path.write_text(text.replace(f'"longest_edge": {1 << 20}', f'"longest_edge": {1 << 24}'))
    build_artifact(checkpoint, models.folder / "roomy", prefill_chunk=1024, context_length=6144)
    session = open_session(models.folder / "roomy")
    assert session.info.context_length == 6144
    yield session
    session.engine.close()


@pytest.mark.parametrize(
    ("size", "tokens"),
    [
        ((1056, 992), 33 * 31),
        ((1024, 1024), 32 * 32),  # 4096 patches: all that the vendor's network takes
        ((1056, 1024), 32 * 31),  # one row of patches more
        ((1536, 1536), 32 * 32),
        ((4000, 1000), 48 * 12),  # 1536 pixels are the longest side that is handed over
    ],
)
def test_a_picture_has_4096_patches_at_most(
    roomy: Session, models: Models, tmp_path: Path, size: tuple[int, int], tokens: int
) -> None:
    around = roomy.ask(user("?", saved(tmp_path, 64, 64))).finished.usage.prompt - 4
    picture = saved(tmp_path, *size)
    outcome = roomy.ask(user("?", picture), conversation=str(size))
    assert outcome.finished.usage.prompt == around + tokens
    if size == (1024, 1024):
        assert outcome.text == expected(models, user("?", picture)), "nothing was lost at the limit"


def test_each_of_several_pictures_has_4096_patches_at_most(roomy: Session, tmp_path: Path) -> None:
    around = roomy.ask(user("?", *[saved(tmp_path, 64, 64)] * 2)).finished.usage.prompt - 2 * 4
    large = [saved(tmp_path, 1536, 1536, seed) for seed in range(2)]
    outcome = roomy.ask(user("?", *large))
    assert outcome.finished.usage.prompt == around + 2 * 1024
    assert outcome.patches == [4096, 4096], "one call of the network for each"


def test_a_large_picture_leaves_room_in_a_small_context(session: Session, tmp_path: Path) -> None:
    Image.new("RGB", (3000, 2000), "navy").save(tmp_path / "large.png")
    outcome = session.ask(user("?", tmp_path / "large.png"))
    assert 256 < outcome.finished.usage.prompt < session.info.context_length


def test_the_vendors_processor_keeps_to_the_networks_limit(models: Models) -> None:
    from transformers_mblt.models.qwen3_vl.processing_qwen3_vl import MobilintQwen3VLProcessor

    processor = MobilintQwen3VLProcessor.from_pretrained(models.folder / "bundled", local_files_only=True)
    batch = processor(text=["<|image_pad|>"], images=[noise(1536, 1400)], return_tensors="pt")
    assert 3600 < batch["pixel_values"].shape[0] <= 4096


@pytest.mark.parametrize("session", ["static"], indirect=True)
def test_a_static_model_looks_at_one_picture(session: Session, tmp_path: Path) -> None:
    pictures = [saved(tmp_path, 200, 100, seed=seed) for seed in range(2)]
    assert session.ask(user(QUESTION, pictures[0])).finished.usage.completion > 0
    refused = session.ask(user(QUESTION, *pictures)).end
    assert isinstance(refused, Failed)
    assert "one picture at a time" in refused.error.summary
