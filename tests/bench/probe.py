"""A real window offscreen, watched from inside: run by `tests.bench.window` in a process of its own.

Prints one JSON document: when the first paint came, and how late a 10 ms timer of the GUI thread was while
the model loaded and while it answered.
"""

from __future__ import annotations

import json
import os
import sys
import time
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mblt_desktop.app import Application

os.environ["QT_QPA_PLATFORM"] = "offscreen"

PROMPT = "Tell me a long story about a fox and a lighthouse. Use many words."
TICK = 0.010


def smoothness(whole: Application) -> dict[str, list[float]]:
    """How late the timer was, in ms, while the model loads and while it answers for 15 seconds at most."""
    from PySide6.QtCore import QEventLoop, QTimer

    lateness: list[float] = []
    last = time.perf_counter()

    def tick() -> None:
        nonlocal last
        now = time.perf_counter()
        lateness.append(max(0.0, (now - last - TICK) * 1000))
        last = now

    timer = QTimer()
    timer.setTimerType(timer.timerType().PreciseTimer)
    timer.setInterval(int(TICK * 1000))
    timer.timeout.connect(tick)
    loaded, ended = QEventLoop(), QEventLoop()
    whole.dispatcher.model_loaded.connect(loaded.quit)
    whole.window.chat.session.ended.connect(ended.quit)
    last = time.perf_counter()
    timer.start()
    loaded.exec()
    loading = list(lateness)
    lateness.clear()
    whole.window.chat.composer.submitted.emit(PROMPT, ())
    QTimer.singleShot(15_000, whole.window.chat.stop)
    ended.exec()
    timer.stop()
    return {"loading": loading, "generating": lateness}


def main() -> int:
    """`probe.py MODELS_DIR HOME first|whole`."""
    models, home, part = Path(sys.argv[1]), Path(sys.argv[2]), sys.argv[3]
    os.environ["MBLT_DESKTOP_HOME"] = str(home)

    from PySide6.QtCore import QEventLoop
    from PySide6.QtWidgets import QApplication

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
    sys.stdout.write(json.dumps(report) + "\n")
    sys.stdout.flush()
    os._exit(0 if ended_in_time else 1)


if __name__ == "__main__":
    sys.exit(main())
