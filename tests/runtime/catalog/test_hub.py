"""The vendor's models on a hub: a loopback server that answers as the hub's API does."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from types import SimpleNamespace

import pytest

from runtime.catalog.entries import DEMO_ENTRIES, Entry, HubSource
from runtime.catalog.hub import fetch_repository, vendor_entries
from runtime.catalog.install import install
from runtime.catalog.job import Job, Progress
from runtime.catalog.library import Library
from runtime.config import RuntimeConfig
from runtime.errors import DownloadError, HashMismatchError, ModelUnsupportedError, NetworkError
from tests.runtime.catalog.file_server import FileServer

REPOSITORY = "mobilint/Llama-3.2-1B-Instruct"
COMMIT = "0123456789abcdef0123456789abcdef01234567"
FILES = {
    "config.json": b'{"model_type": "mobilint-llama"}',
    "model.mxq": b"compiled" * 1000,
    "model.safetensors": b"weights" * 1000,
    "modeling_llama.py": b"import os",
    "embedding.pt": b"pickle",
}


@pytest.fixture
def hub(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> FileServer:
    """The server as the only hub there is, with one repository."""
    from huggingface_hub import constants

    monkeypatch.setattr(constants, "ENDPOINT", server.url)
    monkeypatch.setattr(
        constants, "HUGGINGFACE_CO_URL_TEMPLATE", server.url + "/{repo_id}/resolve/{revision}/{filename}"
    )
    monkeypatch.setattr(constants, "HF_HUB_OFFLINE", False)
    monkeypatch.setenv("no_proxy", "127.0.0.1")
    _offer(server, FILES)
    listed = [{"id": REPOSITORY, "tags": ["mobilint-llama", "license:llama3.2"]}]
    _json(server, "/api/models", listed)
    return server


def _offer(server: FileServer, files: dict[str, bytes]) -> None:
    siblings = []
    for name, data in files.items():
        sibling: dict[str, object] = {"rfilename": name, "size": len(data), "blobId": "0" * 40}
        if not name.endswith((".json", ".py")):
            sibling["lfs"] = {
                "sha256": hashlib.sha256(data).hexdigest(),
                "size": len(data),
                "pointerSize": 130,
            }
        siblings.append(sibling)
        server.files[f"/{REPOSITORY}/resolve/{COMMIT}/{name}"] = data
    _json(
        server,
        f"/api/models/{REPOSITORY}/revision/main",
        {"id": REPOSITORY, "sha": COMMIT, "siblings": siblings},
    )


def _json(server: FileServer, path: str, value: object) -> None:
    server.files[path] = json.dumps(value).encode()
    server.types[path] = "application/json"


def test_the_vendors_models_become_entries(hub: FileServer) -> None:
    entries = vendor_entries()
    assert [entry.model_id for entry in entries] == ["Llama-3.2-1B-Instruct"]
    entry = entries[0]
    assert (entry.title, entry.kind, entry.device) == ("Llama 3.2 1B Instruct", "chat", "npu")
    assert (entry.family, entry.licence) == ("llama", "llama3.2")
    assert entry.source == HubSource(REPOSITORY)


def test_every_task_of_the_vendors_that_a_pane_can_do_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    from transformers_mblt import list_tasks

    def models(_api: object, *, pipeline_tag: str, **_: object) -> list[SimpleNamespace]:
        return [SimpleNamespace(id=f"mobilint/{pipeline_tag}", tags=[])]

    monkeypatch.setattr("huggingface_hub.HfApi.list_models", models)
    kinds = {entry.model_id: entry.kind for entry in vendor_entries()}
    assert set(kinds) == set(list_tasks()) - {"fill-mask"}, "BERT is of no use here"
    assert kinds["image-to-text"] == "image"


def test_no_hub(hub: FileServer, tmp_path: Path, job: Job) -> None:
    hub.files.clear()
    with pytest.raises(NetworkError, match="could not be asked"):
        vendor_entries()
    with pytest.raises(NetworkError, match=f"{REPOSITORY} could not be found"):
        fetch_repository(HubSource(REPOSITORY), tmp_path, job)


def test_only_data_files_are_taken(hub: FileServer, tmp_path: Path, job: Job) -> None:
    fetch_repository(HubSource(REPOSITORY), tmp_path, job)
    found = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
    assert found == {name: FILES[name] for name in ("config.json", "model.mxq", "model.safetensors")}


def test_every_file_says_its_name_its_number_and_how_far_all_are(hub: FileServer, tmp_path: Path) -> None:
    reports: list[Progress] = []
    fetch_repository(HubSource(REPOSITORY), tmp_path, Job(reports.append))
    told = [(one.stage, one.share.words) for one in reports if one.share is not None]
    wanted = ("config.json", "model.mxq", "model.safetensors")
    assert list(dict.fromkeys(words for _stage, words in told)) == [f"file {k} of 3" for k in (1, 2, 3)]
    assert {stage for stage, _words in told if stage.startswith("Down")} == {
        f"Downloading {name}" for name in wanted
    }
    assert reports[-1].share is not None
    assert reports[-1].share.done == reports[-1].share.total == sum(len(FILES[name]) for name in wanted)


def test_a_repository_is_installed_and_resumed(hub: FileServer, tmp_path: Path, job: Job) -> None:
    entry = Entry("llama", "Llama", "chat", "llama", "npu", "", HubSource(REPOSITORY), "none", 0)
    library = Library(RuntimeConfig(tmp_path), (*DEMO_ENTRIES, entry))
    weights = f"/{REPOSITORY}/resolve/{COMMIT}/model.mxq"
    hub.cuts[weights] = [3000, 0, 0, 0]
    with pytest.raises(NetworkError, match=r"model\.mxq could not be downloaded completely"):
        install(library, "llama", job)
    assert library.rows()[-1].state == "partial"

    hub.requests.clear()
    install(library, "llama", job)
    assert hub.ranges(weights) == ["bytes=3000-"]
    library.verify("llama", job)
    assert (library.folder("llama") / "model.mxq").read_bytes() == FILES["model.mxq"]


def test_a_file_that_is_not_what_the_hub_promised(hub: FileServer, tmp_path: Path, job: Job) -> None:
    hub.files[f"/{REPOSITORY}/resolve/{COMMIT}/model.mxq"] = b"x" * len(FILES["model.mxq"])
    with pytest.raises(HashMismatchError, match=r"model\.mxq arrived twice"):
        fetch_repository(HubSource(REPOSITORY), tmp_path, job)
    assert not (tmp_path / "model.mxq").exists()


def test_a_repository_without_a_compiled_model(hub: FileServer, tmp_path: Path, job: Job) -> None:
    _offer(hub, {"config.json": b"{}"})
    with pytest.raises(ModelUnsupportedError, match=r"holds no compiled model \(\.mxq\)"):
        fetch_repository(HubSource(REPOSITORY), tmp_path, job)
    assert list(tmp_path.iterdir()) == []


def test_a_repository_cannot_write_outside_its_folder(hub: FileServer, tmp_path: Path, job: Job) -> None:
    _offer(hub, {"../evil.json": b"{}", "model.mxq": b"x"})
    with pytest.raises(DownloadError, match="names a file outside"):
        fetch_repository(HubSource(REPOSITORY), tmp_path / "model", job)
    assert list(tmp_path.iterdir()) == []
