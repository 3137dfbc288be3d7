"""The device as the window sees it: found in the background, read when it tells, asked about layouts."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import pytest
from pytestqt.qtbot import QtBot

from mblt_desktop.devices import monitor as module
from mblt_desktop.devices.monitor import DeviceMonitor, say_readings
from runtime.device import active as devices
from runtime.device import readings as device_readings
from runtime.device.active import ActiveDevice
from runtime.device.readings import Readings
from runtime.errors import ErrorInfo
from runtime.layout.request import LayoutRequest, NormalisedLayout


@pytest.fixture
def monitor() -> Iterator[DeviceMonitor]:
    monitor = DeviceMonitor("simulated")
    yield monitor
    monitor.close()


def test_the_simulated_device_is_known_after_start_and_has_no_readings(
    monitor: DeviceMonitor, qtbot: QtBot
) -> None:
    readings: list[object] = []
    monitor.readings_changed.connect(readings.append)
    with qtbot.waitSignal(monitor.device_known) as caught:
        monitor.start()
    assert caught.args == [monitor.device]
    assert monitor.device is not None
    assert monitor.device.simulated
    assert not monitor._timer.isActive()
    assert readings == []


def test_a_device_that_is_not_there_is_told(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(devices, "_active", None)
    monitor = DeviceMonitor("npu")
    with qtbot.waitSignal(monitor.device_failed) as caught:
        monitor.start()
    (error,) = caught.args
    assert error.code == "device.not_found"
    assert monitor.device is None
    assert monitor.error == error
    monitor.close()


def test_layouts_are_answered_in_order_and_outside_the_windows_thread(
    monitor: DeviceMonitor, qtbot: QtBot
) -> None:
    answers: list[tuple[LayoutRequest, object]] = []
    monitor.layout_checked.connect(lambda request, _folder, answer: answers.append((request, answer)))
    good = LayoutRequest("single", ("0:0:0",))
    bad = LayoutRequest("single", ("9:9:9",))
    monitor.check_layout(good)
    monitor.check_layout(bad)
    qtbot.waitUntil(lambda: len(answers) == 2)
    assert [request for request, _ in answers] == [good, bad]
    assert isinstance(answers[0][1], NormalisedLayout)
    assert isinstance(answers[1][1], ErrorInfo)
    assert answers[1][1].code == "layout.invalid"


class Source:
    """A board that answers one question at a time, and only when it is let."""

    def __init__(self) -> None:
        self.asked = 0
        self.closed = False
        self.answer = threading.Event()

    def read(self) -> Readings:
        self.asked += 1
        assert self.answer.wait(10)
        return Readings(utilisation=0.5)

    def close(self) -> None:
        self.closed = True


def test_a_real_board_is_read_and_never_asked_twice_at_once(
    qtbot: QtBot, monkeypatch: pytest.MonkeyPatch
) -> None:
    source = Source()
    board = ActiveDevice("ARIES (aries-rb)", simulated=False, board="aries-rb", devices=1)
    monkeypatch.setattr(devices, "activate", lambda choice: board)
    monkeypatch.setattr(device_readings, "open_source", lambda: source)
    monkeypatch.setattr(module, "READING_INTERVAL_MS", 5)
    monitor = DeviceMonitor("npu")
    monitor.start()
    qtbot.waitUntil(lambda: source.asked == 1)
    for _ in range(5):
        monitor._on_interval()
    assert source.asked == 1
    with qtbot.waitSignal(monitor.readings_changed) as caught:
        source.answer.set()
    assert caught.args == [Readings(utilisation=0.5)]
    qtbot.waitUntil(lambda: source.asked >= 2)
    monitor.close()
    assert source.closed


def test_unknown_readings_are_a_dash_and_zero_is_zero() -> None:
    assert say_readings(None) == [("NPU", "—"), ("Memory", "—"), ("Temp", "—")]
    assert say_readings(Readings(0.0, 0, 16 * 1024**3, 41.6)) == [
        ("NPU", "0 %"),
        ("Memory", "0.0 of 16.0 GB"),
        ("Temp", "42 °C"),
    ]
    assert say_readings(Readings(memory_used=1024**3))[1] == ("Memory", "1.0 GB")


def test_a_driver_that_does_not_answer_does_not_hold_up_the_end(
    monkeypatch: pytest.MonkeyPatch, qtbot: QtBot
) -> None:
    asked, answer = threading.Event(), threading.Event()

    def hang(_choice: str) -> ActiveDevice:
        asked.set()
        answer.wait(20)
        return ActiveDevice("ARIES", False, "aries-rb", 1)

    monkeypatch.setattr(devices, "activate", hang)
    monitor = DeviceMonitor("npu")
    monitor.start()
    assert asked.wait(10)
    began = time.monotonic()
    assert not monitor.close()
    assert time.monotonic() - began < 2
    answer.set()
    assert monitor.close()
