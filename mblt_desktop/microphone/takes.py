"""Microphone takes on disk: named by their time, found again after a crash, deleted with a way back."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Iterable
from pathlib import Path

_PREFIX = "take-"
_TRASH = ".deleted-"


class TakeFolder:
    """The takes in the media folder. Names only: no audio is read here."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder

    def new_path(self) -> Path:
        """A name that no take has yet."""
        stem = _PREFIX + time.strftime("%Y-%m-%d-%H%M%S")
        for number in range(1, 1000):
            path = self._folder / (f"{stem}.wav" if number == 1 else f"{stem}-{number}.wav")
            if not path.exists():
                return path
        raise AssertionError("a thousand takes within one second")

    def is_take(self, path: Path) -> bool:
        """Whether the file is one of ours."""
        return path.parent == self._folder and path.name.startswith(_PREFIX)

    def unfinished(self, transcribed: Iterable[str]) -> list[Path]:
        """Takes without a transcript, oldest first: the program ended before it was made."""
        known = {Path(source).name for source in transcribed}
        return sorted(path for path in self._folder.glob(f"{_PREFIX}*.wav") if path.name not in known)

    def discard(self, path: Path) -> None:
        """Delete a take; until the next start `restore` brings it back."""
        with contextlib.suppress(OSError):
            path.rename(path.with_name(_TRASH + path.name))

    def restore(self, path: Path) -> None:
        """Undo a discard."""
        with contextlib.suppress(OSError):
            path.with_name(_TRASH + path.name).rename(path)

    def empty_trash(self) -> None:
        """Delete for good what was discarded before this start."""
        for path in self._folder.glob(f"{_TRASH}*"):
            with contextlib.suppress(OSError):
                path.unlink()


def title_of(path: Path) -> str:
    """What a take is called: the moment it was recorded."""
    try:
        moment = time.strptime(path.stem[len(_PREFIX) : len(_PREFIX) + 17], "%Y-%m-%d-%H%M%S")
    except ValueError:
        return path.name
    return f"Recording, {moment.tm_mday} {time.strftime('%B, %H:%M', moment)}"
