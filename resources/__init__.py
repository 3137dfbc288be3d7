"""Icons and samples shipped with the program."""

from __future__ import annotations

from importlib.resources import files
from pathlib import Path


def sample(name: str) -> Path:
    """A file of the samples to try things with."""
    return Path(str(files("resources") / "samples" / name))
