"""packaging/find_python.sh on machines made of fake Pythons."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

SCRIPT = Path(__file__).resolve().parents[2] / "packaging" / "find_python.sh"


class Machine:
    """A PATH and a home with exactly the programs a test puts there."""

    def __init__(self, root: Path) -> None:
        self.bin = root / "bin"
        self.home = root / "home"
        self.bin.mkdir()
        self.home.mkdir()
        self.log = root / "log"
        # `command`, `[` and `echo` are built into the shell; `id` is not.
        self.program("id", "echo 1000")

    def program(self, name: str, script: str) -> Path:
        return self._write(self.bin / name, script)

    def pyenv_python(self, version: str, script: str) -> Path:
        path = self.home / ".pyenv" / "versions" / version / "bin" / "python"
        path.parent.mkdir(parents=True)
        return self._write(path, script)

    def find(self, **environment: str) -> subprocess.CompletedProcess[str]:
        variables = {"PATH": str(self.bin), "HOME": str(self.home), **environment}
        return subprocess.run(
            ["/bin/sh", str(SCRIPT)], capture_output=True, text=True, env=variables, check=False
        )

    def _write(self, path: Path, script: str) -> Path:
        path.write_text(f"#!/bin/sh\n{script}\n")
        path.chmod(0o755)
        return path


GOOD = f'exec "{sys.executable}" "$@"'
BAD = "exit 127"


@pytest.fixture
def machine(tmp_path: Path) -> Machine:
    """A machine without any Python."""
    return Machine(tmp_path)


def test_a_python_on_the_path_is_found(machine: Machine) -> None:
    python = machine.program("python3.12", GOOD)
    result = machine.find()
    assert (result.returncode, result.stdout.strip()) == (0, str(python))


def test_shims_that_do_not_run_are_passed_over(machine: Machine) -> None:
    machine.program("python3.11", BAD)
    machine.program("python3", BAD)
    python = machine.program("python3.10", GOOD)
    assert machine.find().stdout.strip() == str(python)


def test_a_pyenv_version_that_is_not_selected_is_found(machine: Machine) -> None:
    machine.program("python3.11", BAD)
    python = machine.pyenv_python("3.11.7", GOOD)
    assert machine.find().stdout.strip() == str(python)


def test_the_most_tested_version_is_preferred(machine: Machine) -> None:
    machine.program("python3.12", GOOD)
    machine.program("python3.10", GOOD)
    python = machine.program("python3.11", GOOD)
    assert machine.find().stdout.strip() == str(python)


def test_a_plain_python3_will_do(machine: Machine) -> None:
    python = machine.program("python3", GOOD)
    assert machine.find().stdout.strip() == str(python)


def test_the_users_choice_counts_and_is_checked(machine: Machine) -> None:
    machine.program("python3.11", GOOD)
    chosen = machine.program("mine", GOOD)
    assert machine.find(PYTHON="mine").stdout.strip() == str(chosen)
    machine.program("other", BAD)
    result = machine.find(PYTHON="other")
    assert result.returncode == 1
    assert "PYTHON=other is not a Python 3.10, 3.11 or 3.12 with venv." in result.stderr


def test_root_gets_python_installed(machine: Machine) -> None:
    machine.program("id", "echo 0")
    made = machine.bin / "python3"
    install = f"printf '#!/bin/sh\\nexec {sys.executable} \"$@\"\\n' > {made}; /bin/chmod +x {made}"
    machine.program("apt-get", f'echo "$@" >> {machine.log}; [ "$1" = install ] && {{ {install}; }}; exit 0')
    result = machine.find()
    assert (result.returncode, result.stdout.strip()) == (0, str(made))
    assert machine.log.read_text().splitlines() == ["update -qq", "install -y -qq python3 python3-venv"]


def test_without_root_the_one_line_to_run_is_printed(machine: Machine) -> None:
    machine.program("apt-get", "exit 1")
    machine.program("sudo", "exit 1")
    result = machine.find()
    assert result.returncode == 1
    assert "    sudo apt-get install python3 python3-venv\n" in result.stderr
    assert result.stdout == ""


def test_without_apt_it_says_what_to_install(machine: Machine) -> None:
    result = machine.find()
    assert result.returncode == 1
    assert "No Python 3.10, 3.11 or 3.12 was found." in result.stderr


def test_it_is_a_plain_posix_script() -> None:
    assert subprocess.run(["/bin/sh", "-n", SCRIPT], check=False).returncode == 0
    assert os.access(SCRIPT, os.X_OK)
