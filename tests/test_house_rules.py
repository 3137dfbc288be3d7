"""What keeps the source readable: no endless file or function, and a sentence on everything public."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from tests.test_boundaries import modules

ROOT = Path(__file__).resolve().parent.parent
MOST_LINES = 400
MOST_LINES_OF_A_FUNCTION = {"mblt_desktop": 40, "runtime": 40, "packaging": 40, "tests": 60}
"""A test may tell a whole story."""
QT_OVERRIDE = re.compile(r"^[a-z]+[A-Z]")


def functions(tree: ast.AST) -> list[ast.FunctionDef]:
    return [node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef)]


def length(function: ast.FunctionDef) -> int:
    """Its lines without the docstring."""
    assert function.end_lineno is not None
    first = function.body[0]
    words = 0
    if ast.get_docstring(function) is not None:
        assert first.end_lineno is not None
        words = first.end_lineno - first.lineno + 1
    return function.end_lineno - function.lineno + 1 - words


@pytest.mark.parametrize("folder", MOST_LINES_OF_A_FUNCTION)
def test_no_file_and_no_function_is_endless(folder: str) -> None:
    found = []
    for path in sorted((ROOT / folder).rglob("*.py")):
        text = path.read_text(encoding="utf-8")
        if text.count("\n") > MOST_LINES:
            found.append(path.name)
        found += [
            f"{path.name}: {one.name}"
            for one in functions(ast.parse(text))
            if length(one) > MOST_LINES_OF_A_FUNCTION[folder]
        ]
    assert found == []


def test_every_module_says_what_it_is() -> None:
    silent = [name for name, tree in modules().items() if tree.body and ast.get_docstring(tree) is None]
    assert silent == []


def test_everything_public_has_a_sentence() -> None:
    """But for what Qt or the vendor's class defines, and what stands inside another function."""
    silent = []
    for name, tree in modules().items():
        classes = (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef))
        owners = [tree, *(one for one in classes if not one.name.startswith("_"))]
        for owner in owners:
            silent += [
                f"{name}.{node.name}"
                for node in owner.body
                if isinstance(node, ast.FunctionDef | ast.ClassDef)
                and not node.name.startswith("_")
                and not QT_OVERRIDE.match(node.name)
                and ast.get_docstring(node) is None
            ]
    assert silent == []


def test_nothing_is_left_for_later() -> None:
    words = ("TO" + "DO", "FIX" + "ME", "coming " + "soon")
    found = [
        f"{path.name}: {word}"
        for folder in ("mblt_desktop", "runtime", "packaging", "tests", "docs")
        for path in sorted((ROOT / folder).rglob("*"))
        if path.suffix in (".py", ".md", ".sh", ".mjs", ".xml", ".desktop")
        for word in words
        if re.search(rf"\b{word}\b", path.read_text(encoding="utf-8"))
    ]
    assert found == []
