"""A damaged CTranslate2 model is named, whatever its reader makes of it."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from runtime.errors import ModelDamagedError
from runtime.layout.request import LayoutRequest
from runtime.messages import LoadSpeech
from runtime.speech.faster_whisper import load_faster_whisper


@pytest.mark.parametrize("name", [b"decoder/embeddings/weight", b"WhisperSpec"])
def test_weights_that_do_not_fit_together_are_named(demo_models: Path, tmp_path: Path, name: bytes) -> None:
    folder = tmp_path / "damaged"
    shutil.copytree(demo_models / "whisper-tiny.en", folder)
    data = bytearray((folder / "model.bin").read_bytes())
    at = data.index(name)
    data[at : at + 4] = b"????"
    (folder / "model.bin").write_bytes(data)
    with pytest.raises(ModelDamagedError, match=r"model\.bin"):
        load_faster_whisper(LoadSpeech("m", str(folder), LayoutRequest()), lambda _stage, _part: None)
