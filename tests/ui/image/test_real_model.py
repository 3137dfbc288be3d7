"""The whole way: a dropped picture, the real runtime threads, a small Qwen2-VL on the simulated device."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
import torch
from PIL import Image
from PySide6.QtCore import Qt
from PySide6.QtWidgets import QApplication
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.image.pane import ImagePane
from mblt_desktop.paths import Paths
from runtime.layout.request import LayoutRequest
from runtime.messages import LoadModel
from runtime.simulator.build import build_artifact
from tests.tiny_qwen2_vl import make_checkpoint
from tests.ui.image.conftest import drop_on, on_the_real_runtime

QUESTION = "What is in this picture?"
TOKENS = 24


@pytest.fixture
def context(qapp: QApplication, paths: Paths) -> Iterator[AppContext]:
    yield from on_the_real_runtime(paths, TOKENS)


def answer_of_plain_transformers(checkpoint: Path, picture: Path) -> str:
    from transformers import AutoProcessor, Qwen2VLForConditionalGeneration

    processor = AutoProcessor.from_pretrained(checkpoint)
    content = [{"type": "image"}, {"type": "text", "text": QUESTION}]
    prompt = processor.apply_chat_template(
        [{"role": "user", "content": content}], tokenize=False, add_generation_prompt=True
    )
    with Image.open(picture) as image:
        batch = processor(text=[prompt], images=[image.convert("RGB")], return_tensors="pt")
    model = Qwen2VLForConditionalGeneration.from_pretrained(checkpoint).eval()
    with torch.inference_mode():
        tokens = model.generate(**batch, max_new_tokens=TOKENS, do_sample=False)
    return processor.tokenizer.decode(tokens[0, batch["input_ids"].shape[1] :], skip_special_tokens=True)


def test_a_question_about_a_dropped_picture_is_answered_as_by_plain_transformers(
    qtbot: QtBot, context: AppContext, tmp_path: Path
) -> None:
    checkpoint = make_checkpoint(tmp_path / "checkpoint")
    folder = context.paths.data / "models" / "qwen2-vl-sim"
    build_artifact(checkpoint, folder)
    picture = tmp_path / "picture.png"
    noise = np.random.default_rng(3).integers(0, 255, (112, 168, 3), np.uint8)
    Image.fromarray(noise).save(picture)

    pane = ImagePane(context)
    qtbot.addWidget(pane)
    pane.resize(1378, 860)
    pane.show()
    drop_on(pane, picture)
    qtbot.waitUntil(lambda: len(pane.preview.pictures) == 1)
    assert not pane.ask.question.ask.isEnabled()
    context.submit(LoadModel("qwen2-vl-sim", str(folder), LayoutRequest()))
    qtbot.waitUntil(lambda: pane.ask.models.loaded is not None, timeout=60_000)
    qtbot.keyClicks(pane.ask.question.edit, QUESTION)
    qtbot.keyClick(pane.ask.question.edit, Qt.Key.Key_Return)
    qtbot.waitUntil(lambda: pane.ask.asking.running is None, timeout=30_000)

    record = pane.gallery.records()[0]
    (answer,) = context.store.images.answers(record.id)
    assert answer.result.error is None
    assert answer.text == answer_of_plain_transformers(checkpoint, picture)
    assert answer.device == "Simulated ARIES (CPU)"
    assert "Simulated ARIES (CPU)" in pane.ask.answers.cards[0].status
    pane.loader.close()
