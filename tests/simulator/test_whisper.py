"""The Whisper roles through the vendor's classes, against plain transformers."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import qbruntime
import torch

from runtime.device.active import vendor_stack
from runtime.errors import ModelUnsupportedError
from runtime.families.vendor import dispose_model
from runtime.simulator.build import build_artifact
from tests.simulator.checkpoints import assert_is_the_same_beside_a_load
from tests.simulator.test_generate import LAYOUTS

MELS, FRAMES = 8, 20


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import WhisperConfig, WhisperForConditionalGeneration

    config = WhisperConfig(
        vocab_size=89,
        num_mel_bins=MELS,
        d_model=32,
        encoder_layers=2,
        decoder_layers=3,
        encoder_attention_heads=4,
        decoder_attention_heads=2,
        encoder_ffn_dim=48,
        decoder_ffn_dim=40,
        max_source_positions=FRAMES,
        max_target_positions=64,
        init_std=0.3,
        pad_token_id=0,
        bos_token_id=1,
        eos_token_id=2,
        decoder_start_token_id=3,
        suppress_tokens=None,
        begin_suppress_tokens=None,
    )
    torch.manual_seed(5)
    model = WhisperForConditionalGeneration(config)
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            if "norm" in name or "bias" in name:
                parameter.add_(torch.randn_like(parameter) * 0.2)
    folder = tmp_path_factory.mktemp("whisper") / "checkpoint"
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def plain(checkpoint: Path) -> Any:
    from transformers import WhisperForConditionalGeneration

    return WhisperForConditionalGeneration.from_pretrained(checkpoint).eval()


@pytest.fixture(scope="module")
def built(checkpoint: Path) -> Path:
    build_artifact(checkpoint, checkpoint.parent / "artifact")
    return checkpoint.parent / "artifact"


@pytest.fixture
def model(request: pytest.FixtureRequest, built: Path) -> Iterator[Any]:
    """In `auto` mode, or in the one of an indirect parameter."""
    vendor_stack()
    from transformers import AutoModelForSpeechSeq2Seq

    mode = getattr(request, "param", "auto")
    layout = {"core_mode": mode} | LAYOUTS[mode]
    options = {f"{half}_{name}": value for half in ("encoder", "decoder") for name, value in layout.items()}
    model = AutoModelForSpeechSeq2Seq.from_pretrained(str(built), **options)
    yield model
    dispose_model(model)


def sound(seed: int) -> torch.Tensor:
    return torch.randn(1, MELS, 2 * FRAMES, generator=torch.Generator().manual_seed(seed))


def logits(model: Any, features: torch.Tensor, tokens: list[int], **kwargs: Any) -> torch.Tensor:
    with torch.inference_mode():
        output = model(input_features=features, decoder_input_ids=torch.tensor([tokens]), **kwargs)
    return output.logits.reshape(len(tokens), -1)


def test_both_halves_compute_what_the_reference_computes(model: Any, plain: Any) -> None:
    tokens = [3, 17, 40, 41, 5]
    with torch.inference_mode():
        heard = model.get_encoder()(sound(0)).last_hidden_state
        expected = plain.get_encoder()(sound(0)).last_hidden_state
    torch.testing.assert_close(heard, expected, rtol=1e-4, atol=1e-4)
    torch.testing.assert_close(
        logits(model, sound(0), tokens, use_cache=False),
        logits(plain, sound(0), tokens),
        rtol=1e-3,
        atol=1e-3,
    )


def test_steps_of_any_length_and_a_change_of_sound(model: Any, plain: Any) -> None:
    """The decoder keeps what it computed of a sound; another one must replace it, and the first come back."""
    decoder, native = model.get_decoder(), model.get_decoder().get_mxq_model()
    tokens = [3, 17, 40, 41, 5, 60, 9]
    ids = torch.tensor([tokens])
    results = []
    for seed in (1, 2, 1):
        with torch.inference_mode():
            embedded = decoder.embed_tokens(ids) + decoder.embed_positions(ids)
            states = model.get_encoder()(sound(seed)).last_hidden_state.unsqueeze(1).numpy()
        steps = [
            native.infer([embedded[None, :, start:end].numpy(), states], None, start)[0]
            for start, end in ((0, 3), (3, 4), (4, 6), (6, 7))
        ]
        results.append(torch.from_numpy(np.concatenate(steps)))
        torch.testing.assert_close(results[-1], logits(plain, sound(seed), tokens), rtol=1e-3, atol=1e-3)
    assert torch.equal(results[0], results[2])
    assert not torch.allclose(results[0], results[1], atol=0.1)


@pytest.mark.parametrize("model", LAYOUTS, indirect=True)
def test_generation_is_that_of_plain_transformers(model: Any, plain: Any) -> None:
    for seed in range(4):
        with torch.inference_mode():
            ours, theirs = (
                one.generate(sound(seed), num_beams=1, do_sample=False, max_new_tokens=30).tolist()
                for one in (model, plain)
            )
        assert ours == theirs


def test_shapes_of_the_two_models(model: Any) -> None:
    encoder = model.get_encoder().get_mxq_model()
    decoder = model.get_decoder().get_mxq_model()
    assert encoder.get_model_input_shape() == [(1, 2 * FRAMES, MELS)]
    assert encoder.get_model_output_shape() == [(1, FRAMES, 32)]
    assert encoder.get_cache_infos() == []
    assert decoder.get_model_input_shape() == [(1, -1, 32), (1, FRAMES, 32)]
    assert decoder.get_input_buffer_info()[0].max_cache_size == 64
    states = np.zeros((1, 1, FRAMES, 32), np.float32)
    text = np.ones((1, 1, 5, 32), np.float32)
    assert decoder.infer([text, states], None, 3)[0].shape == (5, 89)
    with pytest.raises(qbruntime.QbRuntimeError, match="Model_CacheOverflow"):
        decoder.infer([text, states], None, 60)
    with pytest.raises(qbruntime.QbRuntimeError, match="Model_NoCache"):
        encoder.dump_cache_memory()
    with pytest.raises(ValueError, match="Input shape is invalid"):
        encoder.infer(np.zeros((1, FRAMES, MELS), np.float32))


def test_an_unusual_checkpoint_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    import json
    import shutil

    folder = Path(shutil.copytree(checkpoint, tmp_path / "source"))
    config = json.loads((folder / "config.json").read_text())
    (folder / "config.json").write_text(json.dumps(config | {"scale_embedding": True}))
    with pytest.raises(ModelUnsupportedError, match="ordinary Whisper"):
        build_artifact(folder, tmp_path / "out")


def test_an_artifact_is_the_same_while_another_thread_loads_a_model(checkpoint: Path, tmp_path: Path) -> None:
    assert_is_the_same_beside_a_load(checkpoint, tmp_path)
