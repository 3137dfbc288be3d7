"""A loopback server and a job that remembers what it was told."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from runtime.catalog.job import Job, Progress
from tests.runtime.catalog.file_server import FileServer, serving


class Watched:
    """A job, what it reported, and a switch that cancels it."""

    def __init__(self) -> None:
        self.reports: list[Progress] = []
        self.cancelled = False
        self.job = Job(self.reports.append, lambda: self.cancelled)

    @property
    def stages(self) -> list[str]:
        """The stages in order, each once."""
        return list(dict.fromkeys(report.stage for report in self.reports))


@pytest.fixture
def watched() -> Watched:
    """A fresh job."""
    return Watched()


@pytest.fixture
def job(watched: Watched) -> Job:
    """Only the job of `watched`."""
    return watched.job


@pytest.fixture
def server() -> Iterator[FileServer]:
    """A running loopback server."""
    with serving() as state:
        yield state
