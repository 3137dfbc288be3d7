"""The Image pane: gallery on the left, the picture in the middle, questions on the right."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from PySide6.QtCore import QCoreApplication, QItemSelection, QMimeData, QSize, Qt, Slot
from PySide6.QtGui import (
    QDragEnterEvent,
    QDragLeaveEvent,
    QDropEvent,
    QGuiApplication,
    QImage,
    QKeyEvent,
    QKeySequence,
    QResizeEvent,
)
from PySide6.QtWidgets import QHBoxLayout, QStackedWidget, QVBoxLayout, QWidget

from mblt_desktop.context import AppContext
from mblt_desktop.image.ask_panel import AskPanel
from mblt_desktop.image.gallery import (
    GALLERY_WIDTH,
    RECORD,
    GalleryModel,
    GalleryPanel,
    GalleryView,
    short,
    size_words,
)
from mblt_desktop.image.loading import PictureLoader, Preview, together
from mblt_desktop.image.preview import STEP, PreviewView
from mblt_desktop.image.question import TOGETHER
from mblt_desktop.store.records import ImageRecord
from mblt_desktop.widgets import (
    Button,
    Chip,
    EmptyState,
    ErrorBanner,
    IconButton,
    Label,
    Page,
    ask_for_files,
    local_files,
)
from resources import sample
from runtime.errors import ErrorInfo

SUFFIXES = frozenset((".png", ".jpg", ".jpeg", ".jpe", ".webp", ".gif", ".bmp", ".tif", ".tiff"))
REFUSED_SUFFIXES = frozenset((".heic", ".heif", ".avif", ".svg"))
"""Pictures too, as people see it: the pane takes them and says why it cannot read them."""
SAMPLE = "delivery-note.png"
_KEPT_PREVIEWS = 4
_LONGEST_NAME = 28
_SHORT_NAME = 14
_ROOMY = 1280
"""Width of the pane from which its side panels have their full widths."""
_COMPACT = 1160
"""Width below which the header shows only what is needed."""


class ImagePane(QWidget):
    """Takes pictures, shows them upright, and asks a model about them."""

    def __init__(self, context: AppContext) -> None:
        super().__init__()
        self._context = context
        self.loader = PictureLoader(context.paths.media, self)
        self.model = GalleryModel(context.store.images, self)
        self.gallery = GalleryView(self.model)
        self._panel = GalleryPanel(self.gallery)
        self.preview = PreviewView()
        self.ask = AskPanel(context)
        self.banner = ErrorBanner()
        self._previews: dict[str, Preview | None] = {}
        """Decoded pictures, the most recently shown last; None while one is being decoded."""
        self._adding = 0
        self._refusals: list[ErrorInfo] = []
        self._compact = False
        self.setAcceptDrops(True)
        self._build()
        self._connect()
        self._on_gallery_changed()

    # -- what the window calls ----------------------------------------------------------------

    def accepts_drop(self, paths: list[Path]) -> bool:
        """Whether any of the files is a picture by its name; the content decides when it is opened."""
        return any(path.suffix.lower() in SUFFIXES | REFUSED_SUFFIXES for path in paths)

    def open_files(self, paths: list[Path]) -> None:
        """Take files into the gallery; what is no picture is refused in words."""
        if self._adding == 0:
            self._refusals.clear()
        self._adding += len(paths)
        self.loader.take_files(paths)
        self._panel.show_adding(self._adding)

    def activated(self) -> None:
        """The pane came to the front: look again at what is installed."""
        self.ask.models.refresh()
        self.gallery.setFocus()

    def resizeEvent(self, event: QResizeEvent) -> None:
        """On a small window the side panels and the tools leave room for the picture."""
        width = event.size().width()
        roomy = width >= _ROOMY
        compact = width < _COMPACT
        self._panel.set_width(GALLERY_WIDTH if roomy else GALLERY_WIDTH - (112 if compact else 56))
        self.ask.set_roomy(roomy)
        if compact != self._compact:
            self._compact = compact
            self._show_selection()
        super().resizeEvent(event)

    def minimumSizeHint(self) -> QSize:
        """Smaller than its parts would like: they give way."""
        return QSize(720, 400)

    # -- building -----------------------------------------------------------------------------

    def _build(self) -> None:
        row = QHBoxLayout(self)
        row.setSizeConstraint(QHBoxLayout.SizeConstraint.SetNoConstraint)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(0)
        row.addWidget(self._panel)
        row.addWidget(self._build_middle(), 1)
        row.addWidget(self.ask)

    def _build_middle(self) -> QWidget:
        self.page = Page("Image")
        self._build_tools()
        self.empty = EmptyState(
            "image",
            "Drop a picture here",
            "Or paste one with Ctrl+V. It is shown upright, stays on this computer, and keeps what you ask "
            "about it.",
            "Open pictures…",
        )
        self._sample = Button("Try the sample: a delivery note", kind="link")
        self.empty.extra.addWidget(self._sample, 0, Qt.AlignmentFlag.AlignHCenter)
        self._stack = QStackedWidget()
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self.preview)
        body = QWidget()
        column = QVBoxLayout(body)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        holder = QWidget()
        margin = QVBoxLayout(holder)
        margin.setContentsMargins(16, 12, 16, 0)
        margin.addWidget(self.banner)
        self._banner_holder = holder
        holder.hide()
        column.addWidget(holder)
        column.addWidget(self._stack, 1)
        self.page.set_body(body)
        return self.page

    def _build_tools(self) -> None:
        header = self.page.header
        self._size = Chip()
        header.add_left(self._size)
        self._zoom_out = IconButton("minus", "Zoom out (-)")
        self._zoom_words = Label("", "muted", "small", tabular=True)
        self._zoom_words.setFixedWidth(44)
        self._zoom_words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        self._zoom_in = IconButton("plus", "Zoom in (+)")
        self._fit = Button("Fit")
        self._fit.setCheckable(True)
        self._fit.setToolTip("Show the whole picture (0)")
        self._actual = Button("1:1")
        self._actual.setToolTip("Actual size (1)")
        self._actual.setAccessibleName("Actual size")
        self._remove = IconButton("trash", "Remove from the gallery (Delete)")
        self._extras = (self._zoom_words, self._actual)
        self._tools = (self._zoom_out, self._zoom_words, self._zoom_in, self._fit, self._actual, self._remove)
        for tool in self._tools:
            header.add_right(tool)

    def _connect(self) -> None:
        self.loader.imported.connect(self._on_imported)
        self.loader.import_failed.connect(self._on_import_failed)
        self.loader.thumbnail_ready.connect(self._on_thumbnail_ready)
        self.loader.preview_ready.connect(self._on_preview_ready)
        self.loader.preview_failed.connect(self._on_preview_failed)
        self.model.thumbnail_wanted.connect(self._on_thumbnail_wanted)
        self.model.rowsInserted.connect(self._on_gallery_changed)
        self.model.rowsRemoved.connect(self._on_gallery_changed)
        self.gallery.selectionModel().selectionChanged.connect(self._on_selection_changed)
        self.gallery.remove_requested.connect(self._on_remove_requested)
        self.ask.question.edit.media_pasted.connect(self._on_media_pasted)
        self.preview.zoom_changed.connect(self._on_zoom_changed)
        self._panel.open_button.clicked.connect(self._on_open_clicked)
        self.empty.action_clicked.connect(self._on_open_clicked)
        self._sample.clicked.connect(self._on_sample_clicked)
        self._zoom_in.clicked.connect(self._on_zoom_in_clicked)
        self._zoom_out.clicked.connect(self._on_zoom_out_clicked)
        self._fit.clicked.connect(self._on_fit_clicked)
        self._actual.clicked.connect(self.preview.actual_size)
        self._remove.clicked.connect(self._on_remove_requested)
        self.banner.dismissed.connect(self._banner_holder.hide)
        application = QCoreApplication.instance()
        if application is not None:
            application.aboutToQuit.connect(self.loader.close)

    # -- adding -------------------------------------------------------------------------------

    def paste(self, mime: QMimeData) -> bool:
        """Take files or a picture from the clipboard or a drop; False when it holds neither."""
        paths = local_files(mime)
        if paths:
            self.open_files(paths)
            return True
        if mime.hasImage():
            image = QImage(mime.imageData())
            if self._adding == 0:
                self._refusals.clear()
            self._adding += 1
            self.loader.take_image(image)
            self._panel.show_adding(self._adding)
            return True
        return False

    @Slot(object, object)
    def _on_imported(self, record: ImageRecord, thumbnail: QImage) -> None:
        self._adding -= 1
        known = self.model.find_path(record.path)
        if known is not None:
            self._context.toast(f"{known.name} is already in the gallery.")
        else:
            self.model.set_thumbnail(record.id, thumbnail)
            self._context.store.images.add(record)
        if known is not None or record == self.model.index(0).data(RECORD):
            self._select(known or record)  # of several taken together, the first
        self._panel.show_adding(self._adding)

    @Slot(object)
    def _on_import_failed(self, error: ErrorInfo) -> None:
        self._adding -= 1
        self._refusals.append(error)
        self._show_error(together(self._refusals))
        self._panel.show_adding(self._adding)

    def _show_error(self, error: ErrorInfo) -> None:
        self.banner.show_error(error)
        self._banner_holder.show()

    @Slot()
    def _on_open_clicked(self) -> None:
        patterns = " ".join(f"*{suffix}" for suffix in sorted(SUFFIXES))
        filters = (f"Pictures ({patterns})", "All files (*)")
        ask_for_files(self, "Open pictures", self._on_files_chosen, filters)

    @Slot(list)
    def _on_files_chosen(self, names: list[str]) -> None:
        self.open_files([Path(name) for name in names])

    @Slot()
    def _on_sample_clicked(self) -> None:
        self.open_files([sample(SAMPLE)])

    @Slot(object)
    def _on_media_pasted(self, mime: QMimeData) -> None:
        self.paste(mime)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Ctrl+V anywhere in the pane takes the clipboard's picture."""
        if event.matches(QKeySequence.StandardKey.Paste) and self.paste(
            QGuiApplication.clipboard().mimeData()
        ):
            return
        super().keyPressEvent(event)

    def dragEnterEvent(self, event: QDragEnterEvent) -> None:
        """Pictures are welcome; what is something else, the window sends where it belongs."""
        files = local_files(event.mimeData())
        if all(self.accepts_drop([path]) for path in files) and (files or event.mimeData().hasImage()):
            event.acceptProposedAction()
            self._panel.show_drop_target(welcome=True)
        else:
            event.ignore()

    def dragLeaveEvent(self, _event: QDragLeaveEvent) -> None:
        """Not dropped after all."""
        self._panel.show_drop_target(welcome=False)

    def dropEvent(self, event: QDropEvent) -> None:
        """Take what was dropped."""
        self._panel.show_drop_target(welcome=False)
        if self.paste(event.mimeData()):
            event.acceptProposedAction()

    # -- removing -----------------------------------------------------------------------------

    @Slot()
    def _on_remove_requested(self) -> None:
        records = self.gallery.records()
        if not records:
            return
        row = self.model.index_of(records[0].id).row()
        for record in records:
            self._context.store.images.delete(record.id)
        self.gallery.choose(self.model.index(min(row, self.model.rowCount() - 1)))
        what = records[0].name if len(records) == 1 else f"{len(records)} pictures"

        def undo() -> None:
            for record in records:
                self._context.store.images.restore(record.id)
            self._select(records[0])

        self._context.toast(f"{what} removed from the gallery.", undo)

    # -- showing ------------------------------------------------------------------------------

    def _select(self, record: ImageRecord) -> None:
        self.gallery.choose(self.model.index_of(record.id))

    @Slot()
    def _on_gallery_changed(self) -> None:
        if self.model.rowCount() and not self.gallery.selectedIndexes():
            self.gallery.choose(self.model.index(0))
        self._show_selection()

    @Slot(QItemSelection, QItemSelection)
    def _on_selection_changed(self, _now: QItemSelection, _before: QItemSelection) -> None:
        self._show_selection()

    def _show_selection(self) -> None:
        selected = self.gallery.records()
        records = selected[:TOGETHER]
        for tool in self._tools:
            tool.setVisible(bool(records) and not (self._compact and tool in self._extras))
        self._size.setVisible(len(records) == 1 and not self._compact)
        self._stack.setCurrentWidget(self.preview if self.model.rowCount() else self.empty)
        longest = _SHORT_NAME if self._compact else _LONGEST_NAME
        names = [short(record.name, longest) for record in records] or ["Image"]
        many = len(selected) > TOGETHER or (self._compact and len(names) > 1)
        more = "" if len(selected) <= TOGETHER or self._compact else f", the first {TOGETHER} shown"
        self.page.header.set_title(f"{len(selected)} pictures{more}" if many else " and ".join(names))
        if len(records) == 1:
            self._size.set_text(size_words(records[0]))
        for record in records:
            if record.id not in self._previews:
                self._previews[record.id] = None
                self.loader.request_preview(record)
        self.ask.show_pictures(selected)
        self._show_previews(records)

    def _show_previews(self, records: list[ImageRecord]) -> None:
        """Show what is decoded of the selection, and keep only the latest few in memory."""
        ready = [preview for record in records if (preview := self._previews.get(record.id)) is not None]
        for record in records:
            self._previews[record.id] = self._previews.pop(record.id, None)
        for key in list(self._previews)[:-_KEPT_PREVIEWS]:
            del self._previews[key]
        complete = len(ready) == len(records)
        self.preview.show_pictures(ready if complete else (), ", ".join(record.name for record in records))

    @Slot(object)
    def _on_thumbnail_wanted(self, record: ImageRecord) -> None:
        self.loader.request_thumbnail(record)

    @Slot(str, object)
    def _on_thumbnail_ready(self, image_id: str, thumbnail: QImage) -> None:
        self.model.set_thumbnail(image_id, thumbnail)

    @Slot(str, object)
    def _on_preview_ready(self, image_id: str, preview: Preview) -> None:
        if image_id in self._previews:
            self._previews[image_id] = preview
            self._show_previews(self.gallery.records()[:TOGETHER])

    @Slot(str, object)
    def _on_preview_failed(self, image_id: str, error: ErrorInfo) -> None:
        self._previews.pop(image_id, None)
        record = self._context.store.images.get(image_id)
        if record is not None:
            words = f"{record.name} cannot be shown: its copy in the media folder is missing or damaged."
            unharmed = "What was asked and answered about it is unharmed."
            self._show_error(replace(error, summary=words, unharmed=unharmed))

    @Slot(float, bool)
    def _on_zoom_changed(self, zoom: float, fitted: bool) -> None:
        self._zoom_words.setText(f"{zoom:.0%}")
        self._fit.setChecked(fitted)

    @Slot()
    def _on_zoom_in_clicked(self) -> None:
        self.preview.zoom_by(STEP)

    @Slot()
    def _on_zoom_out_clicked(self) -> None:
        self.preview.zoom_by(1 / STEP)

    @Slot()
    def _on_fit_clicked(self) -> None:
        self.preview.fit()
