"""The window: rail, panes, status bar, and what floats over them. It routes; the panes do the work."""

from __future__ import annotations

import logging
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, cast

from PySide6.QtCore import QByteArray, QPoint, QRect, QSize, Qt, QTimer, QUrl, Signal, Slot
from PySide6.QtGui import (
    QCloseEvent,
    QDesktopServices,
    QDragEnterEvent,
    QDropEvent,
    QGuiApplication,
    QPaintEvent,
    QShowEvent,
)
from PySide6.QtWidgets import (
    QFileDialog,
    QHBoxLayout,
    QMainWindow,
    QMenu,
    QMessageBox,
    QStackedWidget,
    QVBoxLayout,
    QWidget,
)

from mblt_desktop import __version__
from mblt_desktop.actions import ShortcutsDialog, fill_menu, make_actions
from mblt_desktop.context import AppContext
from mblt_desktop.notices import Notices
from mblt_desktop.panes import TAKE_FILES, Pane, make_pane
from mblt_desktop.rail import Rail
from mblt_desktop.status_bar import StatusBar
from mblt_desktop.tracing.controller import recording_controller
from mblt_desktop.tracing.record_button import RecordButton
from mblt_desktop.widgets import SearchField, local_files
from mblt_desktop.widgets.toast import Toast
from runtime.errors import ErrorInfo, MediaError

if TYPE_CHECKING:
    from mblt_desktop.chat.pane import ChatPane

_log = logging.getLogger(__name__)

GEOMETRY = "state.geometry"
SMALLEST = QSize(900, 560)
FIRST_SIZE = QSize(1280, 820)


