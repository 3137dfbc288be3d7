"""The documentation names only what exists: files, folders, names in files, commands and make targets."""

from __future__ import annotations

import ast
import re
from pathlib import Path

import pytest

from mblt_desktop import cli
from mblt_desktop.panes import _CLASSES

ROOT = Path(__file__).resolve().parent.parent
DOCUMENTS = [ROOT / "README.md", ROOT / "CHANGELOG.md", *sorted((ROOT / "docs").glob("*.md"))]
BASES = (ROOT, ROOT / "mblt_desktop", ROOT / "runtime")
"""A page that has named a package goes on with paths inside it."""
ENDINGS = ("py", "md", "sh", "toml", "png", "svg", "flac", "pftrace", "desktop", "xml", "mjs")
MADE_LATER = {"settings.json", "library.db", "mblt-model.json"}
"""Files of the user's folders, which the program makes."""


def code(document: Path) -> list[str]:
    """What stands in backticks, on a line."""
    text = re.sub(r"```.*?```", "", document.read_text(encoding="utf-8"), flags=re.DOTALL)
    return re.findall(r"`([^`]+)`", text)


def find(path: str) -> Path | None:
    """The file or folder a page means: from the top, inside a package, or its only bearer."""
    for base in BASES:
        if (base / path).exists():
            return base / path
    bearers = [
        file
        for base in BASES[1:]
        for file in base.rglob(Path(path).name)
        if file.as_posix().endswith(f"/{path}")
    ]
    return bearers[0] if len(bearers) == 1 else None


def paths(document: Path) -> list[tuple[str, str]]:
    """Every path the page names, with the name inside the file that it points to, if any."""
    pattern = re.compile(rf"^(?P<path>[\w./-]+\.(?:{'|'.join(ENDINGS)}))(?:: (?P<name>[\w.]+))?$")
    found = [
        (match["path"], match["name"] or "") for text in code(document) if (match := pattern.match(text))
    ]
    folders = (
        text
        for text in code(document)
        if re.match(r"^(mblt_desktop|runtime|tests|packaging|docs)/[\w/]*$", text)
    )
    links = re.findall(r"\]\(([^)#:]+)\)", document.read_text(encoding="utf-8"))
    return found + [(path, "") for path in (*folders, *links)]


def names_in(file: Path) -> set[str]:
    """Classes, functions and constants of a module; methods as Class.method."""
    names: set[str] = set()
    for node in ast.parse(file.read_text(encoding="utf-8")).body:
        if isinstance(node, ast.ClassDef):
            names |= {f"{node.name}.{one.name}" for one in node.body if isinstance(one, ast.FunctionDef)}
        if isinstance(node, ast.ClassDef | ast.FunctionDef):
            names.add(node.name)
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return names | {name.rpartition(".")[2] for name in names}


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_path_it_names_exists(document: Path) -> None:
    assert [path for path, _ in paths(document) if find(path) is None] == []


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_name_it_gives_to_a_place_in_a_file_is_there(document: Path) -> None:
    wrong = [
        (path, name)
        for path, name in paths(document)
        if name and (file := find(path)) is not None and name not in names_in(file)
    ]
    assert wrong == []


def test_the_architecture_follows_real_files() -> None:
    named = {path for path, _ in paths(ROOT / "docs" / "architecture.md")}
    assert len(named) > 50
    assert {
        "runtime/lanes/host.py",
        "runtime/lanes/outbox.py",
        "chat/session.py",
        "runtime/tracing/service.py",
    } <= named


@pytest.mark.parametrize("document", DOCUMENTS, ids=lambda path: path.name)
def test_every_make_target_it_names_exists(document: Path) -> None:
    rules = re.findall(r"^([a-z][a-z -]*):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    targets = {name for rule in rules for name in rule.split()}
    text = document.read_text(encoding="utf-8")
    named = set(re.findall(r"(?:`|^)(?:PYTHON=\S+ )?make ([a-z-]+)", text, re.MULTILINE))
    assert named <= targets


def test_the_readme_lists_the_commands_that_exist() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    named = set(re.findall(r"^mblt-desktop ([a-z]+)", text, re.MULTILINE))
    assert named == set(cli.COMMANDS) - {"demo"}  # that one is `make demo`


def test_every_pane_has_its_pictures() -> None:
    pictures = {picture.stem for picture in (ROOT / "docs" / "screenshots").glob("*.png")}
    assert pictures >= {f"{pane}-{mode}" for pane in _CLASSES for mode in ("light", "dark")}
