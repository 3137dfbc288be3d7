"""LFM2-Audio through the vendor's classes, against the same network put together from transformers' parts."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from runtime.device.active import vendor_stack
from runtime.errors import ModelDamagedError, ModelUnsupportedError
from runtime.families.vendor import dispose_model
from runtime.simulator import artifact
from runtime.simulator.build import build_artifact
from runtime.simulator.roles import make_executor
from tests.simulator.checkpoints import assert_is_the_same_beside_a_load
from tests.simulator.lfm2_audio import (
    CODEBOOKS,
    MELS,
    SOUND,
    TURNS,
    Reference,
    make_reference,
    write_checkpoint,
)

FRAMES = (80, 400)
LAYOUTS: dict[str, dict[str, Any]] = {
    "auto": {},
    "single": {"core_mode": "single", "target_cores": ["0:1:2"]},
    "global4": {"core_mode": "global4", "target_clusters": ["0:0"]},
    "global8": {"core_mode": "global8"},
}


@pytest.fixture(scope="module")
def reference() -> Reference:
    return make_reference()


@pytest.fixture(scope="module")
def checkpoint(reference: Reference, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return write_checkpoint(reference, tmp_path_factory.mktemp("lfm2") / "checkpoint")


@pytest.fixture(scope="module")
def built(checkpoint: Path) -> Path:
    build_artifact(checkpoint, checkpoint.parent / "artifact", prefill_chunk=16, context_length=256)
    return checkpoint.parent / "artifact"


@pytest.fixture(params=LAYOUTS)
def model(request: pytest.FixtureRequest, built: Path) -> Iterator[Any]:
    vendor_stack()
    from transformers import AutoModelForSpeechSeq2Seq

    layout = LAYOUTS[request.param]
    prefixes = ("encoder_", "decoder_", "depthformer_")
    prefixed = {f"{prefix}{key}": value for prefix in prefixes for key, value in layout.items()}
    model = AutoModelForSpeechSeq2Seq.from_pretrained(str(built), **prefixed)
    assert type(model).__module__.startswith("transformers_mblt.")
    yield model
    dispose_model(model)


def sound(frames: int) -> torch.Tensor:
    return torch.randn(1, MELS, frames, generator=torch.Generator().manual_seed(frames))


def prompt(frames: int) -> list[int]:
    return [3, 17, 40, *[SOUND] * (frames // 8), 41, 5, 60]


def answer(model: Any, ids: list[int], **kwargs: Any) -> list[int]:
    output = model.generate(
        input_ids=torch.tensor([ids]), max_new_tokens=12, min_new_tokens=12, do_sample=False, **kwargs
    )
    return output[0, -12:].tolist()


@pytest.mark.parametrize("frames", [*FRAMES, 1000])
def test_sound_becomes_the_same_embeddings(model: Any, reference: Reference, frames: int) -> None:
    with torch.inference_mode():
        heard = model.encoder(sound(frames)).last_hidden_state[0]
    torch.testing.assert_close(heard, reference.hear(sound(frames)), rtol=1e-3, atol=1e-3)


def test_greedy_text_is_that_of_the_reference(model: Any, reference: Reference) -> None:
    for frames in FRAMES:
        expected = reference.transcribe(reference.embed(prompt(frames), sound(frames)), 12)
        assert answer(model, prompt(frames), input_features=sound(frames)) == expected
        assert len(set(expected)) > 4, "a model that repeats itself proves little"


def test_a_second_turn_on_the_same_cache(model: Any, reference: Reference) -> None:
    """Text alone: sound goes in as embeddings, which `generate` takes for a first turn only."""
    cache = model._get_cache("", 1, 0)
    first = [3, 17, 40, 44, 52, 8, 9]
    turn = first + answer(model, first, past_key_values=cache) + [45, 46, 47]
    assert cache.get_seq_length() == len(turn) - 4
    assert answer(model, turn, past_key_values=cache) == reference.transcribe(reference.embed(turn), 12)


def test_a_sequence_that_is_cut_off_and_continued(model: Any, reference: Reference) -> None:
    """The convolutions look back beyond the cut."""
    cache = model._get_cache("", 1, 0)
    with torch.inference_mode():
        model(input_ids=torch.tensor([[3, 17, 40, 44, 52, 8, 9]]), past_key_values=cache, use_cache=True)
        cache.set_seq_length(4)
        logits = model(input_ids=torch.tensor([[60, 61]]), past_key_values=cache, use_cache=True).logits
    expected = reference.text_logits(reference.states(reference.embed([3, 17, 40, 44, 60, 61]))[-1])
    torch.testing.assert_close(logits.reshape(-1), expected, rtol=1e-3, atol=1e-3)


def test_what_a_cache_held_does_not_reach_the_next_sequence(model: Any) -> None:
    first = answer(model, [3, 17, 40])
    answer(model, [60, 22, 31, 9, 8])
    assert answer(model, [3, 17, 40]) == first


def test_a_frame_of_sound_is_that_of_the_reference(model: Any, reference: Reference) -> None:
    states = reference.states(reference.embed([3, 17, 40, 44]))
    frames = [reference.frame(state) for state in states]
    with torch.inference_mode():
        ours = [model.depthformer.sample_frame(state, top_k=1).tolist() for state in states]
    assert ours == frames
    assert len({code for frame in frames for code in frame}) > 2


def test_text_and_sound_by_turns(model: Any, reference: Reference) -> None:
    given = {"input_ids": torch.tensor([prompt(80)]), "input_features": sound(80)}
    said = model.generate_interleaved(**given, max_new_tokens=9, audio_top_k=1)
    text, frames, embedded = [], [], reference.embed(prompt(80), sound(80))
    for step in range(9):
        state = reference.states(embedded)[-1]
        if step % sum(TURNS.values()) < TURNS["interleaved_n_text"]:
            text.append(int(reference.text_logits(state).argmax()))
            following = reference.backbone.embed_tokens.weight[text[-1]]
        else:
            frames.append(reference.frame(state))
            rows = torch.tensor(frames[-1]) + 11 * torch.arange(CODEBOOKS)
            following = reference.audio_embedding.weight[rows].sum(0)
        embedded = torch.cat([embedded, following.detach()[None, None]], dim=1)
    assert said["text_ids"][0].tolist() == text
    assert said["audio_codes"].T.tolist() == frames


@pytest.mark.parametrize(
    ("part", "key", "value", "words"),
    [
        ("encoder", "conv_norm_type", "layer_norm", "ordinary FastConformer"),
        ("encoder", "n_layers", None, "cannot be used"),
        ("lfm", "hidden_size", "wide", "cannot be used"),
    ],
)
def test_an_unusual_checkpoint_is_refused(
    checkpoint: Path, tmp_path: Path, part: str, key: str, value: Any, words: str
) -> None:
    folder = Path(shutil.copytree(checkpoint, tmp_path / "source"))
    config = json.loads((folder / "config.json").read_text())
    config[part][key] = value
    (folder / "config.json").write_text(json.dumps(config))
    with pytest.raises(ModelUnsupportedError, match=words):
        build_artifact(folder, tmp_path / "out")


@pytest.mark.parametrize(
    ("file", "key", "value"),
    [
        ("encoder", "kernel", 4),
        ("encoder", "heads", 5),
        ("encoder", "frames", 0),
        ("decoder", "attends", [True]),
        ("decoder", "kernel", 0),
        ("decoder", "attends", [1, 0, 1]),
        ("depthformer", "head_dim", 20),
    ],
)
def test_a_damaged_header_is_refused(built: Path, file: str, key: str, value: Any) -> None:
    path = built / f"{file}.mxq"
    header = artifact.read_header(path)
    values = {name: getattr(header, name) for name in header.__dataclass_fields__}
    damaged = artifact.Header(**values | {"architecture": {**header.architecture, key: value}})
    with pytest.raises(ModelDamagedError, match=rf"{file}\.mxq"):
        make_executor(path, damaged)


def test_zeros_clear_a_slot(model: Any) -> None:
    """How the vendor's classes begin a sequence, whatever the length of the dump they got last."""
    native = model.backbone.get_mxq_model()
    answer(model, [3, 17, 40])
    held = native.dump_cache_memory()
    native.load_cache_memory([bytes(len(blob)) for blob in held])
    memory = native._model._kv
    assert not memory.layer(0, 0)[0].any()
    assert not memory.layer(0, 1)[1].any()
    assert len(native.dump_cache_memory()[0]) < len(held[0])


def test_an_artifact_is_the_same_while_another_thread_loads_a_model(checkpoint: Path, tmp_path: Path) -> None:
    assert_is_the_same_beside_a_load(checkpoint, tmp_path)
