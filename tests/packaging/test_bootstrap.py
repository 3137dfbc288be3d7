"""packaging/bootstrap.py: does each step when it is needed, says what went wrong, and does nothing twice."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
import types
from pathlib import Path

import pytest

from mblt_desktop.paths import default_paths

ROOT = Path(__file__).resolve().parents[2]


@pytest.fixture(scope="module")
def bootstrap() -> types.ModuleType:
    """The script as a module; it is no package, because it runs before anything is installed."""
    spec = importlib.util.spec_from_file_location("bootstrap", ROOT / "packaging" / "bootstrap.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules["bootstrap"] = module
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def checkout(bootstrap: types.ModuleType, tmp_path: Path) -> object:
    """A checkout whose environment's Python is the script of the test."""
    (tmp_path / "pyproject.toml").write_text("[project]\n")
    checkout = bootstrap.Checkout(tmp_path)
    checkout.python.parent.mkdir(parents=True)
    _script(checkout.python, "exit 0")
    return checkout


def _script(path: Path, text: str) -> None:
    path.write_text(f"#!/bin/sh\n{text}\n")
    path.chmod(0o755)


def test_it_needs_nothing_that_has_to_be_installed() -> None:
    code = "import sys; sys.path.insert(0, sys.argv[1]); import bootstrap"
    command = [sys.executable, "-I", "-S", "-c", code, str(ROOT / "packaging")]
    assert subprocess.run(command, check=False).returncode == 0


