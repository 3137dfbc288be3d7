"""The program as a whole: what is imported when, how it ends, and what it says after a crash."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
import threading
from pathlib import Path

import pytest

from mblt_desktop.app import Application
from mblt_desktop.crash import CrashLog, FaultReporter
from mblt_desktop.display import DisplayError, prepare_display
from mblt_desktop.paths import Paths
from mblt_desktop.theme import DARK, current_theme
from runtime.config import KvOptions
from runtime.errors import CorruptStoreError
from runtime.settings.table import ENGINE_KEYS
from tests.test_boundaries import HEAVY


def run(code: str, **environment: str) -> subprocess.CompletedProcess[str]:
    """Run a program of its own, offscreen, in the test's home."""
    return subprocess.run(
        [sys.executable, "-c", textwrap.dedent(code)],
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen", **environment},
    )


def test_the_window_is_painted_before_anything_heavy_is_imported():
    done = run(
        """
        import sys
        from mblt_desktop import app
        from mblt_desktop.main_window import MainWindow

        painted = MainWindow.paintEvent

        def paint(window, event):
            painted(window, event)
            if not getattr(window, "seen", False):
                window.seen = True
                print("\\n".join(sorted(sys.modules)))
                window.painted.disconnect()
                window.painted.connect(window.close)

        MainWindow.paintEvent = paint
        sys.exit(app.run_app())
        """
    )
    assert done.returncode == 0, done.stderr
    loaded = {name.split(".")[0] for name in done.stdout.split()}
    assert {"mblt_desktop", "PySide6"} <= loaded
    assert loaded & HEAVY == set()
    assert "numpy" not in loaded


@pytest.mark.parametrize("signal_name", ["SIGINT", "SIGTERM"])
def test_a_signal_ends_the_program_and_nothing_typed_is_lost(signal_name: str, paths: Paths):
    done = run(
        f"""
        import os, signal, sys
        from PySide6.QtCore import QTimer
        from mblt_desktop import app

        class Program(app.Application):
            def _on_painted(self):
                self.window.chat.composer.set_text("half a thought")
                QTimer.singleShot(0, lambda: os.kill(os.getpid(), signal.{signal_name}))

        app.Application = Program
        sys.exit(app.run_app())
        """
    )
    assert (done.returncode, done.stderr) == (0, "")
    assert not paths.crash_log.exists()
    from mblt_desktop.store.store import Store

    store = Store(paths.database)
    assert [chat.draft for chat in store.conversations.list()] == ["half a thought"]
    store.close()


def test_a_load_that_hangs_does_not_hold_up_the_end_and_nothing_typed_is_lost(
    paths: Paths, demo_models: Path
):
    paths.data.mkdir(parents=True)
    (paths.data / "models").symlink_to(demo_models)
    done = run(
        """
        import gc, os, signal, sys, time
        from PySide6.QtCore import QTimer
        from mblt_desktop import app

        class Program(app.Application):
            def __init__(self, *args):
                super().__init__(*args)
                self.dispatcher.model_loading.connect(self.seen)

            def seen(self, event):
                if "weights" in event.stage:
                    self.dispatcher.model_loading.disconnect(self.seen)
                    self.window.chat.composer.set_text("half a thought")
                    QTimer.singleShot(300, self.end)

            def end(self):
                self.began = time.monotonic()
                os.kill(os.getpid(), signal.SIGTERM)

            def shut_down(self):
                ended = super().shut_down()
                # The load's thread still runs: only the window's may collect what is left of the window.
                print(ended, time.monotonic() - self.began < 3.0, gc.isenabled(), flush=True)
                return ended

        app.Application = Program
        sys.exit(app.run_app(device="simulated"))
        """,
        MBLT_SIM_FAULTS="slow_launch=40",
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "False True False\n", "")
    from mblt_desktop.store.store import Store

    store = Store(paths.database)
    assert [chat.draft for chat in store.conversations.list()] == ["half a thought"]
    store.close()


def test_a_crash_is_told_at_the_next_start_once(qtbot, paths: Paths):
    crashed = run(
        """
        import faulthandler
        from mblt_desktop.crash import CrashLog
        from mblt_desktop.paths import default_paths
        CrashLog(default_paths().crash_log).open()
        faulthandler._sigsegv()
        """
    )
    assert crashed.returncode < 0
    log = CrashLog(paths.crash_log)
    told = log.open()
    log.close()
    assert "crashed" in told.summary
    assert "Segmentation fault" in told.detail
    again = CrashLog(paths.crash_log)
    assert again.open() is None
    again.close()


def test_a_log_that_cannot_be_written_does_not_stop_the_program(tmp_path: Path):
    (tmp_path / "file").write_text("")
    log = CrashLog(tmp_path / "file" / "crash.log")
    assert log.open() is None
    log.close()


