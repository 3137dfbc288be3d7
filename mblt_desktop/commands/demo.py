"""`mblt-desktop demo`: the main job once, without a screen: an answer, a transcript, a trace, a picture."""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

from mblt_desktop.paths import Paths, default_paths
from resources import sample
from runtime.catalog.entries import DEMO_CHAT, DEMO_SPEECH
from runtime.catalog.library import Library
from runtime.config import RuntimeConfig
from runtime.errors import storage_error
from runtime.settings.table import SETTINGS, device_from_args

if TYPE_CHECKING:
    from mblt_desktop.tour import Tour

PROMPT = "What is a neural network? Answer in one sentence."
SAMPLE = sample("jfk.flac")
SIZE = (1440, 900)


def add_parser(subparsers: argparse._SubParsersAction[argparse.ArgumentParser]) -> None:
    """Declare the command."""
    parser = subparsers.add_parser(
        "demo",
        help="do the main job once, without a screen",
        description="Answer a sample prompt, transcribe a sample clip, record a trace of both and render the "
        "window to a picture. Needs no display.",
    )
    parser.add_argument(
        "--device", dest="layout_device", metavar="auto|npu|simulated", help=SETTINGS["layout.device"].help
    )
    parser.add_argument("-o", "--output", type=Path, metavar="DIR", help="where trace and picture go")
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Drive the real window offscreen; 0 when everything worked."""
    device = device_from_args(args)
    paths = default_paths()
    output = args.output or paths.data / "demo"
    if not _models_ready(paths):
        return 1
    try:
        output.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise storage_error(error, str(output)) from error
    os.environ["QT_QPA_PLATFORM"] = "offscreen"
    from PySide6.QtWidgets import QApplication

    from mblt_desktop.tour import Tour

    app = QApplication([])
    with tempfile.TemporaryDirectory(prefix="mblt-demo-", ignore_cleanup_errors=True) as folder:
        tour = Tour(app, _paths_for(paths, Path(folder)), device)
        try:
            tour.window.resize(*SIZE)
            _tour(tour, output)
        finally:
            tour.close()
    return 0


def _tour(tour: Tour, output: Path) -> None:
    info = tour.start()
    _say(f"Loaded {info.title} on {info.device}.")
    tour.start_recording()
    _say(f"\nYou: {PROMPT}")
    answer = tour.ask(PROMPT)
    _say(f"{info.title}: {answer.text.strip()}")
    transcript = tour.transcribe(SAMPLE)
    _say(f"\n{SAMPLE.name}, heard by {transcript.engine}:")
    for segment in transcript.segments:
        _say(f"  {segment.start:6.2f} – {segment.end:6.2f}  {segment.text.strip()}")
    recording = tour.stop_recording()
    trace = output / "demo.pftrace"
    shutil.copyfile(recording.path, trace)
    tour.window.navigate("chat")
    tour.settle(0.5)
    picture = output / "window.png"
    tour.picture(picture)
    _say(f"\nTrace:   {trace}  ({recording.host_events} host and {recording.device_events} device events)")
    _say(f"Picture: {picture}")
    if recording.simulated:
        _say("The device was simulated on the CPU: its times are not those of an NPU.")


def _models_ready(paths: Paths) -> bool:
    """Fetch the demo models that are not installed; False when that failed (and was said)."""
    from mblt_desktop.cli import main

    library = Library(RuntimeConfig(paths.data))
    missing = [name for name in (DEMO_CHAT, DEMO_SPEECH) if library.installed(name) is None]
    return not missing or main(["models", "fetch", *missing]) == 0


def _paths_for(user: Paths, folder: Path) -> Paths:
    """A home of its own with the user's models, so that the demo leaves no chats behind."""
    demo = Paths(folder / "data", folder / "config", folder / "cache", folder / "state")
    demo.data.mkdir()
    (demo.data / "models").symlink_to(RuntimeConfig(user.data).models_dir, target_is_directory=True)
    return demo


def _say(text: str) -> None:
    sys.stdout.write(text + "\n")
    sys.stdout.flush()
