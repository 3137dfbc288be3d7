"""The Microphone pane: record or drop on the left, the transcript on the right."""

from __future__ import annotations

import mimetypes
from pathlib import Path

from PySide6.QtCore import Qt, Slot
from PySide6.QtGui import QDragEnterEvent, QDragLeaveEvent, QDropEvent, QGuiApplication
from PySide6.QtWidgets import QFileDialog, QHBoxLayout, QVBoxLayout, QWidget

from mblt_desktop.context import AppContext
from mblt_desktop.microphone.export import Exporter, suggested_name
from mblt_desktop.microphone.history import HistoryList
from mblt_desktop.microphone.player import Player
from mblt_desktop.microphone.queue import OVER, FileQueue, Item
from mblt_desktop.microphone.queue_view import DropZone, QueueArea, QueueView
from mblt_desktop.microphone.record_panel import RecordPanel
from mblt_desktop.microphone.recorder import Recorder
from mblt_desktop.microphone.speech_models import SpeechModels
from mblt_desktop.microphone.takes import TakeFolder
from mblt_desktop.microphone.transcript_page import TranscriptPage
from mblt_desktop.store.records import TranscriptRecord
from mblt_desktop.widgets import ErrorBanner, Line, Section, SidePanel, ask_for_files, local_files
from resources import sample
from runtime.audio.subtitles import TranscriptFormat
from runtime.errors import ErrorInfo
from runtime.messages import Segment, TakeFinished

SAMPLE = "jfk.flac"
_PANEL_WIDTH = 304
_WAITS = frozenset(("unsent", "waiting"))
_MORE_SUFFIXES = frozenset((".opus", ".flac", ".m4a", ".webm", ".mkv", ".ogg", ".oga", ".amr", ".caf", ".ts"))
"""Audio and video that the system's table of file types may not know."""


