"""The tracing pane on a scripted recorder lane."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QModelIndex, Qt
from PySide6.QtGui import QDesktopServices, QGuiApplication
from pytestqt.qtbot import QtBot

from mblt_desktop.context import AppContext
from mblt_desktop.tracing import perfetto
from mblt_desktop.tracing.pane import TracingPane, is_trace_file
from runtime.errors import TraceError
from runtime.messages import (
    AnalyseRecording,
    Exported,
    ExportRecording,
    Failed,
    ImportRecording,
    ListRecordings,
    RecordingAnalysed,
    RecordingFinished,
    RecordingInfo,
    RecordingsListed,
    RecordingStarted,
    RemoveRecording,
    RenameRecording,
    RestoreRecording,
    StartRecording,
)
from tests.ui.conftest import RecordingShell, ScriptedBridge
from tests.ui.tracing.conftest import view_of

Save = Callable[[str], RecordingInfo]


@pytest.fixture
def pane(qtbot: QtBot, context: AppContext) -> Iterator[TracingPane]:
    made = TracingPane(context)
    qtbot.addWidget(made)
    made.resize(1376, 860)
    made.show()
    made.activated()
    yield made
    made.close_down()


def post_list(
    qtbot: QtBot, bridge: ScriptedBridge, pane: TracingPane, *rows: RecordingInfo, notice: str = ""
) -> None:
    """The lane answers with these recordings."""
    assert bridge.host.sent(ListRecordings)
    with qtbot.waitSignal(pane._context.dispatcher.event_received):
        bridge.host.post(RecordingsListed(str(pane._folder), rows, notice))


def answer_analysis(qtbot: QtBot, bridge: ScriptedBridge, pane: TracingPane) -> None:
    """The lane reads what was asked for last."""
    command = bridge.host.sent(AnalyseRecording)[-1]
    with qtbot.waitSignals([pane.page.analyst.counted, pane.page.analyst.broken_down]):
        bridge.host.post(RecordingAnalysed(command.request_id, command.path, view_of(command.path)))


@pytest.fixture
def shown(qtbot: QtBot, bridge: ScriptedBridge, pane: TracingPane, save: Save) -> RecordingInfo:
    info = save("one")
    post_list(qtbot, bridge, pane, info)
    answer_analysis(qtbot, bridge, pane)
    return info


def test_without_recordings_it_teaches_and_offers_a_sample(
    qtbot: QtBot, bridge: ScriptedBridge, pane: TracingPane
) -> None:
    post_list(qtbot, bridge, pane)
    nothing = pane.page.nothing
    assert "Press Record" in nothing.text.text()
    pane.sample.click()
    (command,) = bridge.host.sent(ImportRecording)
    assert Path(command.source).is_file()
    view = view_of(command.source)
    assert view.metadata.simulated
    assert {"decode step", "run npu", "transcribe window"} <= set(view.names)
    nothing.button.click()
    assert len(bridge.host.sent(StartRecording)) == 1


def test_the_newest_recording_is_shown_with_what_it_says_about_itself(
    pane: TracingPane, shown: RecordingInfo
) -> None:
    page = pane.page
    assert page.header.title == shown.title
    assert page.device.text == "Simulated ARIES (CPU)"
    assert page.private.text == "no text inside"
    names = [row.name for row in page.statistics.table.model_.rows]
    assert {"decode step", "run npu", "paint"} <= set(names)
    assert page.statistics.heading.text().startswith("Whole recording")
    assert "simulated" in page.breakdown.comment.text()
    assert page.breakdown.values["run"].text() == "600 µs"


def test_a_selected_stretch_is_counted(qtbot: QtBot, pane: TracingPane, shown: RecordingInfo) -> None:
    page = pane.page
    with qtbot.waitSignal(page.analyst.counted):
        page.timeline.select_range(1_000_000, 3_000_000)
    assert page.statistics.heading.text() == "Selected range · 2.00 ms"
    rows = {row.name: row for row in page.statistics.table.model_.rows}
    assert rows["decode step"].count == 2
    with qtbot.waitSignal(page.analyst.counted):
        page.timeline.clear_selection()
    assert page.statistics.heading.text().startswith("Whole recording")


def test_a_span_brings_its_request_and_a_step_its_time(
    qtbot: QtBot, pane: TracingPane, shown: RecordingInfo
) -> None:
    page = pane.page
    view = page.timeline.view
    assert view is not None
    track = next(number for number, track in enumerate(view.tracks) if track.title == "Chat engine")
    last = len(view.tracks[track].start) - 1
    with qtbot.waitSignal(page.analyst.broken_down) as told:
        page.timeline.reveal(track, last)
    assert view.requests[told.args[0].request].request_id == "2"
    bars = page.breakdown.bars
    with qtbot.waitSignal(page.timeline.range_changed):
        qtbot.keyClick(bars, Qt.Key.Key_Right)
    assert bars.current == 0
    assert page.timeline.selection is not None
    assert page.timeline.selection[0] == told.args[0].steps[0].start
    assert "NPU run" in bars.accessibleDescription()


def test_finding_a_span(qtbot: QtBot, pane: TracingPane, shown: RecordingInfo) -> None:
    page = pane.page
    with qtbot.waitSignal(page.analyst.found):
        page.search.setText("decode st")
    assert page.hits.text() == "10 found"
    qtbot.keyClick(page.search, Qt.Key.Key_Return)
    assert page.hits.text() == "1 of 10"
    qtbot.keyClick(page.search, Qt.Key.Key_Return, Qt.KeyboardModifier.ShiftModifier)
    assert page.hits.text() == "10 of 10"
    assert page.timeline.selected is not None
    with qtbot.waitSignal(page.analyst.found):
        page.search.setText("nowhere")
    assert page.hits.text() == "0 found"
    qtbot.keyClick(page.search, Qt.Key.Key_Return)
    page.search.clear()
    assert page.hits.text() == ""


def test_a_row_of_the_table_goes_to_its_first_span(
    qtbot: QtBot, pane: TracingPane, shown: RecordingInfo
) -> None:
    table = pane.page.statistics.table
    model = table.model()
    row = next(row for row in range(model.rowCount(QModelIndex())) if model.index(row, 0).data() == "sample")
    with qtbot.waitSignal(pane.page.analyst.found):
        table.activated.emit(model.index(row, 4))
    assert pane.page.hits.text() == "1 of 10"


def test_the_table_sorts_and_copies(qtbot: QtBot, pane: TracingPane, shown: RecordingInfo) -> None:
    table = pane.page.statistics.table
    model = table.model()
    totals = [
        model.index(row, 2).data(Qt.ItemDataRole.UserRole) for row in range(model.rowCount(QModelIndex()))
    ]
    assert totals == sorted(totals, reverse=True)
    table.sortByColumn(0, Qt.SortOrder.AscendingOrder)
    names = [model.index(row, 0).data() for row in range(model.rowCount(QModelIndex()))]
    assert names == sorted(names)
    assert model.headerData(0, Qt.Orientation.Horizontal) == "Span ↑"
    table.selectRow(names.index("decode step"))
    assert table.selected_text().count("\n") == 1
    qtbot.keyClick(table, Qt.Key.Key_C, Qt.KeyboardModifier.ControlModifier)
    heading, line = QGuiApplication.clipboard().text().split("\n")
    assert heading.startswith("Span\tCount")
    assert line.startswith("decode step\t10\t8.00 ms")


def test_a_new_recording_is_listed_and_shown(
    qtbot: QtBot, bridge: ScriptedBridge, pane: TracingPane, shown: RecordingInfo, save: Save
) -> None:
    new = save("two")
    before = len(bridge.host.sent(ListRecordings))
    with qtbot.waitSignal(pane.controller.finished):
        bridge.host.post(RecordingFinished(new))
    assert len(bridge.host.sent(ListRecordings)) == before + 1
    post_list(qtbot, bridge, pane, shown, new)
    assert bridge.host.sent(AnalyseRecording)[-1].path == new.path
    assert pane.panel.list.current == new


def test_recording_shows_time_and_events(qtbot: QtBot, bridge: ScriptedBridge, pane: TracingPane) -> None:
    post_list(qtbot, bridge, pane)
    pane.panel.record.click()
    (command,) = bridge.host.sent(StartRecording)
    with qtbot.waitSignal(pane.controller.ticked):
        bridge.host.post(RecordingStarted(command.recording_id, 0.0))
    assert pane.panel.record.text() == "Stop"
    assert "events" in pane.panel.facts.text()
    assert pane.page.nothing.title.text() == "Recording…"
    info = RecordingInfo(command.recording_id, "/r.pftrace", "t", 0.0, 1.0, 0, 0, simulated=True)
    with qtbot.waitSignal(pane.controller.finished):
        bridge.host.post(RecordingFinished(info))


def test_renaming_and_deleting_with_a_way_back(
    qtbot: QtBot, bridge: ScriptedBridge, pane: TracingPane, shown: RecordingInfo, shell: RecordingShell
) -> None:
    items = pane.panel.list
    items.item(0).setText("  Sea and tides ")
    assert bridge.host.sent(RenameRecording) == [RenameRecording(shown.path, "Sea and tides")]
    items.item(0).setText("   ")
    assert len(bridge.host.sent(RenameRecording)) == 1
    qtbot.keyClick(items, Qt.Key.Key_Delete)
    assert bridge.host.sent(RemoveRecording) == [RemoveRecording(shown.path)]
    post_list(qtbot, bridge, pane)
    assert pane.page.nothing.title.text() == "See where the time goes"
    text, undo = shell.toasts[-1]
    assert "was deleted" in text
    assert undo is not None
    undo()
    assert bridge.host.sent(RestoreRecording) == [RestoreRecording(shown.path)]
    post_list(qtbot, bridge, pane, shown)
    assert bridge.host.sent(AnalyseRecording)[-1].path == shown.path


def test_a_change_that_was_refused_is_shown_and_the_list_is_read_again(
    qtbot: QtBot, bridge: ScriptedBridge, pane: TracingPane, shown: RecordingInfo, shell: RecordingShell
) -> None:
    before = len(bridge.host.sent(ListRecordings))
    error = TraceError("The recording one.pftrace is not there any more.").info
    with qtbot.waitSignal(pane._context.dispatcher.event_received):
        bridge.host.post(Failed("", error))
    assert shell.errors == [error]
    assert len(bridge.host.sent(ListRecordings)) == before + 1


def test_a_recording_that_cannot_be_read_says_so(
    qtbot: QtBot, bridge: ScriptedBridge, pane: TracingPane, save: Save, shell: RecordingShell
) -> None:
    post_list(qtbot, bridge, pane, save("one"), notice="Could not be read: other.pftrace.")
    assert pane.panel.notice.text() == "Could not be read: other.pftrace."
    command = bridge.host.sent(AnalyseRecording)[-1]
    error = TraceError("one.pftrace is empty.").info
    with qtbot.waitSignal(pane._context.dispatcher.event_received):
        bridge.host.post(Failed(command.request_id, error))
    assert shell.errors == [error]
    assert pane.page.nothing.title.text() == "This recording cannot be shown."


def test_choosing_another_recording_gives_up_reading_the_first(
    qtbot: QtBot, bridge: ScriptedBridge, pane: TracingPane, save: Save
) -> None:
    first, second = save("one"), save("two")
    post_list(qtbot, bridge, pane, first, second)
    reading = bridge.host.sent(AnalyseRecording)[-1]
    pane.panel.list.setCurrentRow(1)
    assert bridge.host.cancelled == [reading.request_id]
    # The late answer of the first must not take the place of the second.
    with qtbot.waitSignal(pane._context.dispatcher.event_received):
        bridge.host.post(RecordingAnalysed(reading.request_id, reading.path, view_of(reading.path)))
    assert pane.page.timeline.view is None
    answer_analysis(qtbot, bridge, pane)
    assert pane.page.header.title == second.title


@pytest.mark.parametrize("suffix", [".json", ".json.gz", ".pftrace"])
def test_exports_complete_the_name_and_say_when_done(
    qtbot: QtBot,
    bridge: ScriptedBridge,
    pane: TracingPane,
    shown: RecordingInfo,
    shell: RecordingShell,
    tmp_path: Path,
    suffix: str,
) -> None:
    pane.export_to(tmp_path / "out", suffix)
    (command,) = bridge.host.sent(ExportRecording)
    assert (command.source, command.target) == (shown.path, str(tmp_path / f"out{suffix}"))
    with qtbot.waitSignal(pane._context.dispatcher.event_received):
        bridge.host.post(Exported(command.request_id, command.target))
    assert shell.toasts[-1][0] == f"Exported as out{suffix}"


def test_a_failed_export_is_shown(
    qtbot: QtBot,
    bridge: ScriptedBridge,
    pane: TracingPane,
    shown: RecordingInfo,
    shell: RecordingShell,
    tmp_path: Path,
) -> None:
    pane.export_to(tmp_path / "out.json", ".json")
    (command,) = bridge.host.sent(ExportRecording)
    error = TraceError("The disk is full.").info
    with qtbot.waitSignal(pane._context.dispatcher.event_received):
        bridge.host.post(Failed(command.request_id, error))
    assert shell.errors == [error]


def test_traces_can_be_dropped_and_other_files_cannot(
    bridge: ScriptedBridge, pane: TracingPane, tmp_path: Path
) -> None:
    trace, other, picture = tmp_path / "npu.json", tmp_path / "notes.json", tmp_path / "a.png"
    trace.write_text(json.dumps([{"ph": "X", "name": "a", "ts": 1, "dur": 2}]))
    other.write_text('{"a": 1}')
    picture.write_bytes(b"\x89PNG")
    assert [is_trace_file(path) for path in (trace, other, picture, tmp_path / "gone.json")] == [
        True,
        False,
        False,
        False,
    ]
    assert is_trace_file(tmp_path / "x.pftrace")
    assert is_trace_file(tmp_path / "X.JSON.GZ")
    assert pane.accepts_drop([picture, trace])
    assert not pane.accepts_drop([picture, other])
    pane.open_files([picture, trace])
    (command,) = bridge.host.sent(ImportRecording)
    assert command.source == str(trace)


def test_open_in_perfetto_serves_the_recording(
    qtbot: QtBot,
    pane: TracingPane,
    shown: RecordingInfo,
    shell: RecordingShell,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    opened: list[str] = []

    def fetch(url: object) -> bool:
        opened.append(url.toString())  # type: ignore[attr-defined]
        return True

    monkeypatch.setattr(QDesktopServices, "openUrl", fetch)
    pane.page.perfetto.click()
    assert opened[0].startswith("http://127.0.0.1:")
    server = pane.opener._server
    assert server is not None
    import urllib.request

    with qtbot.waitSignal(pane.opener.handed_over), urllib.request.urlopen(server.source) as answer:
        assert answer.read() == Path(shown.path).read_bytes()
    assert shell.toasts[-1][0] == "The recording is open in Perfetto"


def test_a_page_that_fetches_nothing_is_noticed(
    qtbot: QtBot, context: AppContext, save: Save, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(QDesktopServices, "openUrl", lambda _url: True)
    monkeypatch.setattr(perfetto, "WAIT_MS", 200)
    opener = perfetto.PerfettoOpener()
    info = save("one")
    with qtbot.waitSignal(opener.not_fetched) as told:
        assert opener.open(Path(info.path)) is not None
    assert told.args == [info.path]
    opener.close()
    with qtbot.waitSignal(opener.failed) as told:
        assert opener.open(Path("/gone.pftrace")) is None
    assert "not there any more" in told.args[0].summary


def test_what_a_narrow_window_has_no_room_for_is_left_out_whole(
    qtbot: QtBot, pane: TracingPane, shown: RecordingInfo
) -> None:
    assert pane.page.device.isVisible()
    pane.resize(800, 560)
    qtbot.waitUntil(lambda: not pane.page.private.isVisible())
    assert pane.width() == 800
    pane.resize(1500, 860)
    qtbot.waitUntil(pane.page.private.isVisible)
