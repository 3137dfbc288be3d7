"""Commands and events of the models on disk; the library lane answers them."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from runtime.messages.models import DESCRIBERS, ModelKind


@dataclass(frozen=True, slots=True)
class CatalogRow:
    """A model that is installed or can be."""

    model_id: str
    title: str
    kind: ModelKind
    family: str
    device: Literal["simulated", "npu", "cpu"]
    state: Literal["installed", "partial", "available"]
    folder: str
    download_bytes: int
    disk_bytes: int
    licence: str
    note: str = ""

    @property
    def only_describes(self) -> bool:
        """As `ModelInfo` has it: it takes no question, so it cannot chat."""
        return self.family in DESCRIBERS


# -- commands -------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ListModels:
    """Look at the model folders; answered by `ModelsListed`.

    With `ask_hub`, and a board in this computer, the vendor's published models are looked up, too; they come
    in a second answer. Nothing goes over the network without it.
    """

    ask_hub: bool = False


@dataclass(frozen=True, slots=True)
class FetchModel:
    """Download, verify and prepare a catalogue entry."""

    request_id: str
    model_id: str


@dataclass(frozen=True, slots=True)
class ImportModel:
    """Copy a compiled model folder into the library, or compile a checkpoint for the simulated device."""

    request_id: str
    folder: str


@dataclass(frozen=True, slots=True)
class VerifyModel:
    """Check every file of an installed model against its recorded hashes."""

    request_id: str
    model_id: str


@dataclass(frozen=True, slots=True)
class RemoveModel:
    """Delete an installed model from the disk."""

    request_id: str
    model_id: str


# -- events ---------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class ModelsListed:
    """What is installed and what can be."""

    rows: tuple[CatalogRow, ...]
    notice: str = ""
    """What could not be looked up and what to do, in words."""


@dataclass(frozen=True, slots=True)
class FileShare:
    """Which of a model's files a job is at, and how far all of them are together."""

    number: int
    """From 1."""
    files: int
    done: int
    """Bytes that are here, of all files; never fewer than were told before."""
    total: int

    @property
    def words(self) -> str:
        """E.g. "file 2 of 7"."""
        return f"file {self.number} of {self.files}"


@dataclass(frozen=True, slots=True)
class JobProgress:
    """A long job of the library lane; bytes where they mean something, else a fraction."""

    request_id: str
    stage: str
    done: int = 0
    total: int | None = None
    bytes_per_second: float | None = None
    share: FileShare | None = None
    """Of one file among several; the values above are that file's."""


@dataclass(frozen=True, slots=True)
class JobFinished:
    """A library job is done; `message` says what came of it."""

    request_id: str
    message: str
