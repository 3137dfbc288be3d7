"""The left panel: Record, Import, and the recordings there are."""

from __future__ import annotations

from PySide6.QtCore import QModelIndex, QPersistentModelIndex, QPoint, QRect, QSize, Qt, Signal, Slot
from PySide6.QtGui import QFontMetrics, QKeyEvent, QPainter
from PySide6.QtWidgets import (
    QAbstractItemView,
    QHBoxLayout,
    QListWidget,
    QListWidgetItem,
    QMenu,
    QStyle,
    QStyledItemDelegate,
    QStyleOptionViewItem,
    QWidget,
)

from mblt_desktop.theme import current_theme, font
from mblt_desktop.tracing import words
from mblt_desktop.tracing.controller import RecordingController
from mblt_desktop.widgets import Button, Dot, Label, PrimaryButton, SidePanel, plain_tip
from runtime.messages import RecordingInfo

_INFO = Qt.ItemDataRole.UserRole
_ROW_HEIGHT = 52
_RECORD = {"idle": "Record", "starting": "Starting…", "recording": "Stop", "stopping": "Writing…"}


class RecordingDelegate(QStyledItemDelegate):
    """Two lines: the title, and how long, how many events, whether checked."""

    def sizeHint(self, _option: QStyleOptionViewItem, _index: QModelIndex | QPersistentModelIndex) -> QSize:
        """Qt: every row alike."""
        return QSize(120, _ROW_HEIGHT)

    def paint(
        self, painter: QPainter, option: QStyleOptionViewItem, index: QModelIndex | QPersistentModelIndex
    ) -> None:
        """Draw a row."""
        info: RecordingInfo = index.data(_INFO)
        theme = current_theme()
        rect: QRect = option.rect.adjusted(0, 1, 0, -1)
        state = option.state
        painter.save()
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        if state & QStyle.StateFlag.State_Selected:
            painter.setBrush(theme.colour("accent_soft"))
            painter.drawRoundedRect(rect, 6, 6)
        elif state & QStyle.StateFlag.State_MouseOver:
            painter.setBrush(theme.colour("raised"))
            painter.drawRoundedRect(rect, 6, 6)
        inside = rect.adjusted(10, 7, -10, -7)
        bold, small = font(bold=True), font("small", tabular=True)
        painter.setFont(bold)
        painter.setPen(theme.colour("text"))
        title = QFontMetrics(bold).elidedText(info.title, Qt.TextElideMode.ElideRight, inside.width())
        painter.drawText(inside, int(Qt.AlignmentFlag.AlignTop), title)
        painter.setFont(small)
        painter.setPen(theme.colour("muted" if info.checked else "warn"))
        facts = QFontMetrics(small).elidedText(
            words.about_row(info), Qt.TextElideMode.ElideRight, inside.width()
        )
        painter.drawText(inside, int(Qt.AlignmentFlag.AlignBottom), facts)
        painter.restore()