def test_faults_that_nobody_caught_are_told_from_every_thread(qtbot):
    reporter = FaultReporter()
    told = []
    reporter.fault_found.connect(told.append)
    reporter.install()
    try:
        sys.excepthook(ValueError, ValueError("in the window"), None)
        thread = threading.Thread(target=lambda: 1 / 0)
        thread.start()
        thread.join()
        qtbot.waitUntil(lambda: len(told) == 2)
    finally:
        reporter.uninstall()
    assert "in the window" in told[0].detail
    assert "ZeroDivisionError" in told[1].summary


def test_without_a_display_the_words_come_before_qt_aborts():
    with pytest.raises(DisplayError, match="no display"):
        prepare_display({})
    prepare_display({"QT_QPA_PLATFORM": "offscreen"})
    prepare_display({"WAYLAND_DISPLAY": "wayland-0"})


def test_missing_libraries_are_named_with_their_packages(monkeypatch: pytest.MonkeyPatch):
    def refuse(path: str) -> None:
        raise OSError("libxcb-cursor.so.0: cannot open shared object file")

    monkeypatch.setattr("mblt_desktop.display.ctypes.CDLL", refuse)
    monkeypatch.setattr("mblt_desktop.display.missing_libraries", lambda _: ["libxcb-cursor.so.0"])
    with pytest.raises(DisplayError) as caught:
        prepare_display({"DISPLAY": ":0"})
    assert "sudo apt install libxcb-cursor0" in caught.value.remedy
    assert "cannot open shared object" in caught.value.detail


def test_fcitx_is_reached_through_its_ibus_side():
    environment = {"QT_QPA_PLATFORM": "offscreen", "QT_IM_MODULE": "fcitx", "XMODIFIERS": "@im=fcitx"}
    prepare_display(environment)
    assert environment["QT_IM_MODULE"] == "ibus"
    other = {"QT_QPA_PLATFORM": "offscreen", "QT_IM_MODULE": "ibus"}
    prepare_display(other)
    assert other["QT_IM_MODULE"] == "ibus"


def test_what_was_put_aside_at_start_is_said(qtbot, qapp, paths: Paths):
    paths.data.mkdir(parents=True)
    paths.database.write_bytes(b"nonsense" * 500)
    paths.settings_file.parent.mkdir(parents=True)
    paths.settings_file.write_text("{ not json")
    program = Application(qapp, paths, "simulated")
    codes = {error.code for error in program.window.notices.errors}
    assert CorruptStoreError.code in codes
    assert len(program.window.notices.errors) == 2
    assert program.shut_down()


def test_the_theme_follows_its_setting(qtbot, qapp, paths: Paths):
    program = Application(qapp, paths, "simulated")
    program.preferences.set("appearance.theme", "dark")
    assert current_theme() is DARK
    assert program.shut_down()


def test_the_settings_of_kept_kv_are_the_engines_at_start_and_with_every_change(qtbot, qapp, paths: Paths):
    paths.settings_file.parent.mkdir(parents=True)
    paths.settings_file.write_text('{"advanced.kv_conversations": 5}')
    program = Application(qapp, paths, "simulated")
    assert program.bridge.host.config.engine.kv == KvOptions(calibrate=True, conversations=5)
    changes = {
        "advanced.kv_conversations": 3,
        "advanced.kv_host_mib": 99,
        "advanced.kv_minimum_hit": 7,
        "advanced.kv_load_margin": 0.4,
        "advanced.kv_ewma_weight": 0.7,
        "advanced.kv_calibrate": False,
        "advanced.kv_block": 32,
        "advanced.kv_calibration_blocks": (3, 9),
        "storage.keep_kv": True,
        "storage.kv_mib": 77,
    }
    assert set(changes) == ENGINE_KEYS
    for key, value in changes.items():
        program.preferences.set(key, value)
    expected = KvOptions(3, 99, 7, 0.4, 0.7, False, 32, (3, 9), True, 77)
    assert program.bridge.host.config.engine.kv == expected
    assert program.shut_down()


def test_a_removed_models_own_parts_are_forgotten(qtbot, qapp, paths: Paths):
    folder = paths.data / "models" / "gone"
    folder.mkdir(parents=True)
    (folder / "config.json").write_text("{}")
    program = Application(qapp, paths, "simulated")
    program.preferences.set("layout.parts", ("gone/encoder=single", "kept/encoder=multi"))
    with qtbot.waitSignal(program.context.jobs.ended):
        program.context.jobs.start("remove", "no-such-model")
    assert len(program.preferences.get("layout.parts")) == 2
    with qtbot.waitSignal(program.context.jobs.ended):
        program.context.jobs.start("remove", "gone")
    assert program.preferences.get("layout.parts") == ("kept/encoder=multi",)
    assert program.shut_down()
