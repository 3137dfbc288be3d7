"""`-m MODEL`: an installed model's id, or a model folder."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path

from runtime.catalog.library import Library
from runtime.config import RuntimeConfig
from runtime.errors import ModelNotFoundError


@dataclass(frozen=True, slots=True)
class ChosenModel:
    """The model a command runs on."""

    model_id: str
    folder: Path


def choose_model(config: RuntimeConfig, name: str) -> ChosenModel:
    """The model of that id, or in that folder. Raises ModelNotFoundError."""
    folder = Path(os.path.expanduser(name))  # unlike Path.expanduser, leaves an unknown ~user as it is
    if name and folder.is_dir():
        return ChosenModel(folder.name, folder.resolve())
    library = Library(config)
    if library.installed(name) is not None:
        return ChosenModel(name, library.folder(name))
    offered = {entry.model_id for entry in library.entries}
    raise ModelNotFoundError(
        f"There is no installed model and no model folder called {name}.",
        remedy=f"Run: mblt-desktop models fetch {name}"
        if name in offered
        else "See what is installed with: mblt-desktop models list",
    )
