"""The Tracing pane: the recordings on the left, the chosen one on the right."""

from __future__ import annotations

import uuid
from pathlib import Path

from PySide6.QtCore import Qt, QUrl, Slot
from PySide6.QtGui import QDesktopServices
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QMessageBox, QWidget

from mblt_desktop.context import AppContext
from mblt_desktop.tracing.controller import recording_controller
from mblt_desktop.tracing.perfetto import BLOCKED, STEPS, PerfettoOpener
from mblt_desktop.tracing.recording_page import RecordingPage
from mblt_desktop.tracing.recordings_panel import RecordingsPanel
from mblt_desktop.widgets import Button
from resources import sample
from runtime.messages import (
    AnalyseRecording,
    Cancelled,
    Event,
    Exported,
    ExportRecording,
    Failed,
    ImportRecording,
    ListRecordings,
    RecordingAnalysed,
    RecordingFinished,
    RecordingInfo,
    RecordingsListed,
    RemoveRecording,
    RenameRecording,
    RestoreRecording,
)
from runtime.plain_files import open_plain

SAMPLE = "recording.pftrace"
_ALWAYS = (".pftrace", ".perfetto-trace", ".json.gz")
_HEAD_BYTES = 4096
_TEACH = (
    "Press Record, then chat, transcribe or look at a picture, then press Stop. Every step of the program "
    "and every call to the NPU appears here on one timeline, and opens in Perfetto."
)


