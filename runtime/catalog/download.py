"""One file over HTTP: resumed where it was cut, checked against its hash, in place only when whole.

The unfinished file is `<target>.part`; only a checked file gets the target's name, by an atomic rename.
"""

from __future__ import annotations

import hashlib
import http.client
import os
import shutil
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import IO

from runtime.catalog.job import Job
from runtime.errors import DiskFullError, DownloadError, HashMismatchError, NetworkError, storage_error

_CHUNK = 1 << 18
_TIMEOUT = 8.0
"""Seconds without a byte after which the connection is opened anew; also the longest wait for a Cancel."""
_TRIES_WITHOUT_NEWS = 3
"""Tries that bring no byte further before giving up."""
_RETRY_STATUS = frozenset({408, 425, 429, 500, 502, 503, 504})
_ACCESS_STATUS = frozenset({401, 403, 407})
_UNHARMED = "Installed models are unharmed."


class AccessRefusedError(DownloadError):
    """The server wants credentials that we do not have."""

    code = "download.refused"


class _CutError(Exception):
    """The connection failed; trying again may help."""


@dataclass(frozen=True, slots=True)
class Remote:
    """A file to download and what it must be."""

    url: str
    title: str
    """What people call it, for messages."""
    bytes: int
    sha256: str
    """Empty when the source does not publish one; then only the size is checked."""
    headers: Mapping[str, str] = field(default_factory=dict)


def part_of(target: Path) -> Path:
    """Where the unfinished download of `target` is kept."""
    return target.with_name(target.name + ".part")


def download(remote: Remote, target: Path, job: Job) -> Path:
    """Bring `remote` to `target`, going on from what is already there; returns `target`.

    A file with the wrong hash is thrown away and fetched once more. Raises NetworkError, HashMismatchError,
    AccessRefusedError, DownloadError, a StorageError, or JobCancelled.
    """
    part = part_of(target)
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        if target.is_file() and matches(target, remote, job):
            return target
        for _attempt in range(2):
            _require_space(remote, part)
            _fill(remote, part, job)
            if matches(part, remote, job):
                os.replace(part, target)
                return target
            part.unlink()
    except OSError as error:
        raise storage_error(error, str(target.parent), unharmed=_UNHARMED) from error
    raise HashMismatchError(
        f"{remote.title} arrived twice with other contents than the catalogue expects, and was thrown away.",
        unharmed=_UNHARMED,
        remedy="Try again later; if it stays so, a proxy or mirror on the way changes files.",
        detail=f"expected {remote.bytes} bytes with SHA-256 {remote.sha256}",
    )


def matches(path: Path, remote: Remote, job: Job) -> bool:
    """Whether the file has the size and hash that `remote` promises."""
    if path.stat().st_size != remote.bytes:
        return False
    return not remote.sha256 or sha256_of(path, job, f"Checking {remote.title}") == remote.sha256


def sha256_of(path: Path, job: Job, stage: str) -> str:
    """The file's SHA-256 in hex, reporting as it goes."""
    return hash_files([path], job, stage)[0]


def hash_files(paths: Sequence[Path], job: Job, stage: str) -> list[str]:
    """The files' SHA-256 in hex, reporting them as one stage."""
    job.begin(stage, sum(path.stat().st_size for path in paths))
    result, done = [], 0
    for path in paths:
        digest = hashlib.sha256()
        with path.open("rb") as file:
            while chunk := file.read(_CHUNK):
                digest.update(chunk)
                done += len(chunk)
                job.advance(done)
        result.append(digest.hexdigest())
    return result


def _require_space(remote: Remote, part: Path) -> None:
    have = part.stat().st_size if part.is_file() else 0
    free = shutil.disk_usage(part.parent).free
    if remote.bytes - have > free:
        raise DiskFullError(
            f"{remote.title} needs {(remote.bytes - have) / 1e6:.0f} MB in {part.parent}, but only"
            f" {free / 1e6:.0f} MB are free.",
            unharmed=_UNHARMED,
            remedy="Free some space, then try again.",
        )


