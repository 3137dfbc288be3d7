"""The list of pictures: thumbnail, name, size, number of answers; made for hundreds of them."""

from __future__ import annotations

from PySide6.QtCore import (
    QAbstractListModel,
    QItemSelectionModel,
    QModelIndex,
    QObject,
    QPersistentModelIndex,
    QRect,
    QSize,
    Qt,
    Signal,
    Slot,
)
from PySide6.QtGui import QFontMetrics, QImage, QKeyEvent, QKeySequence, QPainter, QPainterPath
from PySide6.QtWidgets import (
    QFrame,
    QHBoxLayout,
    QListView,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QVBoxLayout,
    QWidget,
)

from mblt_desktop.store.images import Images
from mblt_desktop.store.records import ImageRecord
from mblt_desktop.theme import current_theme, font, icon, theme_manager
from mblt_desktop.widgets import Button, Label, SidePanel, plain_tip, restyle

Index = QModelIndex | QPersistentModelIndex
RECORD = Qt.ItemDataRole.UserRole
ROW_HEIGHT = 64
GALLERY_WIDTH = 264
_NARROW = 180
_PICTURE = 48
_PAD = 8


class GalleryModel(QAbstractListModel):
    """The store's pictures, newest first. Thumbnails are asked for when a row is first painted."""

    thumbnail_wanted = Signal(object)
    """An ImageRecord."""

    def __init__(self, images: Images, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self._images = images
        self._rows = images.list()
        self._thumbnails: dict[str, QImage | None] = {}
        """None: asked for, or not to be had."""
        images.changed.connect(self._on_changed)

    def rowCount(self, parent: Index | None = None) -> int:
        """Pictures in the gallery."""
        return 0 if parent is not None and parent.isValid() else len(self._rows)

    def data(self, index: Index, role: int = Qt.ItemDataRole.DisplayRole) -> object:
        """The record, its thumbnail, and its words for screen readers."""
        if not index.isValid() or index.row() >= len(self._rows):
            return None
        record = self._rows[index.row()]
        if role == RECORD:
            return record
        if role == Qt.ItemDataRole.DecorationRole:
            return self._thumbnail(record)
        if role == Qt.ItemDataRole.DisplayRole:
            return record.name
        words = f"{record.name}, {size_words(record)}"
        if role == Qt.ItemDataRole.AccessibleTextRole:
            return words
        return plain_tip(words) if role == Qt.ItemDataRole.ToolTipRole else None

    def set_thumbnail(self, image_id: str, thumbnail: QImage) -> None:
        """Show a thumbnail that has been made."""
        self._thumbnails[image_id] = thumbnail
        index = self.index_of(image_id)
        self.dataChanged.emit(index, index, [Qt.ItemDataRole.DecorationRole])

    def index_of(self, image_id: str) -> QModelIndex:
        """The row of a picture; invalid when it is not there."""
        row = next((row for row, record in enumerate(self._rows) if record.id == image_id), -1)
        return self.index(row) if row >= 0 else QModelIndex()

    def find_path(self, path: str) -> ImageRecord | None:
        """The picture with this file, if it is in the gallery."""
        return next((record for record in self._rows if record.path == path), None)

    def _thumbnail(self, record: ImageRecord) -> QImage | None:
        if record.id not in self._thumbnails:
            self._thumbnails[record.id] = None
            self.thumbnail_wanted.emit(record)
        return self._thumbnails[record.id]

    @Slot()
    def _on_changed(self) -> None:
        """Follow the store with single insertions and removals, so that the selection stays."""
        wanted = self._images.list()
        keep = {record.id for record in wanted}
        for row in range(len(self._rows) - 1, -1, -1):
            if self._rows[row].id not in keep:
                self.beginRemoveRows(QModelIndex(), row, row)
                del self._rows[row]
                self.endRemoveRows()
        known = {record.id for record in self._rows}
        for row, record in enumerate(wanted):
            if record.id not in known:
                self.beginInsertRows(QModelIndex(), row, row)
                self._rows.insert(row, record)
                self.endInsertRows()


class GalleryView(QListView):
    """Shows the pictures; Delete removes what is selected, Ctrl+click selects a second one."""

    remove_requested = Signal()

    def __init__(self, model: GalleryModel) -> None:
        super().__init__()
        self.setModel(model)
        self.setItemDelegate(_RowDelegate(self))
        self.setSelectionMode(QListView.SelectionMode.ExtendedSelection)
        self.setVerticalScrollMode(QListView.ScrollMode.ScrollPerPixel)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setUniformItemSizes(True)
        self.setAccessibleName("Pictures")
        theme_manager().changed.connect(self.viewport().update)

    def choose(self, index: QModelIndex) -> None:
        """Select this row alone, whatever keys are held down (Ctrl is, while a picture is pasted)."""
        self.selectionModel().setCurrentIndex(index, QItemSelectionModel.SelectionFlag.ClearAndSelect)
        self.scrollTo(index)

    def records(self) -> list[ImageRecord]:
        """What is selected, in the order of the list."""
        rows = sorted(self.selectedIndexes(), key=lambda index: index.row())
        return [index.data(RECORD) for index in rows]

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Delete removes, pasting is the pane's; everything else is the list's."""
        if event.key() in (Qt.Key.Key_Delete, Qt.Key.Key_Backspace):
            self.remove_requested.emit()
        elif event.matches(QKeySequence.StandardKey.Paste):
            event.ignore()
        else:
            super().keyPressEvent(event)


class GalleryPanel(SidePanel):
    """The pane's left side: Open, where to drop, and the list."""

    def __init__(self, gallery: GalleryView) -> None:
        super().__init__(GALLERY_WIDTH)
        self.column.setContentsMargins(0, 0, 0, 12)
        self.column.setSpacing(0)
        head = QWidget()
        head.setFixedHeight(48)
        row = QHBoxLayout(head)
        row.setContentsMargins(16, 0, 12, 0)
        self._title = Label("Pictures", size="title", bold=True)
        row.addWidget(self._title)
        row.addStretch(1)
        self.open_button = Button("Open", "plus")
        self.open_button.setToolTip("Open pictures (PNG, JPEG, WebP, GIF, BMP, TIFF)")
        row.addWidget(self.open_button)
        self._drop = QFrame()
        self._drop.setProperty("role", "drop")
        self._words = Label("", "muted", wrap=True)
        self._words.setAlignment(Qt.AlignmentFlag.AlignCenter)
        drop = QVBoxLayout(self._drop)
        drop.setContentsMargins(8, 12, 8, 12)
        drop.addWidget(self._words)
        body = QVBoxLayout()
        body.setContentsMargins(8, 0, 8, 0)
        body.setSpacing(8)
        body.addWidget(self._drop)
        body.addWidget(gallery, 1)
        self.column.addWidget(head)
        self.column.addLayout(body, 1)
        self._gallery = gallery
        body.addLayout(self._build_foot())
        self._show_selected()
        self.show_adding(0)

    def _build_foot(self) -> QHBoxLayout:
        gallery = self._gallery
        self._selected = Label("", "muted", "small", tabular=True)
        self.select_all = Button("Select all", kind="link")
        self.select_all.setToolTip("Select every picture (Ctrl+A), to ask about each of them")
        self.select_all.clicked.connect(gallery.selectAll)
        foot = QHBoxLayout()
        foot.setContentsMargins(8, 0, 0, 0)
        foot.addWidget(self._selected, 1)
        foot.addWidget(self.select_all)
        gallery.selectionModel().selectionChanged.connect(self._show_selected)
        gallery.model().rowsInserted.connect(self._show_selected)
        gallery.model().rowsRemoved.connect(self._show_selected)
        return foot

    @Slot()
    def _show_selected(self) -> None:
        """How many are selected, once there are several."""
        count, chosen = self._gallery.model().rowCount(), len(self._gallery.selectedIndexes())
        words = f"{chosen} of {count}" + ("" if self.width() <= _NARROW else " selected")
        self._selected.setText(words if count > 1 else "")
        self.select_all.setVisible(1 < count != chosen)

    def set_width(self, width: int) -> None:
        """Take so much room; without room for both, Open stays and the heading goes."""
        self._title.setVisible(width > _NARROW)
        self.setFixedWidth(width)
        self._show_selected()

    def show_adding(self, count: int) -> None:
        """Say how many pictures are being taken in."""
        if count:
            self._words.setText("Adding a picture…" if count == 1 else f"Adding {count} pictures…")
        else:
            self._words.setText("Drop or paste pictures here")

    def show_drop_target(self, *, welcome: bool) -> None:
        """Light up while something that can be taken hovers over the pane."""
        restyle(self._drop, current=welcome)


class _RowDelegate(QStyledItemDelegate):
    """Paints a row in the theme's colours."""

    def sizeHint(self, _option: QStyleOptionViewItem, _index: Index) -> QSize:
        """All rows alike."""
        return QSize(120, ROW_HEIGHT)

    def paint(self, painter: QPainter, option: QStyleOptionViewItem, index: Index) -> None:
        """Thumbnail on the left; name over size on the right."""
        theme = current_theme()
        rect = option.rect.adjusted(0, 2, 0, -2)
        state = option.state
        selected = bool(state & QStyle.StateFlag.State_Selected)
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform)
        shape = QPainterPath()
        shape.addRoundedRect(rect, 6, 6)
        if selected:
            painter.fillPath(shape, theme.colour("accent_soft"))
        elif state & QStyle.StateFlag.State_MouseOver:
            painter.fillPath(shape, theme.colour("raised"))
        picture = QRect(rect.left() + _PAD, rect.center().y() - _PICTURE // 2 + 1, _PICTURE, _PICTURE)
        self._paint_thumbnail(painter, picture, index.data(Qt.ItemDataRole.DecorationRole))
        record: ImageRecord = index.data(RECORD)
        left = picture.right() + 12
        text = QRect(left, rect.top(), rect.right() - left - _PAD, rect.height())
        self._paint_words(painter, text, record, "accent" if selected else "text")
        if state & QStyle.StateFlag.State_HasFocus and option.widget.hasFocus():
            painter.setPen(theme.colour("accent"))
            painter.drawPath(shape)
        painter.restore()

    @staticmethod
    def _paint_thumbnail(painter: QPainter, place: QRect, thumbnail: QImage | None) -> None:
        if thumbnail is None:
            icon("image", "faint").paint(painter, place.adjusted(12, 12, -12, -12))
            return
        size = thumbnail.size().scaled(place.size(), Qt.AspectRatioMode.KeepAspectRatio)
        size = size.expandedTo(QSize(2, 2))
        fitted = QRect(0, 0, size.width(), size.height())
        fitted.moveCenter(place.center())
        painter.drawImage(fitted, thumbnail)
        painter.setPen(current_theme().colour("border"))
        painter.drawRect(fitted.adjusted(0, 0, -1, -1))

    @staticmethod
    def _paint_words(painter: QPainter, place: QRect, record: ImageRecord, tone: str) -> None:
        theme = current_theme()
        for words, name, size, upper in (
            (record.name, tone, "body", True),
            (size_words(record), "muted", "small", False),
        ):
            painter.setFont(font("body") if size == "body" else font("small", tabular=True))
            painter.setPen(theme.colour(name))
            metrics = QFontMetrics(painter.font())
            line = QRect(place)
            if upper:
                line.setBottom(place.center().y())
            else:
                line.setTop(place.center().y() + 2)
            align = Qt.AlignmentFlag.AlignBottom if upper else Qt.AlignmentFlag.AlignTop
            elided = metrics.elidedText(words, Qt.TextElideMode.ElideMiddle, line.width())
            painter.drawText(line, int(align | Qt.AlignmentFlag.AlignLeft), elided)


def size_words(record: ImageRecord) -> str:
    """The size in pixels as it is shown."""
    return f"{record.width} × {record.height}"


def short(name: str, longest: int) -> str:
    """A file name cut in its middle, so that the header leaves room for its tools."""
    if len(name) <= longest:
        return name
    half = longest // 2
    return f"{name[:half]}…{name[1 - half :]}"
