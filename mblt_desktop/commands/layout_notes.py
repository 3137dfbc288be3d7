"""What a command says about the layout options before it loads a model."""

from __future__ import annotations

import argparse
import sys

from runtime.layout.parts import part_named
from runtime.layout.request import LayoutRequest, notes_on
from runtime.settings.table import layout_from_args


def asked_layout(args: argparse.Namespace) -> LayoutRequest:
    """The layout options; says on standard error what of them has no effect. Raises SettingError."""
    layout = layout_from_args(args)
    notes = list(notes_on(layout))
    for part in layout.parts:
        notes += [f"{part_named(part.part).title}: {note}" for note in notes_on(part.layout)]
    for note in notes:
        print(f"note: {note}", file=sys.stderr)  # noqa: T201 - the command line's output
    return layout
