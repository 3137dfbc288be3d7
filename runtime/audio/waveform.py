"""How loud a sound is over its length, for drawing it."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from runtime.audio.decode import AudioFile
from runtime.audio.pcm import SAMPLE_RATE, Samples

MOST_BINS = 2048


class Outline:
    """Loudest sample of each of at most MOST_BINS equally long parts of a stream of unknown length."""

    def __init__(self, bin_seconds: float = 0.02) -> None:
        self._bin = int(bin_seconds * SAMPLE_RATE)
        self._bins: list[float] = []
        self._rest = np.zeros(0, np.float32)

    def feed(self, block: Samples) -> None:
        """Add more sound; parts are joined in pairs when there are too many."""
        loudness = np.abs(np.concatenate((self._rest, block)))
        whole = len(loudness) - len(loudness) % self._bin
        if whole:
            self._bins += loudness[:whole].reshape(-1, self._bin).max(axis=1).tolist()
        self._rest = loudness[whole:]
        while len(self._bins) > MOST_BINS:
            self._halve()

    def bins(self) -> tuple[float, ...]:
        """The outline so far, values 0..1 rounded to what can be seen."""
        last = [float(self._rest.max())] if len(self._rest) else []
        return tuple(round(value, 3) for value in (*self._bins, *last))

    def _halve(self) -> None:
        if len(self._bins) % 2:
            # The odd one would cover half as much as the others; its sound goes back to the rest.
            self._rest = np.concatenate((np.full(self._bin, self._bins.pop(), np.float32), self._rest))
        pairs = np.array(self._bins, np.float32).reshape(-1, 2)
        self._bins = pairs.max(axis=1).tolist()
        self._bin *= 2


class FileOutline:
    """The outline of a file, a block at a time. Raises AudioError."""

    def __init__(self, path: Path) -> None:
        self._file = AudioFile(path)
        self._blocks = self._file.blocks()
        self._outline = Outline()

    def advance(self) -> bool:
        """Read the next block; False when there is none."""
        block = next(self._blocks, None)
        if block is None:
            return False
        self._outline.feed(block)
        return True

    @property
    def duration(self) -> float:
        """Seconds read so far."""
        return self._file.position

    def bins(self) -> tuple[float, ...]:
        """The outline so far."""
        return self._outline.bins()

    def close(self) -> None:
        """Release the file."""
        self._file.close()
