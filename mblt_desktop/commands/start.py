"""What commands that run a model have in common: the user's limits, layouts refused at once, slow devices."""

from __future__ import annotations

import argparse
import sys
from dataclasses import replace
from pathlib import Path

from mblt_desktop.configuration import configured, settings_of
from mblt_desktop.overdue import overdue_words
from mblt_desktop.paths import default_paths
from runtime.config import EngineOptions, RuntimeConfig
from runtime.device.active import activate, limit_calls
from runtime.layout.check import validate_for
from runtime.layout.request import LayoutRequest
from runtime.messages import CallOverdue, Event
from runtime.settings.table import device_from_args


def config_for(args: argparse.Namespace) -> RuntimeConfig:
    """The runtime on the device that was asked for, as the user's settings file has it."""
    paths = default_paths()
    get, problems = settings_of(paths.settings_file)
    for problem in problems:
        print(f"warning: {problem.sentence()}", file=sys.stderr)  # noqa: T201 - the command line's output
    config = configured(paths.data, device_from_args(args), get)
    # A command's conversation ends with it: nothing on the disk would ever be used, and what is measured
    # neither.
    kv = replace(config.engine.kv, keep_on_disk=False, calibrate=False)
    return replace(config, engine=EngineOptions(kv))


def check_layout(layout: LayoutRequest, folder: Path, config: RuntimeConfig) -> None:
    """Raise LayoutError when the board, or the model in `folder`, does not allow what was asked for.

    That takes the vendor's rules and the number of boards, but no model and none of the large packages.
    """
    if layout != LayoutRequest():
        limit_calls(config.stall_seconds)  # read when the NPU software is imported, which is now
        active = activate(config.device)
        validate_for(folder, layout, active.board, active.devices)


def say_overdue(event: Event) -> None:
    """Say on standard error that the device does not answer, when the event is about that."""
    if isinstance(event, CallOverdue):
        words = overdue_words(event, "Ctrl+C")
        print(f"\nnote: {words}", file=sys.stderr)  # noqa: T201 - the command line's output
