"""Record and Stop: the take is on disk, transcribed, never lost; a missing microphone is said in words."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.microphone.pane import MicrophonePane
from mblt_desktop.microphone.takes import TakeFolder, title_of
from runtime.errors import MicrophoneError
from runtime.messages import (
    Failed,
    ListMicrophones,
    MicrophonesListed,
    StartTake,
    StopTake,
    TakeFinished,
    TakeLevel,
    TakeStarted,
    Transcribe,
)
from tests.ui.conftest import Post, RecordingShell, ScriptedBridge
from tests.ui.microphone.conftest import BUILT_IN, HEADSET
from tests.ui.microphone.test_files import done


def click(qtbot: QtBot, pane: MicrophonePane) -> None:
    qtbot.mouseClick(pane.record_panel.button, Qt.MouseButton.LeftButton)


def test_record_stop_text(
    ready: MicrophonePane, bridge: ScriptedBridge, post: Post, qtbot: QtBot, context: AppContext
) -> None:
    panel = ready.record_panel
    click(qtbot, ready)
    start = bridge.host.sent(StartTake)[0]
    assert Path(start.path).parent == context.paths.media
    assert start.microphone is None
    assert panel.button.text() == "Opening…"
    post(TakeStarted(start.request_id, "USB Headset Mono"), TakeLevel(start.request_id, 24.2, 0.5))
    assert panel.button.text() == "Stop · 0:24"
    assert 0.8 < panel.meter.level < 1.0
    assert not panel.devices.isEnabled()
    assert ready.page.header.title == "Recording"
    click(qtbot, ready)
    assert bridge.host.sent(StopTake)[0].request_id == start.request_id
    assert panel.button.text() == "Finishing…"
    assert not panel.button.isEnabled()
    post(TakeFinished(start.request_id, start.path, 24.5))
    assert panel.button.text() == "Record"
    request = bridge.host.sent(Transcribe)[0]
    assert (request.source, request.priority) == (start.path, "interactive")
    post(done(request.request_id, start.path))
    assert ready.page.header.title.startswith("Recording, ")
    assert ready.page.text.plain_text() == "Good morning, everyone."
    assert ready.takes.unfinished([row.source for row in context.store.transcripts.list()]) == []


def test_a_double_click_on_record_makes_one_take(
    ready: MicrophonePane, bridge: ScriptedBridge, qtbot: QtBot
) -> None:
    ready.recorder.start()
    ready.recorder.start()
    assert len(bridge.host.sent(StartTake)) == 1


def test_a_lost_microphone_is_told_and_its_take_transcribed(
    ready: MicrophonePane, bridge: ScriptedBridge, post: Post, qtbot: QtBot
) -> None:
    click(qtbot, ready)
    start = bridge.host.sent(StartTake)[0]
    error = MicrophoneError("The microphone “USB Headset Mono” stopped delivering sound.").info
    asked = len(bridge.host.sent(ListMicrophones))
    post(
        TakeStarted(start.request_id, "USB Headset Mono"),
        TakeFinished(start.request_id, start.path, 3.0, error),
    )
    assert ready.banner.error == error
    assert ready.banner.isVisible()
    assert bridge.host.sent(Transcribe)[0].source == start.path
    assert len(bridge.host.sent(ListMicrophones)) == asked + 1
    click(qtbot, ready)
    assert len(bridge.host.sent(StartTake)) == 2


def test_an_input_that_cannot_be_opened_leaves_record_ready(
    ready: MicrophonePane, bridge: ScriptedBridge, post: Post, qtbot: QtBot
) -> None:
    click(qtbot, ready)
    error = MicrophoneError("The microphone “USB Headset Mono” cannot be opened.").info
    post(Failed(bridge.host.sent(StartTake)[0].request_id, error))
    assert ready.banner.error == error
    assert ready.record_panel.button.isEnabled()
    assert ready.record_panel.button.text() == "Record"


def test_no_microphone_disables_record_and_says_what_to_do(pane: MicrophonePane, post: Post) -> None:
    assert not pane.record_panel.button.isEnabled()
    problem = MicrophoneError("No microphone was found.", remedy="Connect one and press Refresh.").info
    post(MicrophonesListed((), problem))
    assert not pane.record_panel.button.isEnabled()
    assert pane.record_panel.devices.currentText() == "No microphone"
    assert pane.record_panel.note.text() == "No microphone was found. Connect one and press Refresh."
    assert pane.record_panel.note.isVisible()


def test_the_picker_follows_what_is_plugged_in_and_keeps_the_choice(
    ready: MicrophonePane, bridge: ScriptedBridge, post: Post, qtbot: QtBot
) -> None:
    picker = ready.record_panel.devices
    assert [picker.itemText(row) for row in range(picker.count())] == [
        "System default",
        "USB Headset Mono",
        "Built-in",
    ]
    picker.setCurrentIndex(2)
    picker.activated.emit(2)
    post(MicrophonesListed((BUILT_IN, HEADSET)))
    assert picker.currentText() == "Built-in"
    post(MicrophonesListed((HEADSET,)))
    assert picker.currentText() == "System default"
    post(MicrophonesListed((HEADSET, BUILT_IN)))
    assert picker.currentText() == "Built-in"
    click(qtbot, ready)
    assert bridge.host.sent(StartTake)[0].microphone == BUILT_IN.key


def make_take(context: AppContext, name: str = "take-2026-11-30-140205.wav") -> Path:
    path = context.paths.media / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"RIFF")
    return path


def test_a_take_left_by_a_crash_is_offered_again(
    pane: MicrophonePane, context: AppContext, bridge: ScriptedBridge, post: Post, qtbot: QtBot
) -> None:
    path = make_take(context)
    pane.activated()
    pane.activated()
    (row,) = pane.queue_view.rows.values()
    assert row.value.text() == "not transcribed"
    assert row.item.title == "Recording, 30 November, 14:02"
    assert bridge.host.sent(Transcribe) == []
    from runtime.messages import ModelsListed
    from tests.ui.microphone.conftest import TINY

    post(ModelsListed((TINY,)))
    qtbot.mouseClick(row.again, Qt.MouseButton.LeftButton)
    assert bridge.host.sent(Transcribe)[0].source == str(path)
    assert path.exists()


def test_a_removed_take_can_be_brought_back(
    pane: MicrophonePane, context: AppContext, shell: RecordingShell, qtbot: QtBot
) -> None:
    path = make_take(context)
    pane.activated()
    (row,) = pane.queue_view.rows.values()
    qtbot.mouseClick(row.close_button, Qt.MouseButton.LeftButton)
    assert not path.exists()
    assert pane.queue_view.rows == {}
    undo = shell.toasts[-1][1]
    assert undo is not None
    undo()
    assert path.exists()
    assert len(pane.queue_view.rows) == 1


def test_the_trash_is_emptied_at_the_next_start(tmp_path: Path) -> None:
    takes = TakeFolder(tmp_path)
    path = takes.new_path()
    path.write_bytes(b"RIFF")
    assert takes.new_path() != path
    takes.discard(path)
    takes.empty_trash()
    takes.restore(path)
    assert list(tmp_path.iterdir()) == []


def test_names_of_takes() -> None:
    assert title_of(Path("/m/take-2026-01-02-030405-2.wav")) == "Recording, 2 January, 03:04"
    assert title_of(Path("/m/take-nonsense.wav")) == "take-nonsense.wav"