class MainWindow(QMainWindow):
    """Implements `context.Shell` for its panes."""

    painted = Signal()
    """Once, after the window was first painted: now the slow things may begin."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        context.shell = self
        self._was_painted = False
        self._panes: dict[str, QWidget] = {}
        self._current = ""
        self.setWindowTitle("MBLT Desktop")
        self.setMinimumSize(SMALLEST)
        self.setAcceptDrops(True)
        self.actions_by_name = make_actions(self)
        menu = QMenu(self)
        fill_menu(menu, self.actions_by_name)
        self.rail = Rail(menu)
        self.rail.chosen.connect(self.navigate)
        self.notices = Notices()
        self.stack = QStackedWidget()
        self.status = StatusBar(context)
        self.recording = recording_controller(context)
        self.status.add_right(RecordButton(self.recording))
        self._build()
        self.message = Toast(self.stack)
        self._restore_geometry()
        self.navigate("chat")

    def _build(self) -> None:
        right = QWidget()
        column = QVBoxLayout(right)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self.notices)
        column.addWidget(self.stack, 1)
        top = QWidget()
        row = QHBoxLayout(top)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.rail)
        row.addWidget(right, 1)
        centre = QWidget()
        whole = QVBoxLayout(centre)
        whole.setContentsMargins(0, 0, 0, 0)
        whole.setSpacing(0)
        whole.addWidget(top, 1)
        whole.addWidget(self.status)
        self.setCentralWidget(centre)

    # -- the shell --------------------------------------------------------------------------------

    @Slot(str)
    def navigate(self, pane: str) -> None:
        """Bring a pane to the front, building it at first need."""
        widget = self.pane(pane)
        self._current = pane
        self.stack.setCurrentWidget(widget)
        self.rail.select(pane)
        cast("Pane", widget).activated()

    @Slot(object)
    def show_error(self, error: ErrorInfo) -> None:
        """Show a failure above the panes until it is dismissed."""
        _log.warning("Shown: %s", error.code)
        self.notices.show_error(error)

    def toast(self, text: str, undo: Callable[[], None] | None = None) -> None:
        """Say something briefly, with a way back when `undo` is given."""
        self.message.say(text, undo)

    def pane(self, name: str) -> QWidget:
        """A pane by name."""
        if name not in self._panes:
            self._panes[name] = make_pane(name, self._context)
            self.stack.addWidget(self._panes[name])
        return self._panes[name]

    @property
    def current_name(self) -> str:
        """The pane at the front."""
        return self._current

    @property
    def chat(self) -> ChatPane:
        """The chat pane, which several commands are about."""
        return cast("ChatPane", self.pane("chat"))

    def open_files(self, paths: list[Path]) -> None:
        """Open each file in the pane that takes its kind; the pane at the front is asked first."""
        refused = []
        for path in paths:
            name = self._taker(path)
            if name is None:
                refused.append(path.name)
                continue
            self.navigate(name)
            cast("Pane", self.pane(name)).open_files([path])
        if refused:
            self.show_error(
                MediaError(
                    f"{', '.join(refused)} cannot be opened here.",
                    remedy="Drop audio, video, pictures, text files, recordings (.pftrace) or model folders.",
                    unharmed="The file was not touched.",
                ).info
            )

    @Slot(list)
    def come_with(self, paths: list[Path]) -> None:
        """A second start asks for the window, with files or without."""
        self.setWindowState(self.windowState() & ~Qt.WindowState.WindowMinimized)
        self.show()
        self.raise_()
        self.activateWindow()
        self.open_files(paths)

    def _taker(self, path: Path) -> str | None:
        order = [self._current, *(name for name in TAKE_FILES if name != self._current)]
        return next((name for name in order if cast("Pane", self.pane(name)).accepts_drop([path])), None)

    # -- commands ---------------------------------------------------------------------------------

    @Slot()
    def new_chat(self) -> None:
        """Open an empty chat."""
        self.navigate("chat")
        self.chat.new_chat()

    @Slot()
    def find_in_pane(self) -> None:
        """Go to the search field of the pane at the front."""
        for field in self.pane(self._current).findChildren(SearchField):
            if field.isVisible():
                field.setFocus()
                field.selectAll()
                return

    @Slot()
    def stop(self) -> None:
        """Stop the answer in the open chat."""
        if self._current == "chat":
            self.chat.stop()

    @Slot()
    def copy_answer(self) -> None:
        """Copy the newest answer of the open chat."""
        self.chat.conversation_page.copy_last_answer()

    @Slot()
    def regenerate(self) -> None:
        """Answer the last turn of the open chat once more."""
        self.chat.conversation_page.regenerate_last()

    @Slot()
    def choose_files(self) -> None:
        """Ask for files and open each in its pane."""
        names, _ = QFileDialog.getOpenFileNames(self, "Open files")
        self.open_files([Path(name) for name in names])

    @Slot()
    def undo_deletion(self) -> None:
        """Bring back what was deleted last; a text field that has the focus undoes its own edits."""
        self.message.take_back()

    @Slot()
    def toggle_recording(self) -> None:
        """Start a trace recording, or stop the running one."""
        self.recording.toggle()

    @Slot()
    def show_shortcuts(self) -> None:
        """Show the help page."""
        dialog = ShortcutsDialog(self)
        dialog.exec()
        dialog.deleteLater()

    @Slot()
    def open_log_folder(self) -> None:
        """Show the log's folder in the file manager."""
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(self._context.paths.logs)))

    @Slot()
    def show_about(self) -> None:
        """Say what this is."""
        QMessageBox.about(
            self,
            "About MBLT Desktop",
            f"MBLT Desktop {__version__}\n\nPrivate, local chat, image understanding and transcription on "
            "Mobilint NPUs.\nApache License 2.0",
        )

    @Slot()
    def go_chat(self) -> None:
        """Show Chat."""
        self.navigate("chat")

    @Slot()
    def go_image(self) -> None:
        """Show Image."""
        self.navigate("image")

    @Slot()
    def go_microphone(self) -> None:
        """Show Microphone."""
        self.navigate("microphone")

    @Slot()
    def go_tracing(self) -> None:
        """Show Tracing."""
        self.navigate("tracing")

    @Slot()
    def go_models(self) -> None:
        """Show Models."""
        self.navigate("models")

    @Slot()
    def go_settings(self) -> None:
        """Show Settings."""
        self.navigate("settings")

    # -- the window itself ------------------------------------------------------------------------

    def paintEvent(self, event: QPaintEvent) -> None:
        """Tell once that there is something to see."""
        super().paintEvent(event)
        if not self._was_painted:
            self._was_painted = True
            QTimer.singleShot(0, self.painted.emit)

    def showEvent(self, event: QShowEvent) -> None:
        """Never open on a screen that is gone."""
        super().showEvent(event)
        self._force_on_screen()

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Files may be dropped anywhere."""
        if event.mimeData().hasUrls():
            event.acceptProposedAction()

    def dropEvent(self, event: QDropEvent) -> None:
        """Route dropped files to their panes."""
        paths = local_files(event.mimeData())
        if paths:
            event.acceptProposedAction()
            self.open_files(paths)

    def closeEvent(self, event: QCloseEvent) -> None:
        """Save what is typed and where the window was; the rest ends with the program."""
        geometry = bytes(self.saveGeometry().toBase64().data()).decode()
        self._context.preferences.set(GEOMETRY, geometry)
        for pane in self._panes.values():
            close_down = getattr(pane, "close_down", None)
            if close_down is not None:
                close_down()
        super().closeEvent(event)

    def _restore_geometry(self) -> None:
        saved = self._context.preferences.text(GEOMETRY)
        if not saved or not self.restoreGeometry(QByteArray.fromBase64(QByteArray(saved.encode()))):
            self.resize(FIRST_SIZE)

    def _force_on_screen(self) -> None:
        """The title bar must be in reach, also when the screen it stood on is gone."""
        screens = [screen.availableGeometry() for screen in QGuiApplication.screens()]
        placed = place_on(self.frameGeometry(), screens)
        if placed != self.frameGeometry().topLeft():
            self.move(placed)


def place_on(frame: QRect, screens: list[QRect]) -> QPoint:
    """Where a window goes so that its title bar is on one of the screens; its own place when it is."""
    bar = QRect(frame.left(), frame.top(), frame.width(), 32)
    if not screens or any(
        screen.intersected(bar).width() >= 100 and screen.top() <= frame.top() <= screen.bottom() - 32
        for screen in screens
    ):
        return frame.topLeft()
    screen = screens[0]
    left = screen.left() + max(0, (screen.width() - frame.width()) // 2)
    return QPoint(left, screen.top() + max(0, (screen.height() - frame.height()) // 2))
