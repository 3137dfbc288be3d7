"""From a fresh checkout to a running program: `make run`, `make demo`, `make test` and the rest.

Standard library only, run by any Python 3.10-3.12. Every step first looks whether it is needed, and a stamp
in the virtual environment says when nothing is, so that a second start goes straight to the window.
"""

from __future__ import annotations

import argparse
import ctypes
import hashlib
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent

QT_LIBRARIES = {
    "libEGL.so.1": "libegl1",
    "libGL.so.1": "libgl1",
    "libGLX.so.0": "libglx0",
    "libOpenGL.so.0": "libopengl0",
    "libX11-xcb.so.1": "libx11-xcb1",
    "libX11.so.6": "libx11-6",
    "libdbus-1.so.3": "libdbus-1-3",
    "libfontconfig.so.1": "libfontconfig1",
    "libfreetype.so.6": "libfreetype6",
    "libglib-2.0.so.0": "libglib2.0-0",
    "libgthread-2.0.so.0": "libglib2.0-0",
    "libxcb-cursor.so.0": "libxcb-cursor0",
    "libxcb-icccm.so.4": "libxcb-icccm4",
    "libxcb-image.so.0": "libxcb-image0",
    "libxcb-keysyms.so.1": "libxcb-keysyms1",
    "libxcb-randr.so.0": "libxcb-randr0",
    "libxcb-render-util.so.0": "libxcb-render-util0",
    "libxcb-render.so.0": "libxcb-render0",
    "libxcb-shape.so.0": "libxcb-shape0",
    "libxcb-shm.so.0": "libxcb-shm0",
    "libxcb-sync.so.1": "libxcb-sync1",
    "libxcb-util.so.1": "libxcb-util1",
    "libxcb-xfixes.so.0": "libxcb-xfixes0",
    "libxcb-xinput.so.0": "libxcb-xinput0",
    "libxcb-xkb.so.1": "libxcb-xkb1",
    "libxcb.so.1": "libxcb1",
    "libxkbcommon-x11.so.0": "libxkbcommon-x11-0",
    "libxkbcommon.so.0": "libxkbcommon0",
}
"""What Qt's window needs from the system, and the Debian and Ubuntu packages that have it."""

OTHER_LIBRARIES = {"libportaudio.so.2": "libportaudio2"}
"""Libraries that are opened by name while the program runs."""

QT_FILES = ("Qt/plugins/platforms/libqxcb.so", "Qt/lib/libQt6Widgets.so.6", "QtGui.abi3.so")


class BootstrapError(Exception):
    """A step that cannot go on; the message says what to do."""


@dataclass(frozen=True)
class Goal:
    """What one make target needs and runs."""

    extras: tuple[str, ...]
    tools: dict[str, str]
    """Commands that must be on PATH, and the packages that have them."""
    commands: tuple[tuple[str, ...], ...]
    """Run in order with the environment's own programs; the last may get further arguments."""
    wants_models: bool = False
    """The demo models of the user's data folder."""


TEST_TOOLS = {
    "node": "nodejs",
    "Xvfb": "xvfb",
    "xdotool": "xdotool",
    "espeak-ng": "espeak-ng",
    "pulseaudio": "pulseaudio",
    "pactl": "pulseaudio-utils",
}
LINT_TOOLS = {"desktop-file-validate": "desktop-file-utils", "appstreamcli": "appstream"}
METADATA = "packaging/io.github.mblt_desktop.MBLTDesktop"