class MicrophonePane(QWidget):
    """Turns speech into text: of the microphone, of files."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self.takes = TakeFolder(context.paths.media)
        self.models = SpeechModels(context, self)
        self.recorder = Recorder(context, self.takes, self)
        self.queue = FileQueue(context, self.models, self.takes, self)
        self.player = Player(context, self)
        self.exporter = Exporter(self)
        self.record_panel = RecordPanel(context, self.recorder, self.models)
        self.drop_zone = DropZone()
        self.queue_view = QueueView(self.queue)
        self.history = HistoryList()
        self.page = TranscriptPage(self.player)
        self.banner = ErrorBanner()
        self._shown: Item | TranscriptRecord | None = None
        self._failed_export: TranscriptFormat | None = None
        self._greeted = False
        self.setAcceptDrops(True)
        self._build()
        self._connect()
        self._on_transcripts_changed()

    # -- what the window calls -------------------------------------------------------------------

    def accepts_drop(self, paths: list[Path]) -> bool:
        """Whether any of the files is audio or video by its name; the content decides later."""
        return any(_sounds_like_audio(path) for path in paths)

    def open_files(self, paths: list[Path]) -> None:
        """Transcribe files, one after the other; the first is shown at once when nothing else runs."""
        was_busy = self.queue.busy
        items = [self.queue.add(path) for path in paths]
        if items and not was_busy:
            self._show_item(items[0])

    def activated(self) -> None:
        """The pane came to the front: look again at what is plugged in and installed."""
        if self.recorder.state == "idle":
            self.recorder.refresh()
        self.models.refresh()
        if not self._greeted:
            self._greeted = True
            self.takes.empty_trash()
            self._find_lost_takes()

    def _find_lost_takes(self) -> None:
        sources = [row.source for row in self._context.store.transcripts.list()]
        for path in self.takes.unfinished(sources):
            if path != self.recorder.path:
                self.queue.keep(path)

    # -- building --------------------------------------------------------------------------------

    def _build(self) -> None:
        panel = SidePanel(_PANEL_WIDTH, title="Record")
        panel.column.addWidget(self.record_panel)
        panel.column.addSpacing(4)
        panel.column.addWidget(Line())
        panel.column.addWidget(Section("Files"))
        panel.column.addWidget(self.drop_zone)
        self._rows = QueueArea(self.queue_view)
        panel.column.addWidget(self._rows)
        self._history_title = Section("Transcripts")
        panel.column.addWidget(self._history_title)
        panel.column.addWidget(self.history, 1)
        main = QWidget()
        column = QVBoxLayout(main)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        self._banner_holder = QWidget()
        margin = QVBoxLayout(self._banner_holder)
        margin.setContentsMargins(16, 12, 16, 12)
        margin.addWidget(self.banner)
        self._banner_holder.hide()
        column.addWidget(self._banner_holder)
        column.addWidget(self.page, 1)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(panel)
        row.addWidget(main, 1)
        self._rows.hide()

    def _connect(self) -> None:
        self.drop_zone.clicked.connect(self._on_choose_clicked)
        self.page.sample_requested.connect(self._on_sample_requested)
        self.page.copy_requested.connect(self._on_copy_requested)
        self.page.export_requested.connect(self._on_export_requested)
        self.record_panel.models_requested.connect(self._on_models_requested)
        self.models.failed.connect(self._show_error)
        self.player.failed.connect(self._show_error)
        self.recorder.failed.connect(self._show_error)
        self.recorder.take_finished.connect(self._on_take_finished)
        self.recorder.state_changed.connect(self._on_recorder_state_changed)
        self.recorder.level_changed.connect(self._on_level_changed)
        self.queue.added.connect(self._on_queue_changed)
        self.queue.changed.connect(self._on_queue_changed)
        self.queue.removed.connect(self._on_item_removed)
        self.queue.dismissed.connect(self._on_item_dismissed)
        self.queue.segment_added.connect(self._on_segment_added)
        self.queue.finished.connect(self._on_item_finished)
        self.queue_view.opened.connect(self._on_item_opened)
        self.history.opened.connect(self._on_transcript_opened)
        self.history.delete_requested.connect(self._on_delete_requested)
        self.exporter.finished.connect(self._on_exported)
        self.banner.dismissed.connect(self._banner_holder.hide)
        self.banner.action_clicked.connect(self._on_banner_action)
        self._context.store.transcripts.changed.connect(self._on_transcripts_changed)

    # -- adding ----------------------------------------------------------------------------------

    @Slot()
    def _on_choose_clicked(self) -> None:
        ask_for_files(self, "Choose audio or video", self._on_files_chosen)

    @Slot(list)
    def _on_files_chosen(self, names: list[str]) -> None:
        self.open_files([Path(name) for name in names])

    @Slot()
    def _on_sample_requested(self) -> None:
        self.open_files([sample(SAMPLE)])

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Sound is welcome; what is something else by its name, the window sends where it belongs."""
        files = local_files(event.mimeData())
        if files and all(_sounds_like_audio(path) or not path.suffix for path in files):
            event.acceptProposedAction()
            self.drop_zone.show_welcome(welcome=True)
        else:
            event.ignore()

    def dragLeaveEvent(self, _event: QDragLeaveEvent) -> None:
        """Not dropped after all."""
        self.drop_zone.show_welcome(welcome=False)

    def dropEvent(self, event: QDropEvent) -> None:
        """Take what was dropped."""
        self.drop_zone.show_welcome(welcome=False)
        paths = local_files(event.mimeData())
        if paths:
            event.acceptProposedAction()
            self.open_files(paths)

    @Slot()
    def _on_models_requested(self) -> None:
        self._context.navigate("models")

    # -- recording -------------------------------------------------------------------------------

    @Slot()
    def _on_recorder_state_changed(self) -> None:
        if self.recorder.state == "recording":
            self._shown = None
            self.history.select("")
            self.page.show_recording()

    @Slot(float, float)
    def _on_level_changed(self, seconds: float, peak: float) -> None:
        if self._shown is None:
            self.page.add_level(seconds, peak)

    @Slot(object)
    def _on_take_finished(self, event: TakeFinished) -> None:
        if event.error is not None:
            self._show_error(event.error)
        path = Path(event.path)
        if event.seconds <= 0:
            self.takes.discard(path)
            self.page.show_nothing()
            return
        self._show_item(self.queue.add(path))

    # -- showing ---------------------------------------------------------------------------------

    def _show_item(self, item: Item) -> None:
        self._shown = item
        self.history.select("")
        self.page.show_growing(item.title, item.path, item.segments, waiting=item.state in _WAITS)

    def _show_record(self, record: TranscriptRecord) -> None:
        self._shown = record
        self.history.select(record.id)
        self.page.show_record(record)

    @Slot(object)
    def _on_item_opened(self, item: Item) -> None:
        if item.transcript_id:
            self._on_transcript_opened(item.transcript_id)
        elif item.state not in OVER:
            self._show_item(item)

    @Slot(str)
    def _on_transcript_opened(self, transcript_id: str) -> None:
        record = self._context.store.transcripts.get(transcript_id)
        if record is not None:
            self._show_record(record)

    @Slot(object, object)
    def _on_segment_added(self, item: Item, segment: Segment) -> None:
        if self._shown is item:
            self.page.add_segment(segment)

    @Slot(object, object)
    def _on_item_finished(self, item: Item, record: TranscriptRecord) -> None:
        if self._shown is item:
            self._show_record(record)

    @Slot()
    def _on_queue_changed(self) -> None:
        self._rows.setVisible(bool(self.queue.items))
        shown = self._shown
        if isinstance(shown, Item) and shown.state in ("failed", "cancelled") and not shown.segments:
            self._shown = None
            self.page.show_nothing()
        elif isinstance(shown, Item) and shown.state not in OVER:
            self.page.show_waiting(waiting=shown.state in _WAITS)

    @Slot(object)
    def _on_item_removed(self, item: Item) -> None:
        self._rows.setVisible(bool(self.queue.items))
        if self._shown is item:
            self._shown = None
            self.page.show_nothing()

    @Slot(object)
    def _on_item_dismissed(self, item: Item) -> None:
        """A file of the user's stays where it is; a take without a transcript is nowhere else."""
        if self.takes.is_take(item.path) and not item.transcript_id:
            self._discard_take(item)

    # -- transcripts -----------------------------------------------------------------------------

    @Slot()
    def _on_transcripts_changed(self) -> None:
        rows = self._context.store.transcripts.list()
        self._history_title.setVisible(bool(rows))
        self.history.show_rows(rows)
        if isinstance(self._shown, TranscriptRecord):
            self.history.select(self._shown.id)

    @Slot(str)
    def _on_delete_requested(self, transcript_id: str) -> None:
        transcripts = self._context.store.transcripts
        record = transcripts.get(transcript_id)
        transcripts.delete(transcript_id)
        title, source = (record.title, Path(record.source)) if record is not None else ("It", Path())
        take = self.takes.is_take(source)
        if take:
            self.takes.discard(source)
        if isinstance(self._shown, TranscriptRecord) and self._shown.id == transcript_id:
            self._shown = None
            self.page.show_nothing()

        def undo() -> None:
            if take:
                self.takes.restore(source)
            transcripts.restore(transcript_id)

        self._context.toast(f"“{title}” deleted.", undo)

    def _discard_take(self, item: Item) -> None:
        self.takes.discard(item.path)

        def undo() -> None:
            self.takes.restore(item.path)
            self.queue.keep(item.path)

        self._context.toast(f"“{item.title}” deleted.", undo)

    @Slot()
    def _on_copy_requested(self) -> None:
        QGuiApplication.clipboard().setText(self.page.text.plain_text())
        self._context.toast("Copied.")

    # -- export ----------------------------------------------------------------------------------

    @Slot(str)
    def _on_export_requested(self, form: TranscriptFormat) -> None:
        if not isinstance(self._shown, TranscriptRecord):
            return
        self._failed_export = form
        dialog = QFileDialog(self, "Export the transcript")
        dialog.setAcceptMode(QFileDialog.AcceptMode.AcceptSave)
        dialog.setDefaultSuffix(form)
        dialog.selectFile(suggested_name(self._shown.title, form))
        dialog.setAttribute(Qt.WidgetAttribute.WA_DeleteOnClose)
        dialog.fileSelected.connect(self._on_target_chosen)
        dialog.open()

    @Slot(str)
    def _on_target_chosen(self, name: str) -> None:
        if isinstance(self._shown, TranscriptRecord) and self._failed_export is not None:
            self.exporter.write(self._shown, Path(name), self._failed_export)

    @Slot(object, object)
    def _on_exported(self, target: Path, error: ErrorInfo | None) -> None:
        if error is None:
            self._context.toast(f"Saved {target.name}.")
        else:
            self._show_error(error, "Save elsewhere…")

    @Slot()
    def _on_banner_action(self) -> None:
        self._banner_holder.hide()
        if self._failed_export is not None:
            self._on_export_requested(self._failed_export)

    @Slot(object)
    def _show_error(self, error: ErrorInfo, action: str = "") -> None:
        self.banner.show_error(error, action)
        self._banner_holder.show()


def _sounds_like_audio(path: Path) -> bool:
    kind, _ = mimetypes.guess_type(path.name)
    by_type = kind is not None and kind.startswith(("audio/", "video/"))
    return by_type or path.suffix.lower() in _MORE_SUFFIXES
