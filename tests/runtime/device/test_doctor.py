"""The readiness check: every state of the computer gives the finding and the remedy that fit it."""

from __future__ import annotations

import os
import sys
from collections import namedtuple
from pathlib import Path

import pytest

from runtime.config import RuntimeConfig
from runtime.device import active as devices
from runtime.device import doctor, doctor_system
from runtime.device.doctor import Finding, Report, examine, vision_minor
from runtime.device.doctor_system import BoardTraces, look_for_boards, missing_libraries, packages_for


@pytest.fixture
def config(tmp_path: Path) -> RuntimeConfig:
    return RuntimeConfig(tmp_path / "data", "simulated")


def only(findings: object, check: str) -> Finding:
    (finding,) = [finding for finding in findings if finding.check == check]  # type: ignore[attr-defined]
    return finding


def test_this_computer_is_ready_and_says_that_the_device_is_simulated(config: RuntimeConfig) -> None:
    report = examine(config)
    assert report.usable
    assert report.simulated
    assert report.device == devices.SIMULATED_TITLE
    checks = {finding.check for finding in report.findings}
    assert checks == {"python", "qt", "npu_runtime", "npu_models", "speech", "torch", "device", "board",
                      "monitoring", "audio", "data", "disk", "models"}  # fmt: skip
    assert all(finding.summary for finding in report.findings)
    assert all(finding.fix for finding in report.findings if finding.status in ("warning", "failure"))
    assert not config.data_dir.exists(), "looking changes nothing"


def test_a_failure_makes_the_report_unusable_and_a_warning_does_not() -> None:
    warning = Finding("a", "A", "warning", "…")
    failure = Finding("b", "B", "failure", "…")
    assert Report((warning,), "", False).usable
    assert not Report((warning, failure), "", False).usable


def test_a_check_that_breaks_does_not_hide_the_others(
    config: RuntimeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def _broken(_config: RuntimeConfig) -> object:
        raise RuntimeError("boom")

    monkeypatch.setattr(doctor, "CHECKS", (_broken, doctor._python))
    first, second = examine(config).findings
    assert (first.check, first.status) == ("broken", "warning")
    assert "RuntimeError" in first.detail
    assert second.check == "python"


@pytest.mark.parametrize(
    ("boards", "traces", "status", "said", "fix"),
    [
        (["aries-rb"], BoardTraces((), (), ()), "ok", "aries-rb", ""),
        ([], BoardTraces((), (), ()), "note", "None in this computer", ""),
        ([], BoardTraces(("0000:01:00.0",), (), ()), "warning", "driver is not loaded", "aries-driver"),
        ([], BoardTraces((), ("/dev/aries0",), ("/dev/aries0",)), "warning", "use /dev/aries0", "chmod"),
        ([], BoardTraces((), ("/dev/aries0",), ()), "warning", "does not accept it", "firmware"),
    ],
)  # fmt: skip
def test_the_board_finding_says_where_the_way_ends(
    boards: list[str], traces: BoardTraces, status: str, said: str, fix: str
) -> None:
    finding = doctor._board(boards, traces)
    assert finding.status == status
    assert said in finding.summary
    assert fix in finding.fix


def test_boards_are_looked_for_on_the_bus_and_among_the_device_nodes(tmp_path: Path) -> None:
    dev, pci = tmp_path / "dev", tmp_path / "pci"
    for name in ("aries0", "aries1", "aries_ctl", "regulus-npu", "sda"):
        (dev / name).parent.mkdir(exist_ok=True)
        (dev / name).touch()
    for address, vendor in (("0000:01:00.0", "0x209f\n"), ("0000:02:00.0", "0x8086\n")):
        (pci / address).mkdir(parents=True)
        (pci / address / "vendor").write_text(vendor, encoding="ascii")
    traces = look_for_boards(dev, pci)
    assert traces.cards == ("0000:01:00.0",)
    assert [Path(node).name for node in traces.nodes] == ["aries0", "aries1", "regulus-npu"]
    assert traces.refused == ()
    assert look_for_boards(tmp_path / "none", tmp_path / "none") == BoardTraces((), (), ())


def test_a_node_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "aries0").touch()
    monkeypatch.setattr(os, "access", lambda path, mode: False)
    assert look_for_boards(tmp_path, tmp_path).refused == (str(tmp_path / "aries0"),)


