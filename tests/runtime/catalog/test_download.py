"""Downloads over a real connection: resumed, checked, and never mistaken for complete."""

from __future__ import annotations

import hashlib
import random
from pathlib import Path

import pytest

from runtime.catalog import download as module
from runtime.catalog.download import AccessRefusedError, Remote, download, part_of
from runtime.catalog.job import Job, JobCancelled
from runtime.errors import DiskFullError, DownloadError, HashMismatchError, NetworkError, ReadOnlyError
from tests.runtime.catalog.conftest import Watched
from tests.runtime.catalog.file_server import FileServer

CONTENT = random.Random(7).randbytes(1_500_000)
PATH = "/model.bin"


@pytest.fixture
def remote(server: FileServer) -> Remote:
    """A file that the server has."""
    server.files[PATH] = CONTENT
    return Remote(server.url + PATH, "model.bin", len(CONTENT), hashlib.sha256(CONTENT).hexdigest())


@pytest.fixture
def target(tmp_path: Path) -> Path:
    """Where it shall go; the folder does not exist yet."""
    return tmp_path / "downloads" / "model.bin"


def test_a_file_arrives_whole_and_says_how_far_it_is(remote: Remote, target: Path, watched: Watched) -> None:
    assert download(remote, target, watched.job) == target
    assert target.read_bytes() == CONTENT
    assert not part_of(target).exists()
    assert watched.stages == ["Downloading model.bin", "Checking model.bin"]
    assert [report.done for report in watched.reports if report.stage == "Downloading model.bin"][-1] == len(
        CONTENT
    )
    assert all(report.total == len(CONTENT) for report in watched.reports)


def test_what_is_there_already_is_not_fetched_again(
    remote: Remote, target: Path, job: Job, server: FileServer
) -> None:
    download(remote, target, job)
    download(remote, target, job)
    assert len(server.requests) == 1


def test_a_cut_connection_is_taken_up_where_it_broke(
    remote: Remote, target: Path, job: Job, server: FileServer
) -> None:
    server.cuts[PATH] = [400_000, 300_000]
    download(remote, target, job)
    assert target.read_bytes() == CONTENT
    assert server.ranges(PATH) == [None, "bytes=400000-", "bytes=700000-"]


def test_a_download_given_up_goes_on_the_next_time(
    remote: Remote, target: Path, job: Job, server: FileServer
) -> None:
    server.cuts[PATH] = [400_000, 0, 0, 0]
    with pytest.raises(NetworkError) as caught:
        download(remote, target, job)
    assert "model.bin" in caught.value.summary
    assert "0 MB that arrived are kept" in caught.value.unharmed
    assert "goes on where it stopped" in caught.value.remedy
    assert not target.exists()

    server.requests.clear()
    download(remote, target, job)
    assert server.ranges(PATH) == ["bytes=400000-"]
    assert target.read_bytes() == CONTENT


def test_a_server_that_is_busy_for_a_moment_is_asked_again(
    remote: Remote, target: Path, job: Job, server: FileServer
) -> None:
    server.status[PATH] = [503, 429]
    download(remote, target, job)
    assert target.read_bytes() == CONTENT


def test_a_server_without_ranges_starts_over(
    remote: Remote, target: Path, job: Job, server: FileServer
) -> None:
    server.knows_ranges = False
    server.cuts[PATH] = [400_000]
    download(remote, target, job)
    assert target.read_bytes() == CONTENT


def test_a_wrong_file_is_thrown_away_and_fetched_once_more(
    remote: Remote, target: Path, job: Job, server: FileServer
) -> None:
    server.files[PATH] = CONTENT[:-1] + b"?"
    with pytest.raises(HashMismatchError) as caught:
        download(remote, target, job)
    assert "model.bin arrived twice" in caught.value.summary
    assert server.ranges(PATH) == [None, None]
    assert not target.exists()
    assert not part_of(target).exists()


def test_a_damaged_rest_of_an_earlier_download_heals(remote: Remote, target: Path, job: Job) -> None:
    target.parent.mkdir()
    part_of(target).write_bytes(b"rubbish" * 1000)
    download(remote, target, job)
    assert target.read_bytes() == CONTENT


@pytest.mark.parametrize("length", [len(CONTENT) - 100_000, len(CONTENT) + 5_000_000])
def test_a_file_of_another_length_is_refused(
    remote: Remote, target: Path, job: Job, server: FileServer, length: int
) -> None:
    server.files[PATH] = (CONTENT * 5)[:length]
    with pytest.raises(DownloadError):
        download(remote, target, job)
    assert not target.exists()
    part = part_of(target)
    assert not part.exists() or part.stat().st_size <= len(CONTENT)


def test_no_network(target: Path, job: Job) -> None:
    remote = Remote("http://127.0.0.1:9/model.bin", "model.bin", 10, "")
    with pytest.raises(NetworkError) as caught:
        download(remote, target, job)
    assert "Check the network" in caught.value.remedy


def test_a_silent_server_is_not_waited_for_without_end(
    remote: Remote, target: Path, job: Job, server: FileServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_TIMEOUT", 0.05)
    server.released.clear()
    server.files[PATH] = CONTENT[:1000]
    silent = Remote(remote.url, "model.bin", 1000, hashlib.sha256(CONTENT[:1000]).hexdigest())
    # Every answer stops half-way: 500, 250, 125 … bytes further, until none comes any more.
    with pytest.raises(NetworkError):
        download(silent, target, job)
    server.released.set()
    download(silent, target, job)
    assert target.read_bytes() == CONTENT[:1000]


@pytest.mark.parametrize(
    ("status", "error", "words"),
    [
        (404, DownloadError, "not at its source any more"),
        (401, AccessRefusedError, "refuses access"),
        (403, AccessRefusedError, "refuses access"),
    ],
)
def test_refusals_say_what_they_are(
    remote: Remote,
    target: Path,
    job: Job,
    server: FileServer,
    status: int,
    error: type[DownloadError],
    words: str,
) -> None:
    server.status[PATH] = [status]
    with pytest.raises(error, match=words):
        download(remote, target, job)
    assert len(server.requests) == 1


def test_a_full_disk_keeps_what_arrived_apart(remote: Remote, target: Path, job: Job) -> None:
    target.parent.mkdir()
    part_of(target).symlink_to("/dev/full")
    with pytest.raises(DiskFullError) as caught:
        download(remote, target, job)
    assert str(target.parent) in caught.value.summary
    assert caught.value.unharmed == "Installed models are unharmed."
    assert not target.exists()


def test_a_file_that_cannot_fit_is_not_even_asked_for(target: Path, job: Job, server: FileServer) -> None:
    with pytest.raises(DiskFullError, match="only"):
        download(Remote(server.url + PATH, "model.bin", 1 << 60, ""), target, job)
    assert server.requests == []


def test_a_read_only_folder(remote: Remote, job: Job) -> None:
    with pytest.raises(ReadOnlyError, match="cannot be written to"):
        download(remote, Path("/sys/mblt-desktop-test/model.bin"), job)


def test_cancel_stops_soon_and_keeps_what_arrived(remote: Remote, target: Path) -> None:
    part = part_of(target)
    job = Job(lambda _progress: None, lambda: part.exists() and part.stat().st_size > 300_000)
    with pytest.raises(JobCancelled):
        download(remote, target, job)
    assert not target.exists()
    assert 300_000 < part.stat().st_size < len(CONTENT)


def test_only_web_addresses_are_opened(target: Path, job: Job) -> None:
    with pytest.raises(DownloadError, match="does not open"):
        download(Remote("file:///etc/hostname", "hostname", 10, ""), target, job)