GOALS = {
    "run": Goal((), {}, (("mblt-desktop",),), wants_models=True),
    "demo": Goal((), {}, (("mblt-desktop", "demo"),), wants_models=True),
    # A test file runs in one worker, so that it shares what it loads.
    "test": Goal(("test",), TEST_TOOLS, (("python", "-m", "pytest", "-n", "auto", "--dist", "loadfile"),)),
    "lint": Goal(
        ("test", "lint"),
        LINT_TOOLS,
        (
            ("ruff", "check", "."),
            ("ruff", "format", "--check", "."),
            ("mypy",),
            ("desktop-file-validate", f"{METADATA}.desktop"),
            ("appstreamcli", "validate", "--no-net", f"{METADATA}.metainfo.xml"),
        ),
    ),
    "bench": Goal(("test",), {}, (("python", "-m", "tests.bench"),), wants_models=True),
    "bench-simulator": Goal(("test",), {}, (("python", "-m", "tests.bench.simulator"),), wants_models=True),
    "screenshots": Goal(("test",), {}, (("python", "-m", "tests.screenshots"),), wants_models=True),
}


@dataclass(frozen=True)
class Checkout:
    """A checkout and its virtual environment."""

    root: Path

    @property
    def venv(self) -> Path:
        """The environment's folder."""
        return self.root / ".venv"

    @property
    def python(self) -> Path:
        """The environment's interpreter."""
        return self.venv / "bin" / "python"

    @property
    def stamp(self) -> Path:
        """Says for which pyproject.toml, and with which extras, the environment is ready."""
        return self.venv / "mblt-desktop-ready.json"

    def fingerprint(self) -> str:
        """Changes when the dependencies may have changed."""
        return hashlib.sha256((self.root / "pyproject.toml").read_bytes()).hexdigest()

    def is_ready(self, goal: Goal) -> bool:
        """Whether the environment already has everything the goal needs."""
        have = self._ready_for()
        return have is not None and have >= _needs(goal) and self.python.exists()

    def mark_ready(self, goal: Goal) -> None:
        """Remember that nothing is left to do for the goal, besides what was there before."""
        needs = (self._ready_for() or set()) | _needs(goal)
        self.stamp.write_text(json.dumps({"fingerprint": self.fingerprint(), "ready_for": sorted(needs)}))

    def _ready_for(self) -> set[str] | None:
        try:
            state = json.loads(self.stamp.read_text())
            return set(state["ready_for"]) if state["fingerprint"] == self.fingerprint() else None
        except (OSError, ValueError, KeyError, TypeError):
            return None


def _needs(goal: Goal) -> set[str]:
    return {f"extra {name}" for name in goal.extras} | {f"tool {name}" for name in goal.tools}


def say(text: str) -> None:
    """One line for whoever watches."""
    sys.stderr.write(f"{text}\n")
    sys.stderr.flush()


def prepare(checkout: Checkout, goal: Goal) -> None:
    """Bring the environment to where the goal can run; does nothing when it is there."""
    if checkout.is_ready(goal):
        return
    make_venv(checkout)
    install_project(checkout, goal.extras)
    install_packages(missing_packages(checkout, goal.tools))
    checkout.mark_ready(goal)


def make_venv(checkout: Checkout) -> None:
    """A virtual environment with a pip that can say where a wheel lies."""
    works = checkout.python.exists() and succeeds(
        [checkout.python, "-c", "import sys, pip; sys.exit(not (3, 10) <= sys.version_info[:2] <= (3, 12))"]
    )
    if works:
        return
    say(f"Making {checkout.venv} with Python {sys.version.split()[0]} ...")
    command: list[str | Path] = [sys.executable, "-m", "venv", "--clear", checkout.venv]
    result = subprocess.run(command, capture_output=True, text=True, check=False)
    if result.returncode != 0:
        raise BootstrapError(f"The virtual environment could not be made:\n{result.stdout}{result.stderr}")
    pip(checkout, ["install", "--upgrade", "pip>=24"])


def install_project(checkout: Checkout, extras: Sequence[str]) -> None:
    """The program and its dependencies, as pyproject.toml bounds them."""
    wanted = f".[{','.join(extras)}]" if extras else "."
    say("Installing the program and what it needs (several gigabytes the first time) ...")
    pip(checkout, ["install", "--editable", wanted])


