"""The window: panes, keys, dropped files, notices, the status bar, and use without a mouse or a screen."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from PySide6.QtCore import QMimeData, QPoint, QPointF, QRect, Qt, QUrl
from PySide6.QtGui import QAccessible, QDropEvent, QKeySequence
from PySide6.QtTest import QTest
from PySide6.QtWidgets import (
    QAbstractButton,
    QAbstractItemView,
    QAbstractSlider,
    QAbstractSpinBox,
    QApplication,
    QComboBox,
    QLineEdit,
    QPlainTextEdit,
    QScrollBar,
    QTextEdit,
    QWidget,
)

from mblt_desktop.actions import COMMANDS, ShortcutsDialog, sequences, shortcuts_of
from mblt_desktop.context import AppContext
from mblt_desktop.devices.monitor import DeviceMonitor
from mblt_desktop.main_window import GEOMETRY, SMALLEST, MainWindow, place_on
from mblt_desktop.rail import PLACES
from mblt_desktop.widgets import ErrorBanner
from runtime.device.active import ActiveDevice
from runtime.device.readings import Readings
from runtime.errors import ErrorInfo
from runtime.layout.request import EffectiveLayout
from runtime.messages import (
    CatalogRow,
    ModelFailed,
    ModelInfo,
    ModelLoaded,
    ModelLoading,
    ModelsListed,
    ModelUnloaded,
    StartRecording,
)

SAMPLES = Path(__file__).resolve().parents[2] / "resources" / "samples"


@pytest.fixture
def window(qtbot, context: AppContext) -> Iterator[MainWindow]:
    window = MainWindow(context)
    qtbot.addWidget(window)
    window.resize(1440, 900)
    window.show()
    yield window
    window.close()


def test_every_pane_can_be_reached_by_rail_and_by_key(qtbot, window: MainWindow):
    for number, place in enumerate(PLACES, 1):
        QTest.keyClick(window, getattr(Qt.Key, f"Key_{number}"), Qt.KeyboardModifier.ControlModifier)
        assert window.current_name == place.name
        assert window.stack.currentWidget() is window.pane(place.name)
        assert window.rail._buttons[place.name].isChecked()
    qtbot.mouseClick(window.rail._buttons["chat"], Qt.MouseButton.LeftButton)
    assert window.current_name == "chat"


def test_commands_have_their_own_keys_and_are_all_in_menu_and_help(window: MainWindow):
    keys = [key.toString() for command in COMMANDS for key in sequences(command)]
    assert len(keys) == len(set(keys))
    titles = {command.title for command in COMMANDS}
    assert {action.text() for action in window.rail.menu.menu().actions() if action.text()} == titles
    groups = ("Chat", "Files", "Tracing", "Go to", "Help")
    listed = {title for group in groups for title, _ in shortcuts_of(group)}
    assert {command.title for command in COMMANDS if command.keys} <= listed


def test_find_goes_to_the_search_field_of_the_pane_and_escape_empties_it(qtbot, window: MainWindow):
    search = window.chat.history.search
    QTest.keySequence(window, QKeySequence(QKeySequence.StandardKey.Find))
    assert search.hasFocus()
    qtbot.keyClicks(search, "tides")
    qtbot.keyClick(search, Qt.Key.Key_Escape)
    assert search.text() == ""


def test_find_goes_to_the_text_of_the_transcript_that_is_shown(window: MainWindow):
    window.navigate("microphone")
    page = window.pane("microphone").page
    page.show_growing("talk.wav", Path("talk.wav"), [], waiting=False)
    page.text.setFocus()
    QTest.keySequence(page.text, QKeySequence(QKeySequence.StandardKey.Find))
    assert page.search.hasFocus()


def test_the_help_page_fits_the_smallest_window(window: MainWindow):
    needed = ShortcutsDialog(window).sizeHint()
    assert needed.width() <= SMALLEST.width()
    assert needed.height() <= SMALLEST.height()


def test_escape_stops_the_answer_of_the_open_chat(qtbot, window: MainWindow, bridge):
    bridge.host.post(ModelsListed((_row(),)))
    qtbot.waitUntil(lambda: window.chat.models.rows is not None)
    window.chat.composer.set_text("Hello")
    window.chat.composer.send.click()
    (run,) = window.chat.session.runs
    QTest.keyClick(window, Qt.Key.Key_Escape)
    assert bridge.host.cancelled == [run.message.id]


def test_record_is_reachable_from_every_pane(window: MainWindow, bridge):
    window.navigate("settings")
    QTest.keyClick(window, Qt.Key.Key_R, Qt.KeyboardModifier.ControlModifier)
    assert len(bridge.host.sent(StartRecording)) == 1


# -- files ------------------------------------------------------------------------------------------


def drop(window: MainWindow, *paths: Path) -> None:
    mime = QMimeData()
    mime.setUrls([QUrl.fromLocalFile(str(path)) for path in paths])
    action, buttons = Qt.DropAction.CopyAction, Qt.MouseButton.LeftButton
    modifiers = Qt.KeyboardModifier.NoModifier
    window.dropEvent(QDropEvent(QPointF(300, 300), action, mime, buttons, modifiers))


@pytest.mark.parametrize(
    ("name", "pane"),
    [("clip.flac", "microphone"), ("film.mp4", "microphone"), ("cat.png", "image"), ("notes.txt", "chat")],
)
def test_a_dropped_file_opens_the_pane_of_its_kind(window: MainWindow, tmp_path: Path, name: str, pane: str):
    window.navigate("settings")
    (tmp_path / name).write_bytes(b"")
    drop(window, tmp_path / name)
    assert window.current_name == pane


def test_a_file_that_nobody_takes_is_refused_in_words(window: MainWindow, tmp_path: Path):
    file = tmp_path / "열쇠 é.key"
    file.write_bytes(b"")
    drop(window, file)
    assert window.current_name == "chat"
    assert "열쇠 é.key" in window.notices.errors[0].summary


# -- notices ----------------------------------------------------------------------------------------


def test_notices_are_shown_once_each_at_most_three_and_go_when_dismissed(window: MainWindow):
    assert not window.notices.isVisible()
    for number in (1, 1, 2, 3, 4):
        window.show_error(
            ErrorInfo(f"code{number}", f"Failure {number}.", "Do this.", "All else is fine.", "trace")
        )
    assert [error.summary for error in window.notices.errors] == ["Failure 2.", "Failure 3.", "Failure 4."]
    banner = window.notices.findChildren(ErrorBanner)[-1]
    assert banner.accessibleName() == "Failure 4. All else is fine. Do this."
    banner._copy.click()
    assert "trace" in QApplication.clipboard().text()
    banner._close.click()
    window.notices.dismiss("code2")
    assert [error.summary for error in window.notices.errors] == ["Failure 3."]
    window.notices.dismiss("code3")
    assert not window.notices.isVisible()


@pytest.mark.qt_log_ignore(r"does not support raise\(\)")
def test_a_second_start_brings_the_window_up_with_its_files(window: MainWindow, tmp_path: Path):
    notes = tmp_path / "notes.txt"
    notes.write_text("Buy milk")
    window.showMinimized()
    window.navigate("settings")
    window.come_with([notes])
    assert not window.isMinimized()
    assert window.current_name == "chat"


def test_the_last_deletion_can_be_undone_after_its_message_is_gone(window: MainWindow):
    undone = []
    window.toast("Deleted one", lambda: undone.append(1))
    window.toast("Deleted two", lambda: undone.append(2))
    window.toast("Copied")
    window.message.hide()
    window.chat.history.list.setFocus()
    QTest.keySequence(window.chat.history.list, QKeySequence(QKeySequence.StandardKey.Undo))
    QTest.keySequence(window.chat.history.list, QKeySequence(QKeySequence.StandardKey.Undo))
    assert undone == [2]


def test_a_toast_offers_a_way_back_and_stays_inside_the_window(window: MainWindow):
    undone = []
    window.toast("Deleted", lambda: undone.append(True))
    assert window.stack.rect().contains(window.message.geometry())
    window.resize(900, 600)
    QApplication.sendPostedEvents()
    assert window.stack.rect().contains(window.message.geometry())
    window.message.undo.click()
    assert undone == [True]
    assert not window.message.isVisible()
    window.toast("Copied")
    assert not window.message.undo.isVisible()
    window.message.hide()


def test_the_folder_of_the_log_can_be_opened(window: MainWindow, context, monkeypatch):
    opened = []
    monkeypatch.setattr("mblt_desktop.main_window.QDesktopServices.openUrl", opened.append)
    window.actions_by_name["open-log"].trigger()
    assert [url.toLocalFile() for url in opened] == [str(context.paths.logs)]


# -- status bar -------------------------------------------------------------------------------------


def _row() -> CatalogRow:
    return CatalogRow("m", "SmolLM2", "chat", "llama", "simulated", "installed", "/m", 1, 1, "MIT")


def test_the_status_bar_names_device_layout_models_and_loading(qtbot, window: MainWindow, bridge, context):
    status = window.status
    context.devices.device_known.emit(ActiveDevice("Simulated ARIES (CPU)", True, "aries-rb", 1))
    assert status.device.text == "Simulated ARIES (CPU)"
    assert status.readings.text() == "NPU —   Memory —   Temp —"
    assert "no sensors" in status.readings.toolTip()
    bridge.host.post(ModelsListed((_row(),)), ModelLoading("m", "Reading the weights", 0.25))
    qtbot.waitUntil(lambda: status.progress.isVisible())
    assert status.loading.text() == "Loading SmolLM2: reading the weights…"
    assert status.progress.value() == 250
    bridge.host.post(ModelUnloaded("m", cancelled=True))
    qtbot.waitUntil(lambda: not status.progress.isVisible())
    bridge.host.post(ModelLoading("m", "Reading the weights", 0.25))
    qtbot.waitUntil(lambda: status.progress.isVisible())
    layout = EffectiveLayout("aries-rb", "global4", (), ("0:0",), (0,), 1, 1)
    bridge.host.post(
        ModelLoaded(ModelInfo("m", "m", "chat", "llama", "/m", "Simulated ARIES (CPU)", True, layout, 1, 1)),
        ModelLoaded(ModelInfo("w", "Whisper", "speech", "whisper", "/w", "CPU", False, None, 1, 1)),
    )
    qtbot.waitUntil(lambda: status.models.text() == "SmolLM2 · Whisper")
    assert status.layout_words.text() == "global4 · cluster 0:0"
    assert not status.progress.isVisible()
    bridge.host.post(ModelFailed("m", ErrorInfo("device.lost", "Gone.")))
    qtbot.waitUntil(lambda: status.models.text() == "Whisper")


def test_readings_of_a_real_board_are_shown_and_unknown_ones_are_not_zero(window: MainWindow, context):
    context.devices.device_known.emit(ActiveDevice("ARIES", False, "aries-rb", 1))
    context.devices.readings_changed.emit(Readings(utilisation=0.71, temperature=None))
    assert window.status.readings.text() == "NPU 71 %   Memory —   Temp —"


def test_without_a_device_the_status_bar_says_so(window: MainWindow, context):
    context.devices.device_failed.emit(ErrorInfo("device.not_found", "No board.", "Plug one in."))
    assert window.status.device.text == "No device"
    assert window.status.device.toolTip() == "No board. Plug one in."
    assert isinstance(context.devices, DeviceMonitor)


# -- geometry ---------------------------------------------------------------------------------------

SCREEN = QRect(0, 0, 1920, 1080)


@pytest.mark.parametrize(
    ("frame", "place"),
    [
        (QRect(100, 50, 1280, 820), QPoint(100, 50)),
        (QRect(3000, 200, 1280, 820), QPoint(320, 130)),
        (QRect(100, -900, 1280, 820), QPoint(320, 130)),
        (QRect(1900, 50, 1280, 820), QPoint(320, 130)),
        (QRect(0, 0, 2400, 1300), QPoint(0, 0)),
        (QRect(-1200, 1070, 2400, 1300), QPoint(0, 0)),
    ],
)
def test_a_window_of_a_screen_that_is_gone_comes_back(frame: QRect, place: QPoint):
    assert place_on(frame, [SCREEN]) == place


def test_a_window_on_the_second_screen_stays_there():
    frame = QRect(2000, 100, 1280, 820)
    assert place_on(frame, [SCREEN, QRect(1920, 0, 1920, 1080)]) == frame.topLeft()


def test_size_and_draft_are_kept_when_the_window_closes(qtbot, window: MainWindow, context):
    window.resize(900, 620)
    window.chat.composer.set_text("not sent yet")
    window.close()
    assert context.preferences.text(GEOMETRY)
    again = MainWindow(context)
    qtbot.addWidget(again)
    assert (again.width(), again.height()) == (900, 620)
    (chat,) = context.store.conversations.list()
    assert chat.draft == "not sent yet"
    again.close()


# -- without a mouse, without a screen ---------------------------------------------------------------

INTERACTIVE = (
    QAbstractButton,
    QLineEdit,
    QComboBox,
    QAbstractSpinBox,
    QPlainTextEdit,
    QTextEdit,
    QAbstractItemView,
    QAbstractSlider,
)


def interactive(window: QWidget) -> list[QWidget]:
    """Visible widgets somebody can use, but not the inner parts of others."""
    parts = (QComboBox, QAbstractSpinBox)
    return [
        widget
        for widget in window.findChildren(QWidget)
        if isinstance(widget, INTERACTIVE)
        and not isinstance(widget, QScrollBar)
        and widget.isVisible()
        and not isinstance(widget.parent(), parts)
        and widget.objectName() != "qt_toolbar_ext_button"
        and not isinstance(widget.parent(), QLineEdit)
    ]


@pytest.mark.parametrize("pane", [place.name for place in PLACES])
def test_everything_that_can_be_used_has_a_name_and_a_role(window: MainWindow, pane: str):
    window.navigate(pane)
    nameless = []
    for widget in interactive(window):
        seen = QAccessible.queryAccessibleInterface(widget)
        if not seen.text(QAccessible.Text.Name).strip() or seen.role() == QAccessible.Role.NoRole:
            nameless.append(f"{type(widget).__name__} in {type(widget.parent()).__name__}")
    assert nameless == []


@pytest.mark.parametrize("pane", [place.name for place in PLACES])
def test_tab_goes_round_and_leaves_no_enabled_control_out(window: MainWindow, pane: str):
    window.navigate(pane)
    window.activateWindow()
    wanted = {
        widget
        for widget in interactive(window)
        if widget.isEnabled() and widget.focusPolicy() & Qt.FocusPolicy.TabFocus
    }
    visited: list[QWidget] = []
    for _ in range(4 * len(wanted) + 20):
        QTest.keyClick(QApplication.focusWidget() or window, Qt.Key.Key_Tab)
        focus = QApplication.focusWidget()
        if visited and focus is visited[0] and set(visited) >= wanted:
            break
        visited.append(focus)
    left_out = [f"{type(widget).__name__} {widget.accessibleName()}" for widget in wanted - set(visited)]
    # Radio buttons of one group are one stop, and the arrow keys go on from there.
    assert [name for name in left_out if not name.startswith(("QRadioButton", "QToolButton"))] == []
