"""One line of a timeline at several resolutions, so that drawing it costs as much as the screen is wide.

The spans of one line do not overlap, so their starts and their ends are both sorted. Level 0 holds them all;
each further level keeps one entry per stretch of time, which stands for everything that begins in it.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    Times = npt.NDArray[np.int64]
    Numbers = npt.NDArray[np.int32]

FEW = 4096
"""Lines with no more spans than this need no coarser level."""
FACTOR = 8


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """Entries sorted by time; `span` is the track's span that an entry stands for, its longest."""

    resolution: int
    """ns that one entry covers at least; 0 when every span is there."""
    start: Times
    end: Times
    span: Numbers

    def between(self, low: int, high: int) -> slice:
        """The entries that show in [low, high)."""
        return slice(int(self.end.searchsorted(low, "left")), int(self.start.searchsorted(high, "left")))


def build_levels(start: Times, end: Times, span: Numbers) -> tuple[Level, ...]:
    """All levels of a line, finest first."""
    levels = [Level(0, start, end, span)]
    while len(levels[-1].start) > FEW:
        finest = levels[-1]
        length = int(finest.end[-1] - finest.start[0])
        resolution = max(finest.resolution * FACTOR, length * FACTOR // len(finest.start), 1)
        levels.append(_coarser(finest, resolution))
        if len(levels[-1].start) > len(finest.start) // 2:
            break
    return tuple(levels)


def choose(levels: tuple[Level, ...], ns_per_pixel: float) -> Level:
    """The coarsest level that still has an entry for every pixel."""
    return next((level for level in reversed(levels) if level.resolution <= ns_per_pixel), levels[0])


def _coarser(level: Level, resolution: int) -> Level:
    import numpy as np

    bucket = (level.start - level.start[0]) // resolution
    by_length = np.lexsort((level.end - level.start, bucket))
    # Sorted by bucket, then length: the last of each bucket is its longest.
    last = np.flatnonzero(np.append(np.diff(bucket[by_length]) != 0, True))
    first = np.flatnonzero(np.append(True, np.diff(bucket) != 0))
    return Level(
        resolution,
        level.start[first],
        np.maximum.reduceat(level.end, first),
        level.span[by_length[last]],
    )
