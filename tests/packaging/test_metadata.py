"""The desktop's description of the program agrees with the program."""

from __future__ import annotations

import configparser
import re
import xml.etree.ElementTree as ET
from pathlib import Path

from PySide6.QtGui import QIcon

from mblt_desktop import __version__
from mblt_desktop.app import APP_ID

ROOT = Path(__file__).resolve().parents[2]
PACKAGING = ROOT / "packaging"


def _entry() -> configparser.SectionProxy:
    parser = configparser.ConfigParser(interpolation=None)
    parser.read(PACKAGING / f"{APP_ID}.desktop", encoding="utf-8")
    return parser["Desktop Entry"]


def test_files_and_program_have_one_id() -> None:
    assert _entry()["Icon"] == APP_ID
    component = ET.parse(PACKAGING / f"{APP_ID}.metainfo.xml").getroot()
    assert component.findtext("id") == APP_ID
    assert component.findtext("launchable") == f"{APP_ID}.desktop"


def test_the_command_is_the_one_that_is_installed() -> None:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    command = _entry()["Exec"].split()[0]
    assert re.search(rf'^{command} = "mblt_desktop\.cli:main"$', project, re.MULTILINE)


def test_the_newest_release_is_this_version() -> None:
    component = ET.parse(PACKAGING / f"{APP_ID}.metainfo.xml").getroot()
    release = component.find("releases/release")
    assert release is not None
    assert release.get("version") == __version__
    assert f"## {__version__}" in (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")


def test_the_icon_is_a_picture(qapp: object) -> None:
    icon = QIcon(str(ROOT / "resources" / "app.svg"))
    assert icon.pixmap(64, 64).toImage().pixelColor(32, 12).alpha() > 0


def test_no_pictures_of_the_readme_are_missing() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    missing = [name for name in re.findall(r"\]\(([^)h][^)]*)\)", text) if not (ROOT / name).exists()]
    assert missing == []
