"""The window: what runs when no subcommand is named."""

from __future__ import annotations

import argparse
import os
from pathlib import Path

from runtime.errors import SettingError
from runtime.settings.table import SETTINGS, device_from_args


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """The options of the window."""
    parser.add_argument("files", nargs="*", type=Path, metavar="FILES", help="Files to open in their panes.")
    parser.add_argument(
        "--device", dest="layout_device", metavar="auto|npu|simulated", help=SETTINGS["layout.device"].help
    )
    parser.set_defaults(run=run)


def run(args: argparse.Namespace) -> int:
    """Open the window and stay until it is closed. Raises SettingError for what was meant as a command."""
    for path in args.files:
        if path.name == str(path) and not path.suffix and not os.path.lexists(path):
            raise SettingError(
                "FILES",
                f"There is neither a command nor a file called {path}.",
                remedy="mblt-desktop --help lists the commands.",
                unharmed="Nothing was opened.",
            )
    device = device_from_args(args) if args.layout_device is not None else None
    from mblt_desktop.app import run_app

    return run_app(files=args.files, device=device)
