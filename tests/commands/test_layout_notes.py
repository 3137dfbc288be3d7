"""Layout options that have no effect are said, on standard error only."""

from __future__ import annotations

import argparse

import pytest

from mblt_desktop.commands.layout_notes import asked_layout
from runtime.layout.request import LayoutRequest
from runtime.settings.table import add_arguments


def asked(*options: str) -> LayoutRequest:
    parser = argparse.ArgumentParser()
    add_arguments(parser, "layout")
    return asked_layout(parser.parse_args(options))


@pytest.mark.parametrize(
    ("options", "note"),
    [
        ("--core-mode multi --cores 0:0:0 --clusters 0:1", "The named cores are not used in multi mode."),
        (
            "--core-mode single --cores 0:0:0 --clusters 0:1",
            "The named clusters are not used in single mode.",
        ),
        ("--core-mode global4 --cores 0:1:2", "Rounded up to all cores of cluster 0:1"),
        ("--clusters 0:1", "only chooses the board"),
    ],
)
def test_what_has_no_effect_is_said(options: str, note: str, capsys: pytest.CaptureFixture[str]) -> None:
    asked(*options.split())
    output = capsys.readouterr()
    assert output.out == ""
    assert output.err.startswith("note: ")
    assert note in output.err


def test_nothing_is_said_without_a_reason(capsys: pytest.CaptureFixture[str]) -> None:
    assert asked("--core-mode", "single", "--cores", "0:0:0").target_cores == ("0:0:0",)
    assert capsys.readouterr().err == ""
