"""The choice of the device: once per process, before the vendor's packages, and said in words."""

from __future__ import annotations

import subprocess
import sys

import pytest

from runtime.device import active as devices
from runtime.device.active import ActiveDevice, activate, use_simulator
from runtime.errors import DeviceError, DeviceNotFoundError


@pytest.mark.parametrize(
    ("choice", "boards", "simulated"),
    [
        ("auto", [], True),
        ("auto", ["aries-rb"], False),
        ("npu", ["aries-rb"], False),
        ("simulated", [], True),
        ("simulated", ["aries-rb"], True),
    ],
)
def test_the_choice_follows_the_boards(choice: str, boards: list[str], simulated: bool) -> None:
    assert use_simulator(choice, boards) is simulated  # type: ignore[arg-type]


def test_a_board_that_is_demanded_and_absent_is_an_error_with_a_remedy() -> None:
    with pytest.raises(DeviceNotFoundError, match="No Mobilint board") as caught:
        use_simulator("npu", [])
    assert "--device simulated" in caught.value.remedy


def test_the_simulated_device_says_so_and_is_chosen_once() -> None:
    device = activate("simulated")
    assert device == ActiveDevice("Simulated ARIES (CPU)", simulated=True, board="aries-rb", devices=1)
    assert activate("auto") is device
    assert devices.active_device() is device


def test_another_kind_of_device_needs_a_restart() -> None:
    activate("simulated")
    with pytest.raises(DeviceError, match="already runs on Simulated ARIES") as caught:
        activate("npu")
    assert "--device npu" in caught.value.remedy


@pytest.mark.parametrize(
    ("boards", "numbers", "title", "count"),
    [
        (["aries-rb"], [0], "ARIES (aries-rb)", 1),
        (["aries-rb"], [0, 1], "2 ARIES boards (aries-rb)", 2),
        (["regulus-ra-usb"], [], "REGULUS (regulus-ra-usb)", 1),
    ],
)
def test_real_boards_are_counted_by_their_numbers(
    boards: list[str], numbers: list[int], title: str, count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    import qbruntime

    monkeypatch.setattr(qbruntime, "get_available_device_numbers", lambda board: numbers)
    assert devices._real(boards) == ActiveDevice(title, simulated=False, board=boards[0], devices=count)


def test_the_simulated_boards_are_never_taken_for_real_ones() -> None:
    activate("simulated")
    assert devices.find_boards() == []


def test_the_vendors_packages_wait_for_the_choice(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_active", None)
    with pytest.raises(RuntimeError, match="activate"):
        devices.vendor_stack()
    with pytest.raises(RuntimeError, match="activate"):
        devices.vendor_backend()


PROBE = """
import sys
from runtime.device.active import activate, find_boards, vendor_backend
assert "qbruntime" not in sys.modules
find_boards()
device = activate("auto")
backend = vendor_backend()
import qbruntime
from mblt_npu import npu_backend
assert npu_backend.Model is qbruntime.Model and npu_backend.Accelerator is qbruntime.Accelerator
try:
    qbruntime.Model("/no/such/model.mxq")
except qbruntime.QbRuntimeError as error:
    print(str(error).split()[0], file=sys.stderr)
heavy = {"torch", "transformers", "transformers_mblt"} & set(sys.modules)
assert not heavy, heavy
"""


def test_a_fresh_process_keeps_its_output_clean_and_imports_nothing_heavy() -> None:
    done = subprocess.run(
        [sys.executable, "-c", PROBE], capture_output=True, text=True, timeout=120, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout == "", "the runtime's log must not mix into --json"
    assert done.stderr.strip() == "Model_FailedToLoadMXQ"
