"""What a model is for, told by its config.json, and why some are of no use here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.catalog.adopt import adopt
from runtime.catalog.job import Job
from runtime.catalog.kinds import kind_of, why_unused
from runtime.catalog.library import Library
from runtime.catalog.manifest import MANIFEST
from runtime.config import RuntimeConfig


@pytest.mark.parametrize(
    ("model_type", "kind"),
    [
        ("mobilint-llama", "chat"),
        ("exaone4", "chat"),
        ("mobilint-qwen3-eagle3", "chat"),
        ("mobilint-qwen2_vl", "image"),
        ("mobilint-aya_vision", "image"),
        ("mobilint-blip", "image"),
        ("mobilint-whisper", "speech"),
        ("mobilint-qwen3_asr", "speech"),
        ("mobilint-lfm2_audio", "speech"),
        ("mobilint-bert", "other"),
        ("bert", "other"),
        ("mobilint-siglip_vision_model", "other"),
        ("", "chat"),
    ],
)
def test_the_kind_is_told_by_the_type(model_type: str, kind: str) -> None:
    assert kind_of({"model_type": model_type}) == kind
    assert bool(why_unused(model_type.removeprefix("mobilint-"))) is (kind == "other")


def test_a_bert_folder_is_listed_as_what_it_is(tmp_path: Path, job: Job) -> None:
    folder = tmp_path / "bert-kor-base"
    folder.mkdir()
    (folder / "config.json").write_text(json.dumps({"model_type": "mobilint-bert"}))
    (folder / "model.mxq").write_bytes(b"compiled by the vendor")
    library = Library(RuntimeConfig(tmp_path / "data"))
    assert adopt(library, folder, job).about.kind == "other"
    manifest = library.folder("bert-kor-base") / MANIFEST
    written = manifest.read_text()
    assert '"other"' in written
    for text in (written, written.replace('"other"', '"chat"')):  # the second is what was written before
        manifest.write_text(text)
        (row,) = [row for row in library.rows() if row.model_id == "bert-kor-base"]
        assert (row.kind, row.state) == ("other", "installed")
        assert "holds no conversation" in row.note
