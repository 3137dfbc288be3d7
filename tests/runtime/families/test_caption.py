"""Descriptions of pictures by BLIP through the engine, against plain transformers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest
import torch
from PIL import Image

from runtime import simulator
from runtime.layout.request import LayoutRequest, PartLayout
from runtime.messages import Failed, Finished, Generate, ImagePart, TextDelta, TextPart, Turn
from runtime.messages.chat import Priority
from runtime.sampling.params import SamplingRequest
from runtime.simulator.build import build_artifact
from tests.runtime.conftest import Networks
from tests.runtime.families.talk import WORDS, Talk, save_tokenizer
from tests.simulator.checkpoints import unsettle
from tests.simulator.pictures import noise

START, STOP, SIDE, COUNT = 2, 3, 28, 14


def write_checkpoint(folder: Path) -> Path:
    """A tiny checkpoint with random weights, its tokenizer and processor; returns the folder."""
    from transformers import BlipConfig, BlipForConditionalGeneration, BlipImageProcessor

    size = {"num_hidden_layers": 2, "intermediate_size": 40}
    text = {
        "vocab_size": WORDS,
        "hidden_size": 32,
        "num_attention_heads": 4,
        "max_position_embeddings": 40,
        "encoder_hidden_size": 24,
        "bos_token_id": START,
        "sep_token_id": STOP,
        "eos_token_id": STOP,
        "pad_token_id": 0,
    }
    vision = {"hidden_size": 24, "num_attention_heads": 3, "image_size": SIDE, "patch_size": 7}
    torch.manual_seed(4)
    model = unsettle(
        BlipForConditionalGeneration(BlipConfig(text_config=text | size, vision_config=vision | size))
    )
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if parameter.ndim > 1:
                parameter.normal_(0, 1 if "position_embeddings" in name or "word_emb" in name else 0.2)
    model.tie_weights()
    model.save_pretrained(folder)
    BlipImageProcessor(size={"height": SIDE, "width": SIDE}).save_pretrained(folder)
    save_tokenizer(folder)
    return folder


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(tmp_path_factory.mktemp("blip") / "checkpoint")


@pytest.fixture
def talk(checkpoint: Path) -> Iterator[Talk]:
    artifact = checkpoint.parent / "artifact"
    if not artifact.exists():
        build_artifact(checkpoint, artifact)
    talk = Talk(artifact, LayoutRequest(core_mode="global4", target_clusters=("0:0",)))
    yield talk
    talk.engine.close()


def described(
    talk: Talk, name: str, *pictures: Path, begins: str = "", priority: Priority = "interactive"
) -> list[Any]:
    send(talk, name, *pictures, begins=begins, priority=priority)
    talk.run()
    return events_of(talk, name)


def send(
    talk: Talk, name: str, *pictures: Path, begins: str = "", priority: Priority = "interactive"
) -> None:
    turn = Turn("user", (*(ImagePart(str(path)) for path in pictures), TextPart(begins)))
    wanted = SamplingRequest(temperature=0.0, max_tokens=COUNT)
    talk.engine.handle(Generate(name, name.split("/")[0], "tiny", (turn,), wanted, 1, priority))


def events_of(talk: Talk, name: str) -> list[Any]:
    return [event for event in talk.events if getattr(event, "request_id", None) == name]


def words(events: list[Any]) -> list[int]:
    assert isinstance(events[-1], Finished), events[-1]
    text = "".join(event.text for event in events if isinstance(event, TextDelta))
    return [int(word[1:]) for word in text.split()]


def expected(checkpoint: Path, picture: Path, begins: Sequence[int] = ()) -> list[int]:
    from transformers import BlipForConditionalGeneration, BlipImageProcessor

    plain = BlipForConditionalGeneration.from_pretrained(checkpoint).eval()
    with Image.open(picture) as image:
        pixels = BlipImageProcessor.from_pretrained(checkpoint)(images=image, return_tensors="pt")
    with torch.inference_mode():
        given = {"input_ids": torch.tensor([[0, *begins, 0]])} if begins else {}
        output = plain.generate(**pixels, **given, max_new_tokens=COUNT, do_sample=False)[0].tolist()
    return [token for token in output[1 + len(begins) :] if token not in (START, STOP)]


def test_captions_are_those_of_plain_transformers(talk: Talk, checkpoint: Path, tmp_path: Path) -> None:
    pictures = [tmp_path / f"{seed}.png" for seed in range(2)]
    for seed, path in enumerate(pictures):
        noise(60, 40, seed).save(path)
    assert talk.info.kind == "image"
    captions = [words(described(talk, f"c/{index}", pictures[index % 2])) for index in range(3)]
    assert captions[:2] == [expected(checkpoint, path) for path in pictures]
    assert captions[0] == captions[2] != captions[1], "what was seen of one picture is not kept for another"
    assert len({*captions[0], *captions[1]}) > 3, "a model that repeats itself proves little"


def test_a_caption_begins_as_it_is_asked_to(talk: Talk, checkpoint: Path, tmp_path: Path) -> None:
    path = tmp_path / "one.png"
    noise(60, 40).save(path)
    begun = words(described(talk, "begun", path, begins="  t50 t60\nt70 "))
    assert begun == expected(checkpoint, path, (50, 60, 70)) != expected(checkpoint, path)
    marked, unknown = (words(described(talk, text, path, begins=text)) for text in ("<end> t50", "what t50"))
    assert marked == unknown, "what looks like a mark of the tokenizer is text, here an unknown word"


def test_a_caption_whose_kv_is_lost_goes_on(talk: Talk, checkpoint: Path, tmp_path: Path) -> None:
    paths = [tmp_path / f"{seed}.png" for seed in range(2)]
    for seed, path in enumerate(paths):
        noise(60, 40, seed).save(path)
    send(talk, "behind", paths[0], begins="t50", priority="background")
    for _ in range(8):
        talk.engine.step()
    send(talk, "quick", paths[1])
    entry = dict(talk.engine._loaded.caches._caches.entries())["behind"]  # type: ignore[union-attr]
    while entry.cache.is_resident:
        assert talk.engine.step()
    entry.cache.layers[0]._host_valid_len = 1  # type: ignore[attr-defined]  # as after a board was taken away
    talk.run()
    assert words(events_of(talk, "behind")) == expected(checkpoint, paths[0], (50,))
    assert words(events_of(talk, "quick")) == expected(checkpoint, paths[1])


def test_one_picture_no_more_and_no_fewer(talk: Talk, tmp_path: Path) -> None:
    path = tmp_path / "one.png"
    noise(30, 30).save(path)
    for name, pictures, count in (("none", (), "none"), ("two", (path, path), "2")):
        (*_, failed) = described(talk, name, *pictures)
        assert isinstance(failed, Failed)
        assert f"one picture at a time; this question has {count}" in failed.error.summary
    assert words(described(talk, "again", path))


def test_the_two_networks_run_where_each_is_put(checkpoint: Path, talk: Talk, networks: Networks) -> None:
    parts = tuple(
        PartLayout(part, LayoutRequest("single", (core,)))
        for part, core in (("vision", "0:0:3"), ("text", "0:1:2"))
    )
    other = Talk(checkpoint.parent / "artifact", LayoutRequest(parts=parts))
    assert networks() == {"vision": ("Single", ["0:3"]), "text": ("Single", ["1:2"])}
    other.engine.close()


def test_a_configuration_without_the_token_that_ends_a_description_is_named(
    talk: Talk, checkpoint: Path, tmp_path: Path
) -> None:
    folder = Path(shutil.copytree(checkpoint.parent / "artifact", tmp_path / "spoilt"))
    config = json.loads((folder / "config.json").read_text())
    config["text_config"]["sep_token_id"] = None
    (folder / "config.json").write_text(json.dumps(config))
    before = simulator.usage()[0].memory_used
    spoilt = Talk(folder)
    assert f"The model folder {folder} is damaged: a value in config.json" in spoilt.refusal
    assert simulator.usage()[0].memory_used == before
