"""Headers that are not what the builder wrote."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from runtime.errors import ModelDamagedError
from runtime.simulator import artifact
from runtime.simulator.roles import make_executor


def assert_refused(path: Path, key: str, value: Any) -> None:
    """The network must not be made with this value in its architecture; the error names the file."""
    header = artifact.read_header(path)
    damaged = replace(header, architecture={**header.architecture, key: value})
    with pytest.raises(ModelDamagedError, match=path.name):
        make_executor(path, damaged)
