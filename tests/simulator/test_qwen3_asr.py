"""Qwen3-ASR: the reference is that of the installed transformers, the vendor's classes run beside it.

They need `qwen-asr`, which insists on an older transformers (see `other_transformers`), so they answer from a
process of their own, on the artifact that this one builds.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors.torch import load_file, save_file

from runtime.errors import ModelDamagedError, ModelUnsupportedError
from runtime.simulator import artifact
from runtime.simulator.build import build_artifact
from runtime.simulator.roles import make_executor
from tests.simulator import hear_with_vendor, other_transformers
from tests.simulator.checkpoints import unsettle
from tests.simulator.qwen3_asr import MELS, SOUND, configuration

SECONDS = (1, 3)


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    from transformers import Qwen3ASRForConditionalGeneration

    torch.manual_seed(3)
    model = unsettle(Qwen3ASRForConditionalGeneration(configuration()))
    folder = tmp_path_factory.mktemp("asr") / "checkpoint"
    model.save_pretrained(folder)
    return folder


@pytest.fixture(scope="module")
def plain(checkpoint: Path) -> Any:
    from transformers import Qwen3ASRForConditionalGeneration

    return Qwen3ASRForConditionalGeneration.from_pretrained(checkpoint).eval()


@pytest.fixture(scope="module")
def built(checkpoint: Path) -> Path:
    build_artifact(checkpoint, checkpoint.parent / "artifact", prefill_chunk=16)
    return checkpoint.parent / "artifact"


def sound(frames: int) -> torch.Tensor:
    return torch.randn(1, MELS, frames, generator=torch.Generator().manual_seed(frames))


def prompt(tokens: int, *more: int) -> torch.Tensor:
    return torch.tensor([[3, 17, 40, *[SOUND] * tokens, 41, 5, 60, *more]])


def plain_answer(plain: Any, ids: torch.Tensor, features: torch.Tensor) -> list[int]:
    with torch.inference_mode():
        return plain.generate(
            input_ids=ids,
            attention_mask=torch.ones_like(ids),
            input_features=features,
            input_features_mask=torch.ones(1, features.shape[-1], dtype=torch.long),
            max_new_tokens=16,
            min_new_tokens=16,
            do_sample=False,
        )[0].tolist()


def plain_heard(plain: Any, features: torch.Tensor) -> torch.Tensor:
    mask = torch.ones(1, features.shape[-1], dtype=torch.long)
    with torch.inference_mode():
        return plain.get_audio_features(features, mask).pooler_output.reshape(-1, 48)


LAYOUTS = {
    "auto": {},
    "single": {"encoder_core_mode": "single", "decoder_core_mode": "single"},
    "global8": {"encoder_core_mode": "global4", "decoder_core_mode": "global8"},
}


@pytest.fixture(scope="module", params=LAYOUTS)
def vendor(
    request: pytest.FixtureRequest, plain: Any, built: Path, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, torch.Tensor]:
    """What the vendor's classes answer, in one process for all."""
    folder = tmp_path_factory.mktemp("asks")
    asks = {f"features.{seconds}": sound(100 * seconds) for seconds in SECONDS}
    asks |= {f"prompt.{seconds}": prompt(13 * seconds) for seconds in SECONDS}
    first = plain_answer(plain, asks["prompt.3"], asks["features.3"])
    asks["turn.3"] = torch.tensor([[*first, 44, 45, 46]])
    asks |= {"features.tail": sound(142), "prompt.tail": prompt(13 + 6)}
    save_file(asks, folder / "asks")
    files = [str(built), str(folder / "asks"), str(folder / "answers")]
    layout = json.dumps(LAYOUTS[request.param])
    other_transformers.run(Path(hear_with_vendor.__file__), *files, layout)
    return load_file(folder / "answers")


def test_whole_seconds_sound_alike(vendor: dict[str, torch.Tensor], plain: Any) -> None:
    for seconds in SECONDS:
        expected = plain_heard(plain, sound(100 * seconds))
        torch.testing.assert_close(vendor[f"heard.{seconds}"], expected, rtol=1e-4, atol=1e-4)


