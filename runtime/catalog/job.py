"""A long job's way to say how far it is, and to hear that it should stop."""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from runtime.messages import FileShare

_REPORT_EVERY = 0.1
"""Seconds between reports: often enough for a moving bar, seldom enough to cost nothing."""
_RATE_WINDOW = 5.0
"""Seconds the shown speed looks back."""


class JobCancelled(Exception):
    """The job was stopped on request; what it leaves behind is resumable or gone."""


@dataclass(frozen=True, slots=True)
class Progress:
    """How far a job is in its present stage."""

    stage: str
    done: int = 0
    total: int | None = None
    """None while it cannot be told."""
    bytes_per_second: float | None = None
    """None for stages that do not move bytes."""
    share: FileShare | None = None
    """Of one file among several; the values above are that file's."""

    @property
    def seconds_left(self) -> float | None:
        """An estimate for all files from the speed of the last seconds."""
        done, total = (self.done, self.total) if self.share is None else (self.share.done, self.share.total)
        if not self.bytes_per_second or total is None:
            return None
        return max(0, total - done) / self.bytes_per_second


def _never() -> bool:
    return False


class Job:
    """Passed down through everything that takes long; knows nothing of threads or windows."""

    def __init__(
        self,
        report: Callable[[Progress], None],
        is_cancelled: Callable[[], bool] = _never,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._report = report
        self._is_cancelled = is_cancelled
        self._clock = clock
        self._stage = ""
        self._total: int | None = None
        self._counts_bytes = True
        self._reported_at = 0.0
        self._marks: deque[tuple[float, int]] = deque()

    def check(self) -> None:
        """Raise JobCancelled when the job should stop."""
        if self._is_cancelled():
            raise JobCancelled

    def begin(
        self, stage: str, total: int | None = None, done: int = 0, *, counts_bytes: bool = True
    ) -> None:
        """Enter a stage; `done` counts from 0 to `total`."""
        self.check()
        self._stage, self._total, self._counts_bytes = stage, total, counts_bytes
        self._marks = deque([(self._clock(), done)])
        self._send(done)

    def advance(self, done: int) -> None:
        """Say how far the stage is; reports are thinned out. Raises JobCancelled."""
        self.check()
        now = self._clock()
        if now - self._reported_at >= _REPORT_EVERY or done == self._total:
            self._marks.append((now, done))
            while self._marks[0][0] < now - _RATE_WINDOW:
                self._marks.popleft()
            self._send(done)

    def of_files(self, sizes: Sequence[int]) -> Iterator[Job]:
        """A job for each file of these sizes, in turn; what it reports says which file of how many it is."""
        before = furthest = 0

        def report(progress: Progress) -> None:
            nonlocal furthest
            # A file that has arrived is read once more for its hash; that takes nothing back.
            furthest = max(furthest, before + progress.done)
            share = FileShare(number, len(sizes), min(furthest, sum(sizes)), sum(sizes))
            self._report(replace(progress, share=share))

        for number, size in enumerate(sizes, 1):  # noqa: B007 - read by `report`
            yield Job(report, self._is_cancelled, self._clock)
            before += size

    def _send(self, done: int) -> None:
        self._reported_at = self._clock()
        self._report(Progress(self._stage, done, self._total, self._rate()))

    def _rate(self) -> float | None:
        (first_at, first), (last_at, last) = self._marks[0], self._marks[-1]
        if not self._counts_bytes or last_at - first_at < _REPORT_EVERY:
            return None
        return (last - first) / (last_at - first_at)
