"""When something goes badly wrong: a log that survives a crash, and a hook that shows unexpected faults."""

from __future__ import annotations

import faulthandler
import os
import sys
import threading
from pathlib import Path
from types import TracebackType
from typing import TextIO

from PySide6.QtCore import QObject, Signal

from runtime.errors import ErrorInfo, InternalError, to_info

MAX_SHOWN = 20_000


class CrashLog:
    """faulthandler writes here; what the last run left is shown once and kept under another name."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._file: TextIO | None = None

    def open(self) -> ErrorInfo | None:
        """Begin to log; returns what the last run left, or None."""
        try:
            self._path.parent.mkdir(parents=True, exist_ok=True)
            left = self._take_left()
            self._file = self._path.open("w", encoding="utf-8")
        except OSError:
            # Without a log the program still works; the system's own crash report remains.
            return None
        faulthandler.enable(self._file)
        return left

    def close(self) -> None:
        """The program ends as it should: nothing is left for the next start."""
        if self._file is not None:
            faulthandler.disable()
            self._file.close()
            self._path.unlink(missing_ok=True)
            self._file = None

    def _take_left(self) -> ErrorInfo | None:
        if not self._path.exists():
            return None
        text = self._path.read_text(encoding="utf-8", errors="replace")
        if not text.strip():
            return None
        kept = self._path.with_name("crash-last.log")
        os.replace(self._path, kept)
        return InternalError(
            "The program crashed the last time it ran.",
            remedy=f"If it happens again, report it with the Details text, also kept as {kept}.",
            unharmed="Your conversations, transcripts and recordings were saved as they were made.",
            detail=text[:MAX_SHOWN],
        ).info


class FaultReporter(QObject):
    """Catches what nobody caught, in any thread, and tells the window."""

    fault_found = Signal(object)
    """ErrorInfo. Emitted in the thread of the fault; connect a slot of an object in the GUI thread."""

    def install(self) -> None:
        """Take over the interpreter's hooks."""
        sys.excepthook = self._on_exception
        threading.excepthook = self._on_thread_exception

    def uninstall(self) -> None:
        """Give the hooks back."""
        sys.excepthook = sys.__excepthook__
        threading.excepthook = threading.__excepthook__

    def _on_exception(
        self, kind: type[BaseException], error: BaseException, trace: TracebackType | None
    ) -> None:
        if issubclass(kind, KeyboardInterrupt):
            sys.__excepthook__(kind, error, trace)
            return
        self.fault_found.emit(to_info(error.with_traceback(trace)))

    def _on_thread_exception(self, args: threading.ExceptHookArgs) -> None:
        if args.exc_value is not None:
            self._on_exception(args.exc_type, args.exc_value, args.exc_traceback)