def pip(checkout: Checkout, arguments: Sequence[str]) -> None:
    """Run pip with one moving line on a terminal; its whole output is kept and shown when it fails."""
    log = checkout.venv / "pip.log"
    command = [str(checkout.python), "-m", "pip", "--disable-pip-version-check", "--no-input", *arguments]
    with (
        log.open("w") as file,
        subprocess.Popen(
            [*command, "--progress-bar", "off"],
            cwd=checkout.root,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        ) as process,
    ):
        for line in process.stdout or ():
            file.write(line)
            show_pip_line(line)
    clear_line()
    if process.returncode != 0:
        last = "".join(log.read_text().splitlines(keepends=True)[-15:])
        raise BootstrapError(f"pip could not finish. Its last lines (all of them are in {log}):\n{last}")


def show_pip_line(line: str) -> None:
    """What pip is at, on a terminal only."""
    words = line.split()
    if sys.stderr.isatty() and words[:1] in (["Collecting"], ["Downloading"], ["Building"], ["Installing"]):
        width = shutil.get_terminal_size().columns - 1
        sys.stderr.write("\r\x1b[K" + f"  {' '.join(words)}"[:width])
        sys.stderr.flush()


def clear_line() -> None:
    """Take the moving line away."""
    if sys.stderr.isatty():
        sys.stderr.write("\r\x1b[K")


def missing_packages(checkout: Checkout, tools: dict[str, str]) -> list[str]:
    """System packages without which the window, the sound or the tools do not work; found by trying."""
    packages = {package for tool, package in tools.items() if shutil.which(tool) is None}
    packages |= {package for library, package in OTHER_LIBRARIES.items() if not loads(library)}
    for library in unresolved(qt_files(checkout)):
        if library in QT_LIBRARIES:
            packages.add(QT_LIBRARIES[library])
        else:
            say(f"Qt needs {library}; no package is known for it.")
    return sorted(packages)


def loads(library: str) -> bool:
    """Whether the dynamic loader finds a library."""
    try:
        ctypes.CDLL(library)
    except OSError:
        return False
    return True


def qt_files(checkout: Checkout) -> list[Path]:
    """The parts of the installed Qt that pull in system libraries."""
    script = "import importlib.util as u; print(u.find_spec('PySide6').submodule_search_locations[0])"
    result = subprocess.run([checkout.python, "-c", script], capture_output=True, text=True, check=True)
    folder = Path(result.stdout.strip())
    return [folder / name for name in QT_FILES if (folder / name).exists()]


def unresolved(files: Iterable[Path]) -> set[str]:
    """Names of shared libraries that the given files need and the system lacks."""
    names = set()
    for file in files:
        listing = subprocess.run(["ldd", file], capture_output=True, text=True, check=False).stdout
        names |= {line.split()[0] for line in listing.splitlines() if line.endswith("not found")}
    return names


def install_packages(packages: Sequence[str]) -> None:
    """Install system packages, or say the one line that does."""
    if not packages:
        return
    line = f"apt-get install -y {' '.join(packages)}"
    root = root_prefix()
    if shutil.which("apt-get") is None or root is None:
        raise BootstrapError(
            f"System packages are missing. Install them, then run make again:\n    sudo {line}"
        )
    say(f"Installing system packages: {' '.join(packages)} ...")
    environment = {**os.environ, "DEBIAN_FRONTEND": "noninteractive"}
    for arguments in (["update", "-qq"], ["install", "-y", "-qq", *packages]):
        command = [*root, "apt-get", *arguments]
        result = subprocess.run(command, capture_output=True, text=True, env=environment, check=False)
        if result.returncode != 0 and arguments[0] == "install":
            raise BootstrapError(f"`{line}` failed:\n{result.stdout[-1500:]}{result.stderr[-1500:]}")


def root_prefix() -> list[str] | None:
    """How to become root without asking; None when that needs a password."""
    if os.geteuid() == 0:
        return []
    return ["sudo", "-n"] if shutil.which("sudo") and succeeds(["sudo", "-n", "true"]) else None