class TestStamp:
    """What makes the second start fast."""

    def test_a_ready_environment_is_left_alone(
        self, bootstrap: types.ModuleType, checkout: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        checkout.mark_ready(bootstrap.GOALS["run"])

        def never(*_args: object) -> None:
            raise AssertionError("work was done")

        for name in ("make_venv", "install_project", "missing_packages", "install_packages"):
            monkeypatch.setattr(bootstrap, name, never)
        bootstrap.prepare(checkout, bootstrap.GOALS["run"])

    def test_new_dependencies_make_it_stale(
        self, bootstrap: types.ModuleType, checkout: types.SimpleNamespace
    ) -> None:
        goal = bootstrap.GOALS["run"]
        checkout.mark_ready(goal)
        assert checkout.is_ready(goal)
        (checkout.root / "pyproject.toml").write_text("[project]\ndependencies = []\n")
        assert not checkout.is_ready(goal)

    def test_goals_add_up(self, bootstrap: types.ModuleType, checkout: types.SimpleNamespace) -> None:
        checkout.mark_ready(bootstrap.GOALS["lint"])
        assert checkout.is_ready(bootstrap.GOALS["run"])
        assert not checkout.is_ready(bootstrap.GOALS["test"])  # its tools were not looked for
        checkout.mark_ready(bootstrap.GOALS["test"])
        assert checkout.is_ready(bootstrap.GOALS["lint"])

    @pytest.mark.parametrize("content", ["", "[]", '{"fingerprint": 1}'])
    def test_a_damaged_stamp_counts_as_none(
        self, bootstrap: types.ModuleType, checkout: types.SimpleNamespace, content: str
    ) -> None:
        checkout.stamp.write_text(content)
        assert not checkout.is_ready(bootstrap.GOALS["run"])


class TestPip:
    """Quiet while it works, readable when it fails."""

    def test_its_output_goes_to_a_file(
        self,
        bootstrap: types.ModuleType,
        checkout: types.SimpleNamespace,
        capfd: pytest.CaptureFixture[str],
    ) -> None:
        _script(checkout.python, "echo Collecting torch; echo Installed")
        bootstrap.pip(checkout, ["install", "x"])
        assert (checkout.venv / "pip.log").read_text() == "Collecting torch\nInstalled\n"
        captured = capfd.readouterr()
        assert captured.out == captured.err == ""

    def test_a_failure_shows_its_last_lines(
        self, bootstrap: types.ModuleType, checkout: types.SimpleNamespace
    ) -> None:
        _script(checkout.python, "seq 100; echo ERROR: No space left on device >&2; exit 1")
        with pytest.raises(bootstrap.BootstrapError) as caught:
            bootstrap.pip(checkout, ["install", "x"])
        assert str(caught.value).endswith("98\n99\n100\nERROR: No space left on device\n")
        assert "pip.log" in str(caught.value)


class TestPackages:
    """Missing system packages, found by trying."""

    def test_missing_libraries_become_packages(
        self, bootstrap: types.ModuleType, checkout: types.SimpleNamespace, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bootstrap, "qt_files", lambda _checkout: [])
        monkeypatch.setattr(
            bootstrap, "unresolved", lambda _files: {"libxcb-cursor.so.0", "libGL.so.1", "libunknown.so.9"}
        )
        monkeypatch.setattr(bootstrap, "loads", lambda _library: False)
        tools = {"sh": "dash", "no-such-tool": "some-package"}
        expected = ["libgl1", "libportaudio2", "libxcb-cursor0", "some-package"]
        assert bootstrap.missing_packages(checkout, tools) == expected

    def test_the_loaders_own_words_are_understood(
        self, bootstrap: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        assert bootstrap.unresolved([Path("/bin/sh")]) == set()
        lines = (
            "\tlinux-vdso.so.1 (0x00007ffd)",
            "\tlibxcb-cursor.so.0 => not found",
            "\tlibc.so.6 => /lib/x86_64-linux-gnu/libc.so.6 (0x00007f1)",
        )
        _script(tmp_path / "ldd", "cat <<'EOF'\n" + "\n".join(lines) + "\nEOF")
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        assert bootstrap.unresolved([Path("libqxcb.so")]) == {"libxcb-cursor.so.0"}

    def test_this_environments_qt_is_complete(self, bootstrap: types.ModuleType) -> None:
        here = types.SimpleNamespace(python=sys.executable)
        files = bootstrap.qt_files(here)
        assert [file.name for file in files] == ["libqxcb.so", "libQt6Widgets.so.6", "QtGui.abi3.so"]
        assert bootstrap.unresolved(files) == set()

    def test_without_root_the_one_line_is_printed(
        self, bootstrap: types.ModuleType, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(bootstrap, "root_prefix", lambda: None)
        with pytest.raises(bootstrap.BootstrapError, match="sudo apt-get install -y libegl1 libgl1"):
            bootstrap.install_packages(["libegl1", "libgl1"])

    def test_with_root_they_are_installed(
        self, bootstrap: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        log = tmp_path / "log"
        _script(tmp_path / "apt-get", f'echo "$@" >> {log}')
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setattr(bootstrap, "root_prefix", lambda: [])
        bootstrap.install_packages(["libegl1"])
        assert log.read_text() == "update -qq\ninstall -y -qq libegl1\n"

    def test_a_refusal_of_apt_is_shown(
        self, bootstrap: types.ModuleType, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        _script(tmp_path / "apt-get", "echo E: Unable to locate package libegl1 >&2; exit 100")
        monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
        monkeypatch.setattr(bootstrap, "root_prefix", lambda: [])
        with pytest.raises(bootstrap.BootstrapError, match="Unable to locate package libegl1"):
            bootstrap.install_packages(["libegl1"])


class TestDemoModels:
    """Fetched once; what somebody removed later stays removed."""

    def test_once(self, bootstrap: types.ModuleType, checkout: types.SimpleNamespace, tmp_path: Path) -> None:
        log = tmp_path / "log"
        bootstrap.data_folder().mkdir(parents=True)
        _script(checkout.venv / "bin" / "mblt-desktop", f'echo "$@" >> {log}')
        bootstrap.fetch_demo_models(checkout)
        bootstrap.fetch_demo_models(checkout)
        assert log.read_text() == "models fetch --demo\n"

    def test_the_window_opens_without_them(
        self,
        bootstrap: types.ModuleType,
        checkout: types.SimpleNamespace,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        _script(checkout.venv / "bin" / "mblt-desktop", "exit 1")
        bootstrap.fetch_demo_models(checkout)
        assert "the Models pane fetches them later" in capsys.readouterr().err
        assert not (bootstrap.data_folder() / "demo-models-fetched").exists()

    @pytest.mark.parametrize(
        "variables",
        [
            {"MBLT_DESKTOP_HOME": "~/somewhere"},
            {"XDG_DATA_HOME": "/srv/data"},
            {"XDG_DATA_HOME": ""},
            {},
        ],
    )
    def test_the_data_folder_is_the_programs_own(
        self, bootstrap: types.ModuleType, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
    ) -> None:
        for name in ("MBLT_DESKTOP_HOME", "XDG_DATA_HOME"):
            monkeypatch.delenv(name, raising=False)
        for name, value in variables.items():
            monkeypatch.setenv(name, value)
        assert bootstrap.data_folder() == default_paths().data


class TestMain:
    """The command line."""

    @pytest.mark.parametrize(
        ("display", "expected"), [({}, "demo"), ({"DISPLAY": ":1"}, "run"), ({"WAYLAND_DISPLAY": "w"}, "run")]
    )
    def test_without_a_display_the_main_job_is_done_without_one(
        self,
        bootstrap: types.ModuleType,
        monkeypatch: pytest.MonkeyPatch,
        display: dict[str, str],
        expected: str,
    ) -> None:
        for name in ("DISPLAY", "WAYLAND_DISPLAY"):
            monkeypatch.delenv(name, raising=False)
        for name, value in display.items():
            monkeypatch.setenv(name, value)
        ran = []
        monkeypatch.setattr(bootstrap, "prepare", lambda *_args: None)
        monkeypatch.setattr(bootstrap, "fetch_demo_models", lambda _checkout: None)
        monkeypatch.setattr(
            bootstrap, "run_commands", lambda _checkout, goal, _arguments: ran.append(goal) or 0
        )
        assert bootstrap.main(["run"]) == 0
        assert ran == [bootstrap.GOALS[expected]]

    def test_a_step_that_cannot_go_on_is_one_error(
        self,
        bootstrap: types.ModuleType,
        monkeypatch: pytest.MonkeyPatch,
        capsys: pytest.CaptureFixture[str],
    ) -> None:
        def fail(*_args: object) -> None:
            raise bootstrap.BootstrapError("Something is missing.")

        monkeypatch.setattr(bootstrap, "prepare", fail)
        assert bootstrap.main(["test"]) == 1
        assert capsys.readouterr().err == "error: Something is missing.\n"

    def test_the_first_failing_command_ends_the_goal(
        self, bootstrap: types.ModuleType, checkout: types.SimpleNamespace
    ) -> None:
        goal = bootstrap.Goal((), {}, (("sh", "-c", "exit 3"), ("no-such-program",)))
        assert bootstrap.run_commands(checkout, goal, []) == 3
