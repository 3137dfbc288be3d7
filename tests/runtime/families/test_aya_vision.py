"""Questions about pictures to Aya Vision through the engine, against plain transformers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from runtime.layout.request import LayoutRequest, PartLayout
from runtime.messages import TextPart, Turn
from runtime.simulator.build import build_artifact
from tests.runtime.conftest import Networks
from tests.runtime.families.pictured import plain_answer, user
from tests.runtime.families.test_image_text import TOKENS, Session, open_session
from tests.simulator.checkpoints import unsettle
from tests.simulator.pictures import noise
from tests.tiny_qwen_vl import byte_tokenizer

MARKS = ("<image>", "<|START_OF_IMG|>", "<|END_OF_IMG|>", "<|IMG_PATCH|>", "<|IMG_LINE_BREAK|>")
TEMPLATE = (
    "{% for message in messages %}<|im_start|>{{ message['role'] }}\n{% for part in message['content'] %}"
    "{% if part['type'] == 'image' %}<image>{% else %}{{ part['text'] }}{% endif %}{% endfor %}<|im_end|>\n"
    "{% endfor %}{% if add_generation_prompt %}<|im_start|>assistant\n{% endif %}"
)
SIDE = 28


def make_processor() -> Any:
    from tokenizers import AddedToken
    from transformers import AyaVisionProcessor, GotOcr2ImageProcessor

    tokenizer = byte_tokenizer()
    tokenizer.add_special_tokens(
        {"additional_special_tokens": [AddedToken(mark, special=True) for mark in MARKS]}
    )
    return AyaVisionProcessor(
        GotOcr2ImageProcessor(
            size={"height": SIDE, "width": SIDE}, crop_to_patches=True, min_patches=1, max_patches=4
        ),
        tokenizer,
        patch_size=7,
        img_size=SIDE,
        downsample_factor=2,
        chat_template=TEMPLATE,
    )


def write_checkpoint(folder: Path) -> Path:
    """A tiny checkpoint with random weights and its processor; returns the folder."""
    from transformers import AyaVisionForConditionalGeneration

    from tests.simulator.test_aya_vision import configuration

    processor = make_processor()
    tokenizer = processor.tokenizer
    config = configuration(image_token_id=processor.image_token_id)
    config.text_config.vocab_size = len(tokenizer)
    config.text_config.max_position_embeddings = 512
    config.text_config.eos_token_id = tokenizer.eos_token_id
    torch.manual_seed(11)
    model = unsettle(AyaVisionForConditionalGeneration(config))
    with torch.no_grad():
        model.model.multi_modal_projector.linear_1.weight.normal_(0, 0.3)
        model.model.multi_modal_projector.linear_2.weight.normal_(0, 0.3)
    model.save_pretrained(folder)
    processor.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("aya") / "checkpoint")


@pytest.fixture
def session(checkpoint: Path) -> Iterator[Session]:
    artifact = checkpoint.parent / "artifact"
    if not artifact.exists():
        build_artifact(checkpoint, artifact, prefill_chunk=16)
    session = open_session(artifact)
    yield session
    session.engine.close()


def expected(checkpoint: Path, *turns: Turn) -> str:
    from transformers import AyaVisionForConditionalGeneration

    plain = AyaVisionForConditionalGeneration.from_pretrained(checkpoint).eval()
    return plain_answer(plain, make_processor(), turns, TOKENS)


def test_answers_equal_plain_transformers_and_the_second_reuses_the_first(
    session: Session, checkpoint: Path, tmp_path: Path
) -> None:
    pictures = [tmp_path / "wide.png", tmp_path / "small.png"]
    noise(120, 60).save(pictures[0])
    noise(30, 30, 1).save(pictures[1])
    assert (session.info.kind, session.info.family) == ("image", "aya_vision")
    first = user("What?", *pictures)
    one = session.ask(first)
    assert one.text == expected(checkpoint, first)
    assert one.spans.count("encode image") >= 3, "tiles of the wide picture, and the small one"
    turns = (first, Turn("assistant", (TextPart(one.text),)), user("And?"))
    two = session.ask(*turns)
    assert two.text == expected(checkpoint, *turns)
    assert two.finished.usage.cached >= one.finished.usage.prompt
    assert "encode image" not in two.spans


def test_text_alone_and_another_picture_in_the_same_place(
    session: Session, checkpoint: Path, tmp_path: Path
) -> None:
    alone = session.ask(user("Hello."))
    assert alone.text == expected(checkpoint, user("Hello."))
    answers = []
    for seed in range(2):
        path = tmp_path / f"{seed}.png"
        noise(40, 40, seed).save(path)
        answers.append(session.ask(user("What?", path), conversation="same").text)
        assert answers[-1] == expected(checkpoint, user("What?", path))
    assert answers[0] != answers[1]


def test_the_two_networks_run_where_each_is_put(
    session: Session, checkpoint: Path, networks: Networks
) -> None:
    parts = tuple(
        PartLayout(part, LayoutRequest("single", (core,)))
        for part, core in (("vision", "0:0:3"), ("text", "0:1:2"))
    )
    other = open_session(checkpoint.parent / "artifact", LayoutRequest(parts=parts))
    assert networks() == {"vision": ("Single", ["0:3"]), "text": ("Single", ["1:2"])}
    other.engine.close()
