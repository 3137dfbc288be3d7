"""Qwen3-ASR as a speech model of the app, against the Qwen3-ASR of the installed transformers."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from runtime import simulator
from runtime.audio.vad import SileroVad
from runtime.audio.windows import Windower
from runtime.layout.request import LayoutRequest, PartLayout
from runtime.messages import Failed, LoadSpeech, ModelFailed, ModelLoaded, Transcribed
from runtime.simulator.faults import FAULTS, Fault
from runtime.speech import npu_qwen3_asr
from tests.runtime.audio.media import SAMPLE, clip
from tests.runtime.conftest import Calls, Networks
from tests.runtime.speech.conftest import SpeechLane, calls_until_the_end
from tests.simulator.qwen3_asr import (
    END,
    SOUND,
    WORDS,
    make_artifact,
    make_features,
    make_stuck,
    make_talkative,
    make_tokenizer,
)

BEFORE = [2, 3, 4, 2, 5, 6]
"""<|im_start|> system <|im_end|> <|im_start|> user <|audio_start|>"""
AFTER = [8, 4, 2, 9]
"""<|audio_end|> <|im_end|> <|im_start|> assistant"""


def opening(language: str) -> list[int]:
    return [WORDS["language"], WORDS[language], WORDS["<asr_text>"]]


@pytest.fixture(scope="module")
def reference() -> Any:
    return make_talkative()


@pytest.fixture(scope="module")
def folder(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_artifact(reference, tmp_path_factory.mktemp("asr"), context_length=512)


@pytest.fixture(scope="module")
def short(reference: Any, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """One whose context has room for seven seconds."""
    return make_artifact(reference, tmp_path_factory.mktemp("short"), context_length=256)


def expected(reference: Any, seconds: float, said: list[int]) -> list[str]:
    """The reference's words for each window of the sample, when its answer begins with `said`."""
    windower = Windower(SileroVad(), longest=seconds - 1.0)
    lines = []
    for window in (*windower.feed(clip()), *windower.finish()):
        whole = -(-(len(window.samples) + 8000) // 16_000)
        samples = np.pad(window.samples, (0, whole * 16_000 - len(window.samples)))
        features = make_features()(samples, sampling_rate=16_000, padding="longest", return_tensors="pt")
        ids = torch.tensor([[*BEFORE, *[SOUND] * (13 * whole), *AFTER, *said]])
        with torch.inference_mode():
            answer = reference.generate(
                input_ids=ids,
                attention_mask=torch.ones_like(ids),
                input_features=features.input_features,
                input_features_mask=torch.ones(1, 100 * whole, dtype=torch.long),
                max_new_tokens=64 + 12 * whole,
                do_sample=False,
                eos_token_id=[END, WORDS["<|im_end|>"]],
            )[0, ids.shape[1] :]
        text = make_tokenizer().decode(answer, skip_special_tokens=True)
        text = text if said else text.removeprefix("language English <asr_text>")
        lines.append(" ".join(text.replace("<asr_text>", " ").split()))
    return lines


def lines(lane: SpeechLane, request_id: str) -> list[str]:
    result = lane.final(request_id)
    assert isinstance(result, Transcribed), result
    return [segment.text for segment in result.segments]


def test_the_language_is_found_out_and_the_words_are_the_references(
    lane: SpeechLane, folder: Path, reference: Any
) -> None:
    lane.load(folder)
    lane.transcribe("a", SAMPLE)
    (line,) = lines(lane, "a")
    assert [line] == expected(reference, 16.0, [])
    assert len(set(line.split())) > 15, "a model that repeats itself proves little"
    result = lane.final("a")
    assert isinstance(result, Transcribed)
    assert result.language == "en", "the reference opens with “language English <asr_text>”"
    assert 0 <= result.segments[0].start < result.segments[0].end <= result.duration == 11.0
    info = lane.of(ModelLoaded)[0].info
    assert (info.kind, info.family, info.context_length) == ("speech", "qwen3_asr", 16)
    assert len(info.languages) == 30
    assert {"en", "ko", "yue"} < set(info.languages)


@pytest.mark.parametrize(("code", "name"), [("en", "English"), ("ko", "Korean")])
def test_a_language_that_is_asked_for_is_put_into_its_mouth(
    lane: SpeechLane, folder: Path, reference: Any, code: str, name: str
) -> None:
    lane.load(folder)
    lane.transcribe("a", SAMPLE, code)
    assert lines(lane, "a") == expected(reference, 16.0, opening(name))


def test_a_short_context_has_short_windows(lane: SpeechLane, short: Path, reference: Any) -> None:
    lane.load(short)
    lane.transcribe("a", SAMPLE, "en")
    found = lines(lane, "a")
    assert lane.of(ModelLoaded)[0].info.context_length == 7
    assert found == expected(reference, 7.0, opening("English"))
    assert len(set(found)) == len(found) >= 2, "words that do not depend on the sound prove little"


def test_more_than_2048_tokens_are_never_used_of_a_longer_context(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What stalls the NPU is not asked of it, however long windows may become."""
    monkeypatch.setattr(npu_qwen3_asr, "_LONGEST_WINDOW", 10_000)
    monkeypatch.setattr(npu_qwen3_asr, "context_length", lambda _model: 4096)
    command = LoadSpeech("a", str(folder), LayoutRequest())
    engine = npu_qwen3_asr.load_npu_qwen3_asr(command, "simulated", lambda _stage, _fraction: None)
    seconds = engine.info.context_length
    engine.close()
    before, after = len(BEFORE), len([*AFTER, *opening("English")])
    taken = before + 13 * seconds + after + 64 + 12 * seconds
    assert 2048 - 25 < taken <= 2048


@pytest.mark.parametrize(("language", "call"), [(None, 5), ("en", 5), (None, 14), ("en", 14), ("en", 20)])
def test_a_cancel_lets_no_other_call_of_the_device_begin(
    lane: SpeechLane, folder: Path, calls: Calls, language: str | None, call: int
) -> None:
    """Twelve calls hear, the next three read the prompt, all others are words."""
    lane.load(folder)
    assert calls_until_the_end(lane, calls, call, language) == call
    lane.transcribe("b", SAMPLE)
    assert lines(lane, "b")


def test_a_model_that_repeats_itself_is_cut_short_and_its_line_flagged(
    lane: SpeechLane, tmp_path: Path
) -> None:
    lane.load(make_artifact(make_stuck(), tmp_path, context_length=512))
    lane.transcribe("a", SAMPLE, "en")
    (line,) = lines(lane, "a")
    assert len(line.split()) == 16
    assert len(set(line.split())) == 1
    result = lane.final("a")
    assert isinstance(result, Transcribed)
    assert "repeats itself" in result.warnings[0]


@pytest.mark.usefixtures("networks")  # it holds on to the models, so that only disposing of them helps
def test_loading_it_again_and_again_leaves_nothing_on_the_device(lane: SpeechLane, folder: Path) -> None:
    used = []
    for number in range(5):
        lane.load(folder)
        lane.transcribe(f"{number}", SAMPLE, "en")
        lines(lane, f"{number}")
        loaded = simulator.usage()[0].memory_used
        lane.unload()
        lane.transcribe("nobody hears it", SAMPLE)
        assert isinstance(lane.final("nobody hears it"), Failed)
        used.append((loaded, simulator.usage()[0].memory_used))
        lane.events.clear()
    assert len(set(used)) == 1
    assert used[0][0] > used[0][1]


def test_encoder_and_decoder_run_where_each_was_put(
    lane: SpeechLane, folder: Path, reference: Any, networks: Networks
) -> None:
    encoder = PartLayout("encoder", LayoutRequest("single", ("0:1:3",)))
    decoder = PartLayout("decoder", LayoutRequest("global4", (), ("0:0",)))
    lane.load(folder, LayoutRequest(parts=(encoder, decoder)))
    lane.transcribe("a", SAMPLE, "en")
    assert lines(lane, "a") == expected(reference, 16.0, opening("English"))
    assert networks() == {
        "encoder": ("Single", ["1:3"]),
        "decoder": ("Global4", ["0:0", "0:1", "0:2", "0:3"]),
    }
    layout = lane.of(ModelLoaded)[0].info.layout
    assert layout is not None
    assert [part.part for part in layout.parts] == ["encoder", "decoder"]


def test_it_takes_no_memory_for_conversations_side_by_side(lane: SpeechLane, folder: Path) -> None:
    lane.load(folder)
    lane.transcribe("a", SAMPLE, "en")
    once = lines(lane, "a"), simulator.usage()[0].memory_used
    lane.load(folder, LayoutRequest("global4", (), ("0:0",), max_batch_size=4))
    lane.transcribe("b", SAMPLE, "en")
    assert (lines(lane, "b"), simulator.usage()[0].memory_used) == once


def test_the_newer_form_of_the_preprocessor_serves_too(
    lane: SpeechLane, folder: Path, reference: Any, tmp_path: Path
) -> None:
    from transformers import Qwen3ASRFeatureExtractor, Qwen3ASRProcessor

    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    (copy / "preprocessor_config.json").unlink()
    features = Qwen3ASRFeatureExtractor(feature_size=16)
    Qwen3ASRProcessor(features, make_tokenizer()).save_pretrained(copy)
    assert not (copy / "preprocessor_config.json").exists()
    lane.load(copy)
    lane.transcribe("a", SAMPLE, "en")
    assert lines(lane, "a") == expected(reference, 16.0, opening("English"))


def test_a_folder_as_the_vendors_configuration_saves_it(
    lane: SpeechLane, folder: Path, reference: Any, tmp_path: Path
) -> None:
    """Its submodels then name the compiled models; some values are missing, others of an older age."""
    copy = Path(shutil.copytree(folder, tmp_path / "copy"))
    config = json.loads((copy / "config.json").read_text())
    for part, name in (("encoder", "audio_config"), ("decoder", "text_config")):
        for key in [key for key in config if key.startswith(f"{part}_")]:
            config["thinker_config"][name][key.removeprefix(f"{part}_")] = config.pop(key)
    for key in ("pad_token_id", "eos_token_id"):
        config["thinker_config"].pop(key)
    text = config["thinker_config"]["text_config"]
    text["rope_scaling"] |= {"type": "default", "interleaved": True, "mrope_interleaved": True}
    text |= {"pad_token_id": None, "prefix": None, "pruned_heads": {}, "temperature": 1.0}
    config["auto_map"] = {"AutoConfig": "proxy_qwen3_asr.MobilintQwen3ASRConfig"}
    config["support_languages"] = ["Korean", "English", "Klingon"]
    (copy / "config.json").write_text(json.dumps(config))
    lane.load(copy)
    lane.transcribe("a", SAMPLE, "en")
    assert lines(lane, "a") == expected(reference, 16.0, opening("English"))
    assert lane.of(ModelLoaded)[0].info.languages == ("ko", "en")


def test_numbers_that_are_none_fail_the_file_and_not_the_model(lane: SpeechLane, folder: Path) -> None:
    lane.load(folder)
    FAULTS.inject(Fault("nan_logits", nth=20))
    lane.transcribe("a", SAMPLE, "en")
    failed = lane.final("a")
    assert isinstance(failed, Failed)
    assert failed.error.code == "request.bad_logits"
    assert failed.error.remedy
    lane.transcribe("b", SAMPLE, "en")
    assert lines(lane, "b")


def without(name: str) -> Callable[[Path], None]:
    return lambda copy: (copy / name).unlink()


def placed_elsewhere(copy: Path) -> None:
    config = json.loads((copy / "config.json").read_text())
    config["thinker_config"]["audio_config"]["mxq_path"] = "../encoder.mxq"
    (copy / "config.json").write_text(json.dumps(config))


def unmarked(copy: Path) -> None:
    text = (copy / "tokenizer.json").read_text().replace("<asr_text>", "<text>")
    (copy / "tokenizer.json").write_text(text)


@pytest.mark.parametrize(
    ("damage", "code", "words"),
    [
        (without("encoder.mxq"), "model.incomplete", "encoder.mxq"),
        (without("tokenizer.json"), "model.damaged", "tokenizer"),
        (without("preprocessor_config.json"), "model.damaged", "preprocessor"),
        (unmarked, "model.damaged", "tokenizer"),
        (placed_elsewhere, "model.damaged", "../encoder.mxq"),
    ],
)
def test_a_damaged_folder_is_named(
    lane: SpeechLane, folder: Path, tmp_path: Path, damage: Callable[[Path], None], code: str, words: str
) -> None:
    copy = Path(shutil.copytree(folder, tmp_path / "broken"))
    damage(copy)
    lane.load(copy)
    lane.transcribe("a", SAMPLE)
    lane.final("a")
    error = lane.of(ModelFailed)[0].error
    assert error.code == code
    assert words in error.sentence()
    assert "broken" in error.sentence()


def test_a_context_too_short_for_a_sentence_is_refused(
    lane: SpeechLane, reference: Any, tmp_path: Path
) -> None:
    before = simulator.usage()[0].memory_used
    lane.load(make_artifact(reference, tmp_path, context_length=128))
    lane.transcribe("a", SAMPLE)
    lane.final("a")
    error = lane.of(ModelFailed)[0].error
    assert error.code == "model.unsupported"
    assert "128 tokens" in error.sentence()
    assert simulator.usage()[0].memory_used == before
