"""Folders of the user's own: copied or compiled under a free name, never changed, never trusted."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from runtime.catalog.adopt import adopt
from runtime.catalog.entries import DEMO_CHAT, DEMO_SPEECH
from runtime.catalog.job import Job, JobCancelled
from runtime.catalog.library import Library
from runtime.config import RuntimeConfig
from runtime.errors import ModelDamagedError, ModelIncompleteError, ModelNotFoundError
from tests.runtime.catalog.conftest import Watched


@pytest.fixture
def library(tmp_path: Path) -> Library:
    """An empty library."""
    return Library(RuntimeConfig(tmp_path / "data"))


@pytest.fixture
def artifact(tmp_path: Path) -> Path:
    """A folder as the vendor publishes it, with things in it that must not come along."""
    folder = tmp_path / "Llama 3.2 (1B)!"
    (folder / "sub").mkdir(parents=True)
    (folder / "config.json").write_text(json.dumps({"model_type": "mobilint-llama"}))
    (folder / "sub" / "model.mxq").write_bytes(b"compiled by the vendor")
    (folder / "modeling.py").write_text("raise SystemExit")
    (folder / "embedding.pt").write_bytes(b"pickle")
    (folder / "pytorch_model.bin").write_bytes(b"pickle")
    return folder


def test_a_compiled_model_is_copied_without_code_and_pickles(
    library: Library, artifact: Path, job: Job
) -> None:
    before = {path: path.stat().st_mtime_ns for path in artifact.rglob("*")}
    manifest = adopt(library, artifact, job)
    assert manifest.about.model_id == "Llama-3.2-1B"
    assert (manifest.about.kind, manifest.about.family, manifest.about.device) == ("chat", "llama", "npu")
    assert {item.path for item in manifest.files} == {"config.json", "sub/model.mxq"}
    library.verify("Llama-3.2-1B", job)
    assert {path: path.stat().st_mtime_ns for path in artifact.rglob("*")} == before


def test_the_same_folder_again_gets_another_name(library: Library, artifact: Path, job: Job) -> None:
    adopt(library, artifact, job)
    assert adopt(library, artifact, job).about.model_id == "Llama-3.2-1B-2"


@pytest.mark.parametrize(
    ("model_id", "kind", "device"), [(DEMO_CHAT, "chat", "simulated"), (DEMO_SPEECH, "speech", "cpu")]
)
def test_the_demo_models_are_recognised(
    library: Library, demo_models: Path, job: Job, model_id: str, kind: str, device: str
) -> None:
    manifest = adopt(library, demo_models / model_id, job)
    about = manifest.about
    assert (about.model_id, about.kind, about.device) == (f"{model_id}-2", kind, device)


@pytest.mark.parametrize(
    ("config", "error", "words"),
    [
        (None, ModelIncompleteError, r"has no config\.json"),
        ("{", ModelDamagedError, "cannot be read"),
        ("[]", ModelDamagedError, "cannot be read"),
        ('{"model_type": "mobilint-llama"}', ModelIncompleteError, r"has no compiled weights \(\*\.mxq\)"),
        ('{"model_type": "llama"}', ModelIncompleteError, r"has no weights"),
    ],
)
def test_a_folder_that_is_no_whole_model(
    library: Library, tmp_path: Path, job: Job, config: str | None, error: type[Exception], words: str
) -> None:
    folder = tmp_path / "model"
    folder.mkdir()
    if config is not None:
        (folder / "config.json").write_text(config)
    with pytest.raises(error, match=words) as caught:
        adopt(library, folder, job)
    assert caught.value.unharmed == "Nothing was changed."
    assert not library.models_dir.exists()


def test_a_file_is_no_folder(library: Library, job: Job) -> None:
    with pytest.raises(ModelNotFoundError, match="is not a folder"):
        adopt(library, Path(__file__), job)


def test_cancelling_leaves_nothing(library: Library, artifact: Path, watched: Watched) -> None:
    job = Job(watched.reports.append, lambda: bool(watched.reports))
    with pytest.raises(JobCancelled):
        adopt(library, artifact, job)
    assert list(library.models_dir.iterdir()) == []


def test_links_are_followed_within_the_folder_and_the_hubs_cache_only(
    library: Library, tmp_path: Path, job: Job
) -> None:
    (tmp_path / "private.json").write_text('{"key": "secret"}')
    blobs, folder = tmp_path / "cache" / "blobs", tmp_path / "cache" / "snapshots" / "1a2b"
    blobs.mkdir(parents=True)
    folder.mkdir(parents=True)
    (blobs / "c0ffee").write_bytes(b"compiled by the vendor")
    (folder / "config.json").write_text(json.dumps({"model_type": "mobilint-llama"}))
    (folder / "model.mxq").symlink_to("../../blobs/c0ffee")
    (folder / "vocab.json").symlink_to("config.json")
    (folder / "stolen.json").symlink_to(tmp_path / "private.json")
    manifest = adopt(library, folder, job)
    assert {item.path for item in manifest.files} == {"config.json", "model.mxq", "vocab.json"}