class TracingPane(QWidget):
    """Lists recordings, shows one, and hands files to and from the rest of the world."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self._folder = context.paths.recordings
        self.controller = recording_controller(context)
        self.panel = RecordingsPanel(self.controller)
        self.page = RecordingPage()
        self.opener = PerfettoOpener(self)
        self.rows: tuple[RecordingInfo, ...] | None = None
        self._wanted = ""
        """Path of the recording to show once it is listed."""
        self._reading = ""
        """Request id of the reading under way."""
        self._shown: RecordingInfo | None = None
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self.panel)
        row.addWidget(self.page, 1)
        self.sample = Button("Look at a sample", kind="link")
        self.page.nothing.extra.addWidget(self.sample, 0, Qt.AlignmentFlag.AlignHCenter)
        self._connect()
        self._show_state()

    def _connect(self) -> None:
        self._context.dispatcher.event_received.connect(self._on_event)
        self.controller.finished.connect(self._on_finished)
        self.panel.import_clicked.connect(self._on_import_clicked)
        self.panel.list.opened.connect(self._on_opened)
        self.panel.list.renamed.connect(self._on_renamed)
        self.panel.list.removed.connect(self._on_removed)
        self.panel.list.shown_in_folder.connect(self._on_shown_in_folder)
        self.page.nothing.action_clicked.connect(self.controller.toggle)
        self.sample.clicked.connect(self._on_sample_clicked)
        self.page.export_chosen.connect(self._on_export_chosen)
        self.page.perfetto_clicked.connect(self._on_perfetto_clicked)
        self.controller.state_changed.connect(self._on_state_changed)
        self.opener.failed.connect(self._context.show_error)
        self.opener.handed_over.connect(self._on_handed_over)
        self.opener.not_fetched.connect(self._on_not_fetched)

    # -- what the window calls -------------------------------------------------------------------

    def accepts_drop(self, paths: list[Path]) -> bool:
        """Recordings, and JSON files that begin like a trace."""
        return any(is_trace_file(path) for path in paths)

    def open_files(self, paths: list[Path]) -> None:
        """Import each."""
        for path in paths:
            if is_trace_file(path):
                self._import(path)

    def activated(self) -> None:
        """The pane came to the front: look at the folder again."""
        self._context.submit(ListRecordings(str(self._folder)))

    def close_down(self) -> None:
        """The window closes."""
        self.opener.close()
        self.page.analyst.close()

    # -- events ----------------------------------------------------------------------------------

    @Slot(object)
    def _on_event(self, event: Event) -> None:
        if isinstance(event, RecordingsListed) and event.folder == str(self._folder):
            self._show_rows(event)
        elif isinstance(event, RecordingAnalysed) and event.request_id == self._reading:
            self._reading = ""
            shown = self._row(event.path)
            if shown is not None:
                self._shown = shown
                self.page.show_view(shown, event.view)
        elif isinstance(event, Failed) and event.request_id == self._reading and self._reading:
            self._reading = ""
            self.page.show_nothing("This recording cannot be shown.")
            self._context.show_error(event.error)
        elif isinstance(event, Failed) and event.request_id == "":
            # A change to the list was refused: show what is really there.
            self._context.show_error(event.error)
            self.activated()

    @Slot(object)
    def _on_finished(self, info: RecordingInfo) -> None:
        """A recording was stopped, recovered or imported: list it and show it."""
        self._wanted = info.path
        self.activated()

    @Slot(str)
    def _on_state_changed(self, _state: str) -> None:
        if not self.rows:
            self._show_state()

    def _show_rows(self, event: RecordingsListed) -> None:
        self.rows = event.rows
        current = self._wanted or (self._shown.path if self._shown is not None else "")
        self._wanted = ""
        if self._row(current) is None:
            current = event.rows[0].path if event.rows else ""
        self.panel.list.set_rows(event.rows, current)
        self.panel.show_notice(event.notice)
        info = self._row(current)
        if info is None:
            self._shown = None
            self._show_state()
        elif self._shown is not None and self._shown.path == info.path:
            self._shown = info
            self.page.header.set_title(info.title)
        else:
            self._on_opened(info)

    def _show_state(self) -> None:
        """The empty states: before the list is known, without recordings, while the first one runs."""
        nothing = self.page.nothing
        self.sample.setVisible(self.rows == () and self.controller.state == "idle")
        if self.rows is None:
            self.page.show_nothing("Looking for recordings…")
            nothing.text.setText("")
            nothing.set_action("")
        elif self.controller.state == "recording":
            self.page.show_nothing("Recording…")
            nothing.text.setText("Use the program now. Stop here or in the status bar, from any pane.")
            nothing.set_action("Stop")
        elif self.controller.state == "idle":
            self.page.show_nothing("See where the time goes")
            nothing.text.setText(_TEACH)
            nothing.set_action("Start recording")
        else:
            nothing.set_action("")

    # -- the list --------------------------------------------------------------------------------

    @Slot(object)
    def _on_opened(self, info: RecordingInfo) -> None:
        if self._reading:
            self._context.cancel(self._reading)
        self._shown = info
        self._reading = uuid.uuid4().hex
        self.page.show_info(info)
        self.page.nothing.text.setText("")
        self.page.nothing.set_action("")
        self.sample.hide()
        self._context.submit(AnalyseRecording(self._reading, info.path))

    @Slot(str, str)
    def _on_renamed(self, path: str, title: str) -> None:
        self._context.submit(RenameRecording(path, title))

    @Slot(object)
    def _on_removed(self, info: RecordingInfo) -> None:
        if self._shown is not None and self._shown.path == info.path:
            self._shown = None
        self._context.submit(RemoveRecording(info.path))

        def bring_back() -> None:
            self._wanted = info.path
            self._context.submit(RestoreRecording(info.path))

        self._context.toast(f"“{info.title}” was deleted", bring_back)

    @Slot(object)
    def _on_shown_in_folder(self, info: RecordingInfo) -> None:
        QDesktopServices.openUrl(QUrl.fromLocalFile(str(Path(info.path).parent)))

    def _row(self, path: str) -> RecordingInfo | None:
        return next((row for row in self.rows or () if row.path == path), None)

    # -- files in and out ------------------------------------------------------------------------

    @Slot()
    def _on_import_clicked(self) -> None:
        name, _ = QFileDialog.getOpenFileName(
            self, "Import a trace", "", "Traces (*.pftrace *.perfetto-trace *.json *.json.gz);;All files (*)"
        )
        if name:
            self._import(Path(name))

    @Slot()
    def _on_sample_clicked(self) -> None:
        self._import(sample(SAMPLE))

    def _import(self, path: Path) -> None:
        request_id = uuid.uuid4().hex
        self._context.dispatcher.watch(request_id, self._on_file_job)
        self._context.submit(ImportRecording(request_id, str(path), str(self._folder)))

    @Slot(str)
    def _on_export_chosen(self, suffix: str) -> None:
        if self._shown is None:
            return
        stem = "".join(char if char.isalnum() or char in " ._-" else "-" for char in self._shown.title)
        name, _ = QFileDialog.getSaveFileName(
            self, "Export the recording", f"{stem.strip()}{suffix}", f"Trace (*{suffix})"
        )
        if name:
            self.export_to(Path(name), suffix)

    def export_to(self, target: Path, suffix: str) -> None:
        """Write the shown recording to `target`, completing its name when the ending is missing."""
        if self._shown is None:
            return
        if not target.name.lower().endswith(suffix):
            target = target.with_name(f"{target.name}{suffix}")
        request_id = uuid.uuid4().hex
        self._context.dispatcher.watch(request_id, self._on_file_job)
        self._context.submit(ExportRecording(request_id, self._shown.path, str(target)))

    def _on_file_job(self, event: Event) -> None:
        if isinstance(event, Exported):
            self._context.toast(f"Exported as {Path(event.path).name}")
        elif isinstance(event, Failed):
            self._context.show_error(event.error)
        elif isinstance(event, Cancelled | RecordingFinished):
            return

    # -- Perfetto --------------------------------------------------------------------------------

    @Slot()
    def _on_perfetto_clicked(self) -> None:
        if self._shown is not None and self.opener.open(Path(self._shown.path)) is not None:
            where = "from this computer, without a network" if self.opener.offline else "at ui.perfetto.dev"
            self._context.toast(f"Perfetto opens in the browser, {where}")

    @Slot()
    def _on_handed_over(self) -> None:
        self._context.toast("The recording is open in Perfetto")

    @Slot(str)
    def _on_not_fetched(self, path: str) -> None:
        box = QMessageBox(self)
        box.setWindowTitle("Open in Perfetto")
        box.setText(BLOCKED)
        box.setInformativeText(STEPS)
        show = box.addButton("Show in folder", QMessageBox.ButtonRole.ActionRole)
        box.addButton(QMessageBox.StandardButton.Close)
        box.exec()
        if box.clickedButton() is show:
            QDesktopServices.openUrl(QUrl.fromLocalFile(str(Path(path).parent)))
        box.deleteLater()


def is_trace_file(path: Path) -> bool:
    """By its name; a `.json` also has to begin like a trace, for other JSON belongs elsewhere."""
    name = path.name.lower()
    if name.endswith(_ALWAYS):
        return True
    if not name.endswith(".json"):
        return False
    try:
        with open_plain(path) as file:
            return b'"ph"' in file.read(_HEAD_BYTES)
    except OSError:
        return False