def succeeds(command: Sequence[str | Path]) -> bool:
    """Whether a quiet command exits 0."""
    return subprocess.run(command, capture_output=True, check=False).returncode == 0


def data_folder() -> Path:
    """The user's data folder, as mblt_desktop/paths.py has it (a test keeps the two equal)."""
    home = os.environ.get("MBLT_DESKTOP_HOME")
    if home:
        return Path(os.path.expanduser(home)) / "data"
    shared = os.environ.get("XDG_DATA_HOME", "").strip() or "~/.local/share"
    return Path(os.path.expanduser(shared)) / "mblt-desktop"


def fetch_demo_models(checkout: Checkout) -> None:
    """On the first start, bring the demo models; what somebody removed later stays removed."""
    done = data_folder() / "demo-models-fetched"
    if done.exists():
        return
    say("Fetching and preparing the demo models (once) ...")
    program = checkout.venv / "bin" / "mblt-desktop"
    if subprocess.run([program, "models", "fetch", "--demo"], check=False).returncode == 0:
        done.touch()
    else:
        say("The program starts without them; the Models pane fetches them later.")


def has_display() -> bool:
    """Whether a window can be opened."""
    return bool(os.environ.get("DISPLAY") or os.environ.get("WAYLAND_DISPLAY"))


def run_commands(checkout: Checkout, goal: Goal, arguments: Sequence[str]) -> int:
    """Run the goal's commands; the first failure ends it, the last becomes this process."""
    path = f"{checkout.venv / 'bin'}{os.pathsep}{os.environ['PATH']}"
    environment = {**os.environ, "PATH": path}
    for command in goal.commands[:-1]:
        say("$ " + " ".join(command))
        code = subprocess.run(command, cwd=checkout.root, env=environment, check=False).returncode
        if code != 0:
            return code
    last = [*goal.commands[-1], *arguments]
    os.chdir(checkout.root)
    program = shutil.which(last[0], path=path) or last[0]
    os.execve(program, last, environment)
    return 0  # not reached: a successful exec does not return, a failed one raises


def main(argv: Sequence[str] | None = None) -> int:
    """Prepare and run one goal; returns the exit status when it does not become the program itself."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("goal", choices=[*GOALS, "setup", "check"])
    parser.add_argument("arguments", nargs=argparse.REMAINDER)
    args = parser.parse_args(argv)
    checkout = Checkout(ROOT)
    steps: dict[str, Callable[[], int]] = {
        "setup": lambda: setup(checkout),
        "check": lambda: check(checkout),
    }
    try:
        if args.goal in steps:
            return steps[args.goal]()
        name = "demo" if args.goal == "run" and not has_display() else args.goal
        if name != args.goal:
            say("There is no display here, so the main job is done once without a window (make demo).")
        prepare(checkout, GOALS[name])
        if GOALS[name].wants_models:
            fetch_demo_models(checkout)
        return run_commands(checkout, GOALS[name], args.arguments)
    except BootstrapError as error:
        say(f"error: {error}")
        return 1
    except KeyboardInterrupt:
        return 130


def setup(checkout: Checkout) -> int:
    """Everything for working on the program, without running anything."""
    for goal in ("test", "lint"):
        prepare(checkout, GOALS[goal])
    return 0


def check(checkout: Checkout) -> int:
    """Say what is missing, and change nothing."""
    if not checkout.python.exists():
        say("The virtual environment is missing: make run makes it.")
        return 1
    packages = missing_packages(checkout, TEST_TOOLS | LINT_TOOLS)
    say(f"Missing system packages: {' '.join(packages) or 'none'}")
    say(f"Dependencies: {'installed' if checkout.is_ready(GOALS['run']) else 'to be installed'}")
    return 1 if packages else 0


if __name__ == "__main__":
    sys.exit(main())