def _fill(remote: Remote, part: Path, job: Job) -> None:
    """Append to `part` until it has all its bytes, opening the connection anew when it is cut."""
    failures, furthest = 0, _size(part)
    while _size(part) < remote.bytes:
        cause = "the source ended it early"
        try:
            _append(remote, part, job)
        except _CutError as error:
            cause = str(error)
        failures = 0 if _size(part) > furthest else failures + 1
        furthest = max(furthest, _size(part))
        if failures >= _TRIES_WITHOUT_NEWS:
            raise NetworkError(
                f"{remote.title} could not be downloaded completely: the connection to its source failed.",
                unharmed=f"The {_size(part) / 1e6:.0f} MB that arrived are kept. {_UNHARMED}",
                remedy="Check the network, then fetch it again; it goes on where it stopped.",
                detail=cause,
            )
    if _size(part) > remote.bytes:
        os.truncate(part, 0)


def _size(path: Path) -> int:
    return path.stat().st_size if path.exists() else 0


def _append(remote: Remote, part: Path, job: Job) -> None:
    have = _size(part)
    job.begin(f"Downloading {remote.title}", remote.bytes, have)
    with _open(remote, part, have) as response:
        # A server that does not know ranges sends the whole file again.
        starts_over = have > 0 and response.status != http.HTTPStatus.PARTIAL_CONTENT
        with part.open("wb" if starts_over else "ab") as file:
            _copy(_reader(response), file, 0 if starts_over else have, remote, job)


def _open(remote: Remote, part: Path, start: int) -> http.client.HTTPResponse:
    """The response from byte `start` on; raises _CutError where another try may help."""
    if urllib.parse.urlsplit(remote.url).scheme not in ("http", "https"):
        raise DownloadError(
            f"{remote.title} has a source address of a kind this program does not open.",
            remedy="Check the package index or hub address in your settings.",
            detail=remote.url,
        )
    request = urllib.request.Request(remote.url, headers=dict(remote.headers))
    if start:
        request.add_header("Range", f"bytes={start}-")
    try:
        response: http.client.HTTPResponse = urllib.request.urlopen(request, timeout=_TIMEOUT)
    except urllib.error.HTTPError as error:
        error.close()
        if error.code == http.HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
            os.truncate(part, 0)  # what lies there is of another file; begin anew
            raise _CutError("the source has another file by now") from error
        raise _refusal(remote, error) from error
    except (OSError, http.client.HTTPException) as error:
        raise _CutError(f"{type(error).__name__}: {error}") from error
    return response


def _refusal(remote: Remote, error: urllib.error.HTTPError) -> Exception:
    detail = f"HTTP {error.code} {error.reason}"
    if error.code in _RETRY_STATUS:
        return _CutError(detail)
    if error.code in _ACCESS_STATUS:
        return AccessRefusedError(
            f"The source of {remote.title} refuses access.",
            unharmed=_UNHARMED,
            remedy="Log in to the hub (or set the index's credentials), then try again.",
            detail=detail,
        )
    return DownloadError(
        f"{remote.title} is not at its source any more.",
        unharmed=_UNHARMED,
        remedy="Update the app, or choose another model.",
        detail=detail,
    )


def _reader(response: http.client.HTTPResponse) -> Callable[[], bytes]:
    """Reads a chunk; connection trouble becomes _CutError so that it is not taken for a full disk."""

    def read() -> bytes:
        try:
            return response.read1(_CHUNK)
        except (OSError, http.client.HTTPException) as error:
            raise _CutError(f"{type(error).__name__}: {error}") from error

    return read


def _copy(read: Callable[[], bytes], file: IO[bytes], done: int, remote: Remote, job: Job) -> None:
    # One byte too many is enough to know that it is the wrong file; never fill the disk with it.
    while done <= remote.bytes and (chunk := read()):
        file.write(chunk)
        done += len(chunk)
        job.advance(min(done, remote.bytes))
