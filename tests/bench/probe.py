"""A real window offscreen, watched from inside: run by `tests.bench.window` in a process of its own.

Prints one JSON document: when the first paint came, and how late a 10 ms timer of the GUI thread was while
the model loaded and while it answered. `bare` is the same without a window, a timer and the engine's thread:
what is late there is none of the window's doing.
"""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mblt_desktop.app import Application

os.environ["QT_QPA_PLATFORM"] = "offscreen"

PROMPT = "Tell me a long story about a fox and a lighthouse. Use many words."
TICK = 0.010
LONGEST = 15.0
"""Seconds of answering that are watched."""


class Heartbeat:
    """A 10 ms timer of the GUI thread; how late each tick was, in ms."""

    def __init__(self) -> None:
        from PySide6.QtCore import QTimer

        self._late: list[float] = []
        self._timer = QTimer()
        self._timer.setTimerType(self._timer.timerType().PreciseTimer)
        self._timer.setInterval(int(TICK * 1000))
        self._timer.timeout.connect(self._tick)
        self._last = time.perf_counter()
        self._timer.start()

    def _tick(self) -> None:
        now = time.perf_counter()
        self._late.append(max(0.0, (now - self._last - TICK) * 1000))
        self._last = now

    def take(self) -> list[float]:
        """All since the last time."""
        late, self._late = self._late, []
        return late


def smoothness(whole: Application) -> dict[str, list[float]]:
    """How late the timer was while the model loads and while it answers for some seconds at most."""
    from PySide6.QtCore import QEventLoop, QTimer

    loaded, ended = QEventLoop(), QEventLoop()
    whole.dispatcher.model_loaded.connect(loaded.quit)
    whole.window.chat.session.ended.connect(ended.quit)
    heart = Heartbeat()
    loaded.exec()
    loading = heart.take()
    whole.window.chat.composer.submitted.emit(PROMPT, ())
    QTimer.singleShot(int(1000 * LONGEST), whole.window.chat.stop)
    ended.exec()
    return {"loading": loading, "generating": heart.take()}


def bare(models: Path, home: Path) -> dict[str, list[float]]:
    """The same of a timer beside a thread that loads the model and answers, and nothing else."""
    from threading import Thread

    from PySide6.QtCore import QEventLoop, QObject, Signal

    class Marks(QObject):
        loaded, ended = Signal(), Signal()

    marks = Marks()
    first, second = QEventLoop(), QEventLoop()
    marks.loaded.connect(first.quit)
    marks.ended.connect(second.quit)
    heart = Heartbeat()
    thread = Thread(target=_load_and_answer, args=(models, home, marks.loaded.emit, marks.ended.emit))
    thread.start()
    first.exec()
    loading = heart.take()
    second.exec()
    thread.join()
    return {"loading": loading, "generating": heart.take()}


def _load_and_answer(models: Path, home: Path, loaded: Callable[[], None], ended: Callable[[], None]) -> None:
    from runtime.answering.engine import Engine
    from runtime.catalog.entries import DEMO_CHAT
    from runtime.config import RuntimeConfig
    from runtime.lanes.lane import CancelMarks
    from runtime.layout.request import LayoutRequest
    from runtime.messages import Event, Generate, LoadModel, TextPart, Turn
    from runtime.sampling.params import SamplingRequest

    events: list[Event] = []
    engine = Engine(RuntimeConfig(home, "simulated"), events.append, CancelMarks())
    engine.open()
    engine.handle(LoadModel(DEMO_CHAT, str(models / DEMO_CHAT), LayoutRequest()))
    loaded()
    turns = (Turn("user", (TextPart(PROMPT),)),)
    engine.handle(Generate("r", "c", DEMO_CHAT, turns, SamplingRequest(), time.perf_counter_ns()))
    until = time.monotonic() + LONGEST
    while engine.step() and time.monotonic() < until:
        pass
    ended()
    engine.close()


def main() -> int:
    """`probe.py MODELS_DIR HOME first|whole|bare`."""
    models, home, part = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    os.environ["MBLT_DESKTOP_HOME"] = str(home)
    from PySide6.QtCore import QEventLoop
    from PySide6.QtWidgets import QApplication

    if part == "bare":
        probe = QApplication([])
        _say(bare(models, home))
        del probe
        return 0
    from mblt_desktop.app import Application
    from mblt_desktop.paths import default_paths

    paths = default_paths()
    if part == "whole":
        paths.data.mkdir(parents=True, exist_ok=True)
        (paths.data / "models").symlink_to(models)
    app = QApplication([])
    whole = Application(app, paths, "simulated")
    report: dict[str, object] = {}
    painted = QEventLoop()
    whole.window.painted.connect(painted.quit)
    whole.window.show()
    painted.exec()
    report["painted_ns"] = time.monotonic_ns()
    if part == "whole":
        report |= smoothness(whole)
    ended_in_time = whole.shut_down()
    _say(report)
    # Right after the first paint a busy machine still imports what it asks the device with.
    os._exit(0 if ended_in_time or part == "first" else 1)


def _say(report: Mapping[str, object]) -> None:
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()


if __name__ == "__main__":
    sys.exit(main())
