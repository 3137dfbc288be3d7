"""The log: a file of bounded size for the window, standard error for a command that is asked to be verbose.

Only what this program logs itself, which is never what somebody wrote, said or showed.
"""

from __future__ import annotations

import contextlib
import logging
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from logging.handlers import RotatingFileHandler
from pathlib import Path

FILE = "mblt-desktop.log"
_LARGEST = 1_000_000
_KEPT = 3
"""Older files, each as large."""
_OURS = ("mblt_desktop", "runtime")


class _OneLine(logging.Formatter):
    """A record is one line, whatever a model folder is called."""

    def format(self, record: logging.LogRecord) -> str:
        """The record's line."""
        return "".join(char if char.isprintable() else " " for char in super().format(record))


class _File(RotatingFileHandler):
    """What cannot be written is lost; the program goes on."""

    def handleError(self, record: logging.LogRecord) -> None:
        """A full disk, for example."""


@contextmanager
def to_file(folder: Path) -> Iterator[None]:
    """Write the log of the block into the folder; without one that can be written to there is none."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
    except OSError:
        yield
        return
    file = _File(folder / FILE, maxBytes=_LARGEST, backupCount=_KEPT, encoding="utf-8", delay=True)
    with _taken_by(file):
        yield


@contextmanager
def to_stderr(*, verbose: bool) -> Iterator[None]:
    """Show the log of the block on standard error, or, unless `verbose`, nowhere."""
    with _taken_by(logging.StreamHandler(sys.stderr) if verbose else logging.NullHandler()):
        yield


@contextmanager
def _taken_by(handler: logging.Handler) -> Iterator[None]:
    handler.setFormatter(_OneLine("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    loggers = [logging.getLogger(name) for name in _OURS]
    before = [logger.level for logger in loggers]
    for logger in loggers:
        logger.addHandler(handler)
        logger.setLevel(logging.INFO)
    try:
        yield
    finally:
        for logger, level in zip(loggers, before, strict=True):
            logger.removeHandler(handler)
            logger.setLevel(level)
        with contextlib.suppress(OSError):  # a full disk is told again for what was not written
            handler.close()