def test_a_cut_second_is_heard_as_one_with_silence(vendor: dict[str, torch.Tensor], plain: Any) -> None:
    """The compiled encoder cannot be told where sound ends; the vendor drops what lies beyond."""
    padded = torch.nn.functional.pad(sound(142), (0, 58))
    heard = vendor["heard.tail"]
    assert heard.shape == (13 + 6, 48)
    torch.testing.assert_close(heard, plain_heard(plain, padded)[:19], rtol=1e-4, atol=1e-4)


def test_greedy_output_is_that_of_plain_transformers(vendor: dict[str, torch.Tensor], plain: Any) -> None:
    expected = [plain_answer(plain, prompt(13 * seconds), sound(100 * seconds)) for seconds in SECONDS]
    assert [vendor[f"tokens.{seconds}"][0].tolist() for seconds in SECONDS] == expected
    assert len({token for tokens in expected for token in tokens[-16:]}) > 8, "much the same proves little"


def test_a_second_turn_on_the_same_cache(vendor: dict[str, torch.Tensor], plain: Any) -> None:
    turn = torch.tensor([[*plain_answer(plain, prompt(39), sound(300)), 44, 45, 46]])
    assert vendor["turn.3"][0].tolist() == plain_answer(plain, turn, sound(300))


def test_the_logits_of_a_prompt(vendor: dict[str, torch.Tensor], plain: Any) -> None:
    mask = torch.ones(1, 100, dtype=torch.long)
    with torch.inference_mode():
        output = plain(input_ids=prompt(13), input_features=sound(100), input_features_mask=mask)
    torch.testing.assert_close(vendor["logits.1"], output.logits[0, -1], rtol=1e-3, atol=1e-3)


def test_the_form_of_its_authors_gives_the_same_artifact(
    checkpoint: Path, built: Path, tmp_path: Path
) -> None:
    raw = json.loads((checkpoint / "config.json").read_text())
    text = raw["text_config"]
    rope = text.pop("rope_parameters")
    thinker = {
        "audio_config": raw["audio_config"],
        "text_config": text | {"rope_theta": rope["rope_theta"], "rope_scaling": {"mrope_section": [4, 2]}},
        "audio_token_id": SOUND,
    }
    tensors = {}
    for name, tensor in load_file(checkpoint / "model.safetensors").items():
        for theirs, own in (
            ("model.multi_modal_projector.linear_", "thinker.audio_tower.proj"),
            ("model.audio_tower.", "thinker.audio_tower."),
            ("model.language_model.", "thinker.model."),
        ):
            name = own + name.removeprefix(theirs) if name.startswith(theirs) else name
        tensors[name] = tensor
    source = tmp_path / "source"
    source.mkdir()
    save_file(tensors, source / "model.safetensors")
    (source / "config.json").write_text(json.dumps({"model_type": "qwen3_asr", "thinker_config": thinker}))
    build_artifact(source, tmp_path / "out", prefill_chunk=16)
    for name in ("encoder.mxq", "decoder.mxq"):
        assert artifact.read_header(tmp_path / "out" / name) == artifact.read_header(built / name)


def test_another_window_is_refused(checkpoint: Path, tmp_path: Path) -> None:
    import shutil

    folder = Path(shutil.copytree(checkpoint, tmp_path / "source"))
    configuration(n_window=100, n_window_infer=200).save_pretrained(folder)
    with pytest.raises(ModelUnsupportedError, match="200 frames"):
        build_artifact(folder, tmp_path / "out")


@pytest.mark.parametrize(("key", "value"), [("mels", 0), ("channels", 7), ("out", "x"), ("layers", 3)])
def test_a_damaged_header_is_refused(built: Path, key: str, value: Any) -> None:
    path = built / "encoder.mxq"
    header = artifact.read_header(path)
    values = {name: getattr(header, name) for name in header.__dataclass_fields__}
    damaged = artifact.Header(**values | {"architecture": {**header.architecture, key: value}})
    with pytest.raises(ModelDamagedError, match=r"encoder\.mxq"):
        make_executor(path, damaged)