def test_missing_libraries_are_named_with_their_packages(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    ldd = tmp_path / "ldd"
    ldd.write_text(
        "#!/bin/sh\n"
        "echo '\tlibxcb-cursor.so.0 => not found'\n"
        "echo '\tlibc.so.6 => /lib/libc.so.6 (0x1)'\n"
        "echo '\tlibodd.so.1 => not found'\n",
        encoding="ascii",
    )
    ldd.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    missing = missing_libraries(Path(sys.executable).resolve())
    assert missing == ["libodd.so.1", "libxcb-cursor.so.0"]
    assert packages_for(missing) == ["libodd.so.1", "libxcb-cursor0"]
    assert missing_libraries(tmp_path / "absent.so") == []


def test_a_window_without_its_libraries_is_a_failure_only_where_there_is_a_display(
    config: RuntimeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(doctor_system, "missing_libraries", lambda path: ["libxcb-cursor.so.0"])
    monkeypatch.setenv("DISPLAY", ":1")
    finding = only(doctor._window(config), "qt")
    assert finding.status == "failure"
    assert finding.fix.endswith("sudo apt install libxcb-cursor0")
    monkeypatch.delenv("DISPLAY")
    monkeypatch.delenv("WAYLAND_DISPLAY", raising=False)
    assert only(doctor._window(config), "qt").status == "warning"


def test_torch_and_torchvision_must_be_made_for_each_other(
    config: RuntimeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert vision_minor("2.14.1") == 29
    assert vision_minor("2.9.0+cpu") == 24
    assert vision_minor("nightly") is None
    versions = {"torch": "2.14.1", "torchvision": "0.28.0"}
    monkeypatch.setattr(doctor, "_version", versions.get)
    finding = only(doctor._torch(config), "torch")
    assert finding.status == "failure"
    assert "torchvision==0.29.*" in finding.fix
    versions["torchvision"] = "0.29.1+cpu"
    assert only(doctor._torch(config), "torch").status == "ok"
    versions["torchvision"] = ""
    assert "torchvision is not installed" in only(doctor._torch(config), "torch").summary


def test_an_old_python_is_a_failure(config: RuntimeConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "version_info", (3, 13, 0))
    assert only(doctor._python(config), "python").status == "failure"


@pytest.mark.parametrize(("free", "status"), [(1, "failure"), (1024**3, "warning"), (10 * 1024**3, "ok")])
def test_disk_space(config: RuntimeConfig, monkeypatch: pytest.MonkeyPatch, free: int, status: str) -> None:
    usage = namedtuple("usage", "total used free")
    monkeypatch.setattr("shutil.disk_usage", lambda path: usage(free, 0, free))
    assert only(doctor._disk(config), "disk").status == status


def test_a_data_folder_that_cannot_be_written_is_a_failure(
    config: RuntimeConfig, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_args: object, **_kwargs: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("tempfile.NamedTemporaryFile", refuse)
    finding = only(doctor._disk(config), "data")
    assert finding.status == "failure"
    assert str(config.data_dir) in finding.summary


def test_a_file_where_the_data_folder_should_be_is_a_failure(tmp_path: Path) -> None:
    (tmp_path / "home").write_text("a file")
    finding = only(doctor._disk(RuntimeConfig(tmp_path / "home" / "data")), "data")
    assert finding.status == "failure"
    assert str(tmp_path / "home") in finding.summary


def test_no_board_where_one_is_demanded_is_a_failure(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_active", None)
    finding = only(doctor._device(RuntimeConfig(tmp_path, "npu")), "device")
    assert finding.status == "failure"
    assert "--device simulated" in finding.fix


def test_missing_models_name_the_command_that_fetches_one(config: RuntimeConfig) -> None:
    finding = only(doctor._models(config), "models")
    assert finding.status == "warning"
    assert "models fetch" in finding.fix
