"""`make screenshots`: every pane after real work, light and dark, 1440×900, into docs/screenshots/.

The real program with the real demo models on the simulated device, offscreen: nothing in the pictures is made
up. The work is done in a temporary home that borrows the user's models.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

os.environ["QT_QPA_PLATFORM"] = "offscreen"

from PySide6.QtCore import QEventLoop, QTimer
from PySide6.QtWidgets import QApplication

from mblt_desktop.app import Application
from mblt_desktop.paths import Paths, default_paths
from runtime.catalog.entries import DEMO_CHAT
from runtime.config import RuntimeConfig
from runtime.errors import ErrorInfo
from runtime.messages import (
    Event,
    Failed,
    Finished,
    ModelFailed,
    ModelsListed,
    RecordingAnalysed,
    RecordingFailed,
    RecordingFinished,
    RecordingStarted,
    Transcribed,
)

ROOT = Path(__file__).resolve().parent.parent
SAMPLES = ROOT / "resources" / "samples"
PANES = ("chat", "image", "microphone", "tracing", "models", "settings")
SIZE = (1440, 900)
LONGEST_WAIT = 180.0
SETTLE_MS = 600
"""For what a pane still draws after its last event: decoded pictures, scrolled text."""
PROMPTS = (
    "Why is the sky blue? Answer in two sentences.",
    "Write a short Python function that adds two numbers.",
)


class Photographer:
    """Drives the window as a person would, and waits for what that leads to."""

    def __init__(self, whole: Application) -> None:
        self.whole = whole
        self.window = whole.window
        self._events: list[Event] = []
        self._visited: set[str] = set()
        whole.dispatcher.event_received.connect(self._events.append)

    def wait_for(self, kind: type[Event]) -> Any:
        """The next event of that kind; a failure ends the program with its sentence."""

        def find() -> Event | None:
            for event in self._events:
                error: ErrorInfo | None = getattr(event, "error", None)
                if isinstance(event, Failed | ModelFailed | RecordingFailed) and error is not None:
                    raise SystemExit(f"error: {error.sentence()}\n{error.detail}")
            return next((event for event in self._events if isinstance(event, kind)), None)

        found = wait_until(find, kind.__name__)
        self._events.clear()
        return found

    def work(self) -> None:
        """A recorded chat of two turns, a transcript, a picture."""
        self.window.toggle_recording()
        self.wait_for(RecordingStarted)
        wait_until(lambda: self.whole.dispatcher.loaded.get(DEMO_CHAT), "the chat model")
        for prompt in PROMPTS:
            self.window.navigate("chat")
            self.window.chat.composer.submitted.emit(prompt, ())
            self.wait_for(Finished)
        self.window.open_files([SAMPLES / "jfk.flac"])
        self.wait_for(Transcribed)
        self.window.toggle_recording()
        self.wait_for(RecordingFinished)
        self.window.open_files([SAMPLES / "delivery-note.png"])
        pause(SETTLE_MS)

    def visit(self, pane: str) -> None:
        """Bring a pane to the front and wait until it shows what it has."""
        self._events.clear()
        first = pane not in self._visited
        self._visited.add(pane)
        self.window.navigate(pane)
        if pane == "models":
            self.wait_for(ModelsListed)
        elif pane == "tracing" and first:
            self.wait_for(RecordingAnalysed)
        pause(SETTLE_MS)

    def shoot(self, folder: Path) -> None:
        """Every pane in both appearances."""
        for mode in ("light", "dark"):
            self.whole.context.theme.set_mode(mode)
            for pane in PANES:
                self.visit(pane)
                self.window.grab().save(str(folder / f"{pane}-{mode}.png"))
                sys.stdout.write(f"{folder / pane}-{mode}.png\n")


def wait_until(found: Callable[[], Any], what: str) -> Any:
    """Let the window live until `found` returns something; it is returned."""
    end = time.monotonic() + LONGEST_WAIT
    while not (result := found()):
        if time.monotonic() > end:
            raise SystemExit(f"error: {what} did not come within {LONGEST_WAIT:.0f} s")
        pause(20)
    return result


def pause(milliseconds: int) -> None:
    """Run the event loop for a while."""
    loop = QEventLoop()
    QTimer.singleShot(milliseconds, loop.quit)
    loop.exec()


def main(arguments: Sequence[str]) -> int:
    """Work, then take the pictures; an argument names another folder than docs/screenshots."""
    folder = Path(arguments[0]) if arguments else ROOT / "docs" / "screenshots"
    folder.mkdir(parents=True, exist_ok=True)
    models = RuntimeConfig(default_paths().data).models_dir
    with tempfile.TemporaryDirectory(prefix="mblt-screenshots-") as home:
        root = Path(home)
        (root / "data").mkdir()
        (root / "data" / "models").symlink_to(models)
        app = QApplication(sys.argv[:1])
        whole = Application(
            app, Paths(root / "data", root / "config", root / "cache", root / "state"), "simulated"
        )
        whole.window.resize(*SIZE)
        whole.window.show()
        photographer = Photographer(whole)
        try:
            photographer.work()
            photographer.shoot(folder)
        finally:
            whole.shut_down()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