class RecordingList(QListWidget):
    """F2 renames, Delete removes; both also in the context menu."""

    opened = Signal(object)
    renamed = Signal(str, str)
    """Path and new title."""
    removed = Signal(object)
    shown_in_folder = Signal(object)

    def __init__(self) -> None:
        super().__init__()
        self.setAccessibleName("Recordings")
        self.setItemDelegate(RecordingDelegate(self))
        self.setMouseTracking(True)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setVerticalScrollMode(QAbstractItemView.ScrollMode.ScrollPerPixel)
        self.setEditTriggers(QAbstractItemView.EditTrigger.EditKeyPressed)
        self.setContextMenuPolicy(Qt.ContextMenuPolicy.CustomContextMenu)
        self.customContextMenuRequested.connect(self._on_menu_requested)
        self.currentItemChanged.connect(self._on_current_changed)
        self.itemChanged.connect(self._on_item_changed)

    def set_rows(self, rows: tuple[RecordingInfo, ...], current: str) -> None:
        """Show these; `current` is the path of the one to select."""
        self.blockSignals(True)
        self.clear()
        for info in rows:
            item = QListWidgetItem(info.title)
            item.setData(_INFO, info)
            item.setToolTip(plain_tip(words.row_tip(info)))
            item.setData(Qt.ItemDataRole.AccessibleTextRole, f"{info.title}, {words.about_row(info)}")
            item.setFlags(item.flags() | Qt.ItemFlag.ItemIsEditable)
            self.addItem(item)
            if info.path == current:
                self.setCurrentItem(item)
        self.blockSignals(False)

    @property
    def current(self) -> RecordingInfo | None:
        """The selected recording."""
        item = self.currentItem()
        info: RecordingInfo | None = None if item is None else item.data(_INFO)
        return info

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Delete removes the selected recording."""
        if event.key() == Qt.Key.Key_Delete and self.current is not None:
            self.removed.emit(self.current)
        else:
            super().keyPressEvent(event)

    @Slot(QListWidgetItem, QListWidgetItem)
    def _on_current_changed(self, item: QListWidgetItem | None, _former: QListWidgetItem | None) -> None:
        if item is not None:
            self.opened.emit(item.data(_INFO))

    @Slot(QListWidgetItem)
    def _on_item_changed(self, item: QListWidgetItem) -> None:
        info: RecordingInfo = item.data(_INFO)
        title = item.text().strip()
        if title and title != info.title:
            self.renamed.emit(info.path, title)
        elif item.text() != info.title:
            item.setText(info.title)

    @Slot(QPoint)
    def _on_menu_requested(self, point: QPoint) -> None:
        item = self.itemAt(point)
        if item is None:
            return
        menu = QMenu(self)
        rename = menu.addAction("Rename")
        folder = menu.addAction("Show in folder")
        menu.addSeparator()
        remove = menu.addAction("Delete")
        chosen = menu.exec(self.mapToGlobal(point))
        menu.deleteLater()
        if chosen is rename:
            self.editItem(item)
        elif chosen is folder:
            self.shown_in_folder.emit(item.data(_INFO))
        elif chosen is remove:
            self.removed.emit(item.data(_INFO))


class RecordingsPanel(SidePanel):
    """Record on top, what runs below it, then the list."""

    import_clicked = Signal()

    def __init__(self, controller: RecordingController) -> None:
        super().__init__(width=256)
        self.column.setContentsMargins(12, 10, 12, 12)
        self.record = PrimaryButton("Record", "record")
        self.record.clicked.connect(controller.toggle)
        self.import_button = Button("Import…")
        self.import_button.setToolTip("Open a trace made elsewhere (.pftrace, .json, .json.gz)")
        self.import_button.clicked.connect(self.import_clicked)
        buttons = QHBoxLayout()
        buttons.setSpacing(8)
        buttons.addWidget(self.record, 1)
        buttons.addWidget(self.import_button)
        self.column.addLayout(buttons)
        self.running = QWidget()
        row = QHBoxLayout(self.running)
        row.setContentsMargins(4, 0, 4, 0)
        row.setSpacing(8)
        self.facts = Label("", tabular=True)
        row.addWidget(Dot("bad"))
        row.addWidget(self.facts, 1)
        self.column.addWidget(self.running)
        self.list = RecordingList()
        self.column.addWidget(self.list, 1)
        self.notice = Label("", "warn", "small", wrap=True)
        self.notice.hide()
        self.column.addWidget(self.notice)
        controller.state_changed.connect(self._on_state_changed)
        controller.ticked.connect(self._on_ticked)
        self._on_state_changed(controller.state)

    def show_notice(self, text: str) -> None:
        """Say what could not be read."""
        self.notice.setText(text)
        self.notice.setVisible(bool(text))

    @Slot(str)
    def _on_state_changed(self, state: str) -> None:
        self.record.setText(_RECORD[state])
        self.record.set_icon("stop" if state == "recording" else "record")
        self.record.setEnabled(state in ("idle", "recording"))
        self.running.setVisible(state == "recording")
        if state == "recording":
            self._on_ticked(0.0, 0)

    @Slot(float, int)
    def _on_ticked(self, seconds: float, count: int) -> None:
        self.facts.setText(f"{words.clock(seconds)} · {words.events(count)}")
