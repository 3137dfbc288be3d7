"""A recorder lane of its own for every test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.runtime.tracing.recorder_lane import Lane, make_lane


@pytest.fixture
def lane(tmp_path: Path) -> Iterator[Lane]:
    made = make_lane(tmp_path / "data")
    yield made
    made.service.close()
