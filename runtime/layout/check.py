"""Whether one model can take a layout: it has the parts that are named, and was compiled for their modes."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

from runtime.errors import LayoutError, ModelError
from runtime.layout.parts import Part, part_named, parts_of
from runtime.layout.request import LayoutRequest, NormalisedLayout, validate
from runtime.layout.rules import UNHARMED
from runtime.model_folder import family_of, read_config


def validate_for(folder: Path, request: LayoutRequest, board: str, devices: int) -> NormalisedLayout:
    """`runtime.layout.request.validate`, and what the model in `folder` says to the parts that are named.

    Raises LayoutError; ModelError for a folder that holds no readable model. A board's `.mxq` does not tell
    its modes without the board, so there the NPU software refuses a wrong one when the model is loaded.
    """
    layout = validate(request, board, devices)
    if layout.parts:
        _check_parts(folder, read_config(folder), layout)
    return layout


def _check_parts(folder: Path, config: dict[str, Any], layout: NormalisedLayout) -> None:
    known = {part.name: part for part in parts_of(family_of(config))}
    for name, own in layout.parts:
        if name not in known:
            raise _no_such_part(folder, name, list(known.values()))
        compiled = compiled_modes(folder, config, name)
        if compiled and own.core_mode not in ("auto", *compiled):
            raise LayoutError(
                "layout.parts",
                f"{known[name].title}: it was compiled for {_listed(compiled)}, not for {own.core_mode}.",
                remedy="Choose a mode that it was compiled for, or the automatic one.",
                unharmed=UNHARMED,
            )


def compiled_modes(folder: Path, config: dict[str, Any], part: str) -> tuple[str, ...]:
    """The core modes that a part of a simulated artifact was built for; empty when they cannot be told."""
    from runtime.simulator.artifact import read_header

    nested = config.get(f"{part}_config")
    inside = nested.get("mxq_path") if isinstance(nested, dict) else None
    named = config.get(f"{part}_mxq_path") or inside
    if not isinstance(named, str) or Path(named).name != named:
        return ()
    pattern = re.sub(r"\{\w+\}", "*", named)  # one file for each layer or expert
    try:
        return read_header(next(folder.glob(pattern), folder / named)).core_modes
    except (ModelError, ValueError):
        return ()  # of a board, or damaged: loading it says what is wrong


def _no_such_part(folder: Path, name: str, known: list[Part]) -> LayoutError:
    has = "It is one network" if not known else f"It has {_listed([part.name for part in known])}"
    return LayoutError(
        "layout.parts",
        f"The model in {folder} has no part called “{part_named(name).name}”.",
        remedy=f"{has}; give a layout for {'the whole model' if not known else 'these'}.",
        unharmed=UNHARMED,
    )


def _listed(words: list[str] | tuple[str, ...]) -> str:
    *most, last = words
    return f"{', '.join(most)} and {last}" if most else last
