"""One line on standard error that shows how far a long job is; silent when nobody watches."""

from __future__ import annotations

import shutil
import sys
from types import TracebackType

from runtime.catalog.job import Progress

_BAR = 24


class ProgressBar:
    """Draws over its own line on a terminal; elsewhere it names each stage once."""

    def __init__(self, title: str) -> None:
        self._title = title
        self._stage = ""
        self._terminal = sys.stderr.isatty()
        self._drawn = False

    def __enter__(self) -> ProgressBar:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._drawn:
            sys.stderr.write("\r\x1b[K")
            sys.stderr.flush()

    def show(self, progress: Progress) -> None:
        """Draw the present state."""
        if self._terminal:
            width = shutil.get_terminal_size().columns - 1
            sys.stderr.write("\r\x1b[K" + line(self._title, progress)[:width])
            self._drawn = True
        elif _stage(progress) != self._stage:
            sys.stderr.write(f"{self._title}: {_stage(progress)}\n")
        self._stage = _stage(progress)
        sys.stderr.flush()


def line(title: str, progress: Progress) -> str:
    """The state in one line: bar, share, speed and the time left, each only when known."""
    parts = [f"{title}:"]
    done, total = progress.done, progress.total
    if progress.share is not None:
        done, total = progress.share.done, progress.share.total
    if total:
        share = min(1.0, done / total)
        filled = round(share * _BAR)
        parts.append(f"[{'#' * filled}{'.' * (_BAR - filled)}] {share:4.0%}")
    parts.append(_stage(progress))
    if progress.bytes_per_second:
        parts.append(f"{progress.bytes_per_second / 1e6:.1f} MB/s")
    if progress.seconds_left is not None and progress.seconds_left >= 1:
        parts.append(f"{progress.seconds_left:.0f} s left")
    return " ".join(parts)


def _stage(progress: Progress) -> str:
    """What is being done, and with which of several files."""
    return progress.stage if progress.share is None else f"{progress.stage}, {progress.share.words}"
