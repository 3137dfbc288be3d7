"""The names of the settings pages, wherever words of the program send somebody to one."""

from __future__ import annotations

import ast
import re
import tokenize
from pathlib import Path

from mblt_desktop.settings.pane import SettingsPane

ROOT = Path(__file__).resolve().parents[3]


def texts_of(path: Path) -> list[str]:
    """Every string of a module, also the fixed pieces of those with values in them."""
    with tokenize.open(path) as file:
        nodes = ast.walk(ast.parse(file.read()))
    return [node.value for node in nodes if isinstance(node, ast.Constant) and isinstance(node.value, str)]


def test_whoever_is_sent_to_a_page_finds_one_of_that_name(pane: SettingsPane) -> None:
    """“(Settings, Advanced)” and the like, wherever either package says it."""
    titles = tuple(pane.names.item(row).text() for row in range(pane.names.count()))
    named = [
        text[place.end() :]
        for package in ("runtime", "mblt_desktop")
        for path in (ROOT / package).rglob("*.py")
        for text in texts_of(path)
        for place in re.finditer(r"\bSettings, ", text)
    ]
    assert len(named) > 5
    assert [text for text in named if not text.startswith(titles)] == []
