"""Model folders that are damaged or hostile: each is one sentence with the file's name, and no code runs."""

from __future__ import annotations

import json
import os
import pickle
import shutil
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from runtime.catalog.entries import DEMO_CHAT
from runtime.config import RuntimeConfig
from runtime.device.active import activate
from runtime.errors import MbltError, ModelDamagedError, ModelError, RequestError
from runtime.families import load_model
from runtime.families.base import FamilyModel
from runtime.layout.request import LayoutRequest
from runtime.messages import LoadSpeech, TextPart, Turn
from runtime.simulator.build import build_artifact
from runtime.speech.engine import load_engine
from tests.simulator.checkpoints import make_checkpoint

TURNS = (Turn("user", (TextPart("Hi"),)),)
Spoil = Callable[[Path], object]


@pytest.fixture(scope="module")
def whole(demo_models: Path, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A tiny artifact with the demo model's tokenizer."""
    folder = tmp_path_factory.mktemp("whole")
    checkpoint = make_checkpoint(folder / "checkpoint", "llama", vocab_size=49152)
    for name in ("tokenizer.json", "tokenizer_config.json"):
        shutil.copyfile(demo_models / DEMO_CHAT / name, checkpoint / name)
    activate("simulated")
    build_artifact(checkpoint, folder / "artifact")
    return folder / "artifact"


@pytest.fixture
def folder(whole: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(whole, tmp_path / "spoilt"))


def load(folder: Path) -> FamilyModel:
    return load_model("m", folder, LayoutRequest(), "simulated", lambda _stage, _part: None)


def text(name: str, content: str) -> Spoil:
    return lambda folder: (folder / name).write_text(content)


def values(name: str, **changes: Any) -> Spoil:
    def spoil(folder: Path) -> None:
        document = json.loads((folder / name).read_text())
        (folder / name).write_text(json.dumps({**document, **changes}))

    return spoil


def missing(name: str) -> Spoil:
    return lambda folder: (folder / name).unlink()


def pipe(name: str) -> Spoil:
    """A file that whoever opens it waits for."""

    def spoil(folder: Path) -> None:
        (folder / name).unlink()
        os.mkfifo(folder / name)

    return spoil


@pytest.mark.parametrize(
    ("spoil", "names"),
    [
        (text("config.json", "[" * 100_000), "config.json"),
        (text("config.json", "[]"), "config.json"),
        (values("config.json", hidden_size=-1), "config.json"),
        (values("config.json", hidden_size="big"), "config.json"),
        (values("config.json", num_attention_heads=0), "config.json"),
        (values("config.json", vocab_size=7), "config.json"),
        (values("config.json", core_mode="turbo"), "config.json"),
        (values("config.json", mxq_path="../../secret.mxq"), "mxq_path"),
        (values("config.json", mxq_path=["/etc/passwd"]), "mxq_path"),
        (missing("model.safetensors"), "spoilt"),
        (text("tokenizer.json", ""), "tokenizer"),
        (text("tokenizer.json", "{}"), "tokenizer"),
        (missing("tokenizer.json"), "tokenizer"),
        (text("tokenizer_config.json", "[]"), "tokenizer"),
        (pipe("config.json"), "config.json"),
        (pipe("llama.mxq"), "llama.mxq"),
        (pipe("model.safetensors"), "model.safetensors"),
    ],
)
@pytest.mark.timeout(60)
def test_a_damaged_folder_is_told_in_words(folder: Path, spoil: Spoil, names: str) -> None:
    spoil(folder)
    with pytest.raises(ModelError) as failure:
        load(folder)
    info = failure.value.info
    assert names in info.summary
    assert info.remedy
    assert "Traceback" not in info.sentence()


@pytest.mark.parametrize(
    "template",
    [
        "{% for turn in %}",
        "{# never closed",
        "{{ raise_exception('no') }}",
        "{{ nobody.knows.this }}",
        "{{ ''.__class__.__mro__[1].__subclasses__() }}",
        "{% for i in range(10 ** 9) %}x{% endfor %}",
        "",
    ],
)
def test_a_wrong_chat_template_fails_the_request_only(folder: Path, template: str) -> None:
    values("tokenizer_config.json", chat_template=template)(folder)
    model = load(folder)
    with pytest.raises(RequestError, match="The chat template of spoilt"):
        model.render(TURNS)
    model.dispose()


class Bomb:
    """Unpickled, it leaves a file."""

    def __init__(self, trace: Path) -> None:
        self.trace = trace

    def __reduce__(self) -> tuple[Any, ...]:
        return os.mkdir, (str(self.trace),)


def test_no_code_of_a_model_folder_runs(folder: Path, tmp_path: Path) -> None:
    trace = tmp_path / "code has run"
    (folder / "evil.py").write_text(f"import os\nos.mkdir({str(trace)!r})\nclass Evil: pass\n")
    automatic = dict.fromkeys(("AutoConfig", "AutoModelForCausalLM"), "evil.Evil")
    values("config.json", auto_map=automatic)(folder)
    with (folder / "pytorch_model.bin").open("wb") as file:
        pickle.dump(Bomb(trace), file)
    load(folder).dispose()
    automatic = {"AutoTokenizer": ["evil.Evil", "evil.Evil"]}
    values("tokenizer_config.json", tokenizer_class="Evil", auto_map=automatic)(folder)
    with pytest.raises(ModelDamagedError):
        load(folder)
    missing("model.safetensors")(folder)
    with pytest.raises(MbltError):
        load(folder)
    assert not trace.exists()


def test_only_possible_sampling_values_are_taken_over(folder: Path) -> None:
    (folder / "generation_config.json").write_text(
        '{"temperature": NaN, "top_k": -9, "top_p": 7, "min_p": 0.1, "repetition_penalty": 0,'
        ' "presence_penalty": true, "max_new_tokens": 40, "max_length": 20}'
    )
    model = load(folder)
    assert model.info.sampling_defaults == {"min_p": 0.1, "max_tokens": 40}
    model.dispose()


def test_random_headers_of_weights_are_refused(folder: Path) -> None:
    path = folder / "model.safetensors"
    size = path.stat().st_size
    path.write_bytes(struct.pack("<Q", 1 << 62) + b"{" * (size - 8))
    with pytest.raises(ModelDamagedError):
        load(folder)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"core_mode": "turbo"}, "core_mode is “turbo”, which is not a core mode. "),
        ({"core_mode": 4}, "core_mode is “4”, which is not a core mode. "),
        ({"core_mode": ["single"]}, "which is not a core mode. "),
        ({"core_mode": "single", "target_cores": ["0:0:9"]}, "target_cores is wrong. “0:0:9” is not one of"),
        ({"core_mode": "global8", "target_clusters": ["0:1"]}, "Global 8 needs both clusters of device 0"),
        ({"dev_no": 3, "target_clusters": None}, "dev_no is 3, a device that this computer does not have."),
    ],
)
def test_a_wrong_layout_in_the_config_is_named_with_its_file_and_key(
    folder: Path, changes: dict[str, Any], words: str
) -> None:
    values("config.json", **changes)(folder)
    with pytest.raises(ModelDamagedError) as failure:
        load(folder)
    info = failure.value.info
    assert info.summary.startswith(f"{folder}/config.json: ")
    assert words in info.sentence()
    if "turbo" in info.summary:
        assert (
            info.remedy == "Make it one of auto, single, multi, global4, global8. Or fetch the model again."
        )


def test_a_wrong_layout_of_one_part_is_named_with_its_key(demo_models: Path, tmp_path: Path) -> None:
    copy = tmp_path / "whisper"
    shutil.copytree(demo_models / "whisper-tiny.en-sim", copy, copy_function=os.symlink)
    config = json.loads((copy / "config.json").read_text())
    (copy / "config.json").unlink()
    (copy / "config.json").write_text(json.dumps({**config, "decoder_core_mode": "turbo"}))
    command = LoadSpeech("w", str(copy), LayoutRequest())
    with pytest.raises(ModelDamagedError, match=r"config\.json: decoder_core_mode is “turbo”"):
        load_engine(command, RuntimeConfig(tmp_path, "simulated"), lambda _stage, _part: None)


def test_a_stray_value_that_nothing_reads_does_no_harm(folder: Path) -> None:
    values("config.json", old_core_mode="turbo", something={"dev_no": 7})(folder)
    load(folder).dispose()
