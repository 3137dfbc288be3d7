"""The one recording of the window: status bar button and pane share it."""

from __future__ import annotations

import pytest
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.tracing.controller import RecordingController, recording_controller
from mblt_desktop.tracing.record_button import RecordButton
from runtime.errors import TraceError
from runtime.messages import (
    RecordingFailed,
    RecordingFinished,
    RecordingInfo,
    RecordingStarted,
    StartRecording,
    StopRecording,
)
from tests.ui.conftest import RecordingShell, ScriptedBridge


@pytest.fixture
def controller(context: AppContext) -> RecordingController:
    return recording_controller(context)


def start(qtbot: QtBot, bridge: ScriptedBridge, controller: RecordingController) -> str:
    controller.toggle()
    (command,) = bridge.host.sent(StartRecording)
    with qtbot.waitSignal(controller.state_changed):
        bridge.host.post(RecordingStarted(command.recording_id, 0.0))
    return str(command.recording_id)


def finished(recording_id: str) -> RecordingFinished:
    info = RecordingInfo(recording_id, f"/r/{recording_id}.pftrace", "Title", 0.0, 1.0, 3, 4, simulated=True)
    return RecordingFinished(info)


def test_there_is_one_controller_for_the_window(context: AppContext, controller: RecordingController) -> None:
    assert recording_controller(context) is controller


def test_a_recording_from_start_to_file(
    qtbot: QtBot, bridge: ScriptedBridge, context: AppContext, controller: RecordingController
) -> None:
    context.preferences.set("tracing.max_seconds", 90.0)
    context.preferences.set("tracing.max_events", 5000)
    recording_id = start(qtbot, bridge, controller)
    (command,) = bridge.host.sent(StartRecording)
    assert (command.max_seconds, command.max_events) == (90.0, 5000)
    assert command.folder == str(context.paths.recordings)
    assert controller.state == "recording"
    with qtbot.waitSignal(controller.ticked):
        pass
    controller.toggle()
    assert controller.state == "stopping"
    assert bridge.host.sent(StopRecording) == [StopRecording(recording_id)]
    with qtbot.waitSignal(controller.finished) as told:
        bridge.host.post(finished(recording_id))
    assert told.args[0].recording_id == recording_id
    assert controller.state == "idle"


def test_presses_while_starting_or_stopping_do_nothing(
    qtbot: QtBot, bridge: ScriptedBridge, controller: RecordingController
) -> None:
    controller.toggle()
    controller.toggle()
    controller.start()
    assert len(bridge.host.sent(StartRecording)) == 1
    (command,) = bridge.host.sent(StartRecording)
    with qtbot.waitSignal(controller.state_changed):
        bridge.host.post(RecordingStarted(command.recording_id, 0.0))
    controller.toggle()
    controller.toggle()
    assert len(bridge.host.sent(StopRecording)) == 1


def test_a_limit_ends_it_without_a_press(
    qtbot: QtBot, bridge: ScriptedBridge, controller: RecordingController
) -> None:
    recording_id = start(qtbot, bridge, controller)
    with qtbot.waitSignal(controller.finished):
        bridge.host.post(finished(recording_id))
    assert controller.state == "idle"


def test_a_recovered_recording_does_not_end_the_running_one(
    qtbot: QtBot, bridge: ScriptedBridge, controller: RecordingController
) -> None:
    recording_id = start(qtbot, bridge, controller)
    with qtbot.waitSignal(controller.finished):
        bridge.host.post(finished("of-yesterday"))
    assert controller.state == "recording"
    with qtbot.waitSignal(controller.finished):
        bridge.host.post(finished(recording_id))


def test_a_failure_is_shown_and_it_works_again(
    qtbot: QtBot, bridge: ScriptedBridge, controller: RecordingController, shell: RecordingShell
) -> None:
    controller.start()
    (command,) = bridge.host.sent(StartRecording)
    error = TraceError("The disk is full.").info
    with qtbot.waitSignal(controller.state_changed):
        bridge.host.post(RecordingFailed(command.recording_id, error))
    assert shell.errors == [error]
    assert controller.state == "idle"
    controller.start()
    assert len(bridge.host.sent(StartRecording)) == 2


def test_the_button_says_what_a_press_does(
    qtbot: QtBot, bridge: ScriptedBridge, controller: RecordingController
) -> None:
    button = RecordButton(controller)
    qtbot.addWidget(button)
    assert button.button.text() == "Record trace"
    assert not button.facts.isVisibleTo(button)
    button.button.click()
    assert (button.button.text(), button.button.isEnabled()) == ("Starting…", False)
    (command,) = bridge.host.sent(StartRecording)
    with qtbot.waitSignal(controller.ticked):
        bridge.host.post(RecordingStarted(command.recording_id, 0.0))
    assert (button.button.text(), button.button.isEnabled()) == ("Stop", True)
    assert button.facts.text() == "00:00 · 0 events"
    assert button.facts.isVisibleTo(button)
    button.button.click()
    assert button.button.text() == "Writing…"
    with qtbot.waitSignal(controller.finished):
        bridge.host.post(finished(command.recording_id))
    assert button.button.accessibleName().startswith("Record")
