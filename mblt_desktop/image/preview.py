"""The large picture in the middle: fitted, zoomed, dragged; two side by side for comparing."""

from __future__ import annotations

from collections.abc import Sequence

from PySide6.QtCore import QPoint, QPointF, QRectF, QSize, QSizeF, Qt, Signal
from PySide6.QtGui import QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QResizeEvent, QWheelEvent
from PySide6.QtWidgets import QSizePolicy, QWidget

from mblt_desktop.image.loading import Preview
from mblt_desktop.theme import current_theme, theme_manager

GAP = 16
MARGIN = 20
STEP = 1.25
LARGEST = 8.0
SMALLEST = 0.02
_PAN_STEP = 60


class PreviewView(QWidget):
    """Paints one picture or two. Zoom 1 shows a pixel of the file as a pixel of the screen."""

    zoom_changed = Signal(float, bool)
    """The zoom, and whether it follows the size of the view."""

    def __init__(self) -> None:
        super().__init__()
        self._pictures: tuple[Preview, ...] = ()
        self._zoom = 1.0
        self._fitted = True
        self._offset = QPointF()
        """Of the pictures' middle from the view's middle, in pixels."""
        self._grabbed: QPoint | None = None
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Expanding)
        self.setMinimumSize(240, 200)
        self.setAccessibleName("Picture")
        theme_manager().changed.connect(self.update)

    @property
    def zoom(self) -> float:
        """Screen pixels by file pixel."""
        return self._zoom

    @property
    def fitted(self) -> bool:
        """Whether the zoom follows the size of the view."""
        return self._fitted

    @property
    def pictures(self) -> tuple[Preview, ...]:
        """What is shown."""
        return self._pictures

    def show_pictures(self, pictures: Sequence[Preview], names: str = "") -> None:
        """Show these side by side, fitted."""
        self._pictures = tuple(pictures)
        self.setAccessibleName(f"Picture {names}" if names else "Picture")
        self.fit()

    def fit(self) -> None:
        """Show everything, but never enlarge a small picture."""
        self._fitted = True
        self._offset = QPointF()
        self._set_zoom(min(1.0, self._fitting()))

    def zoom_by(self, factor: float, around: QPointF | None = None) -> None:
        """Enlarge or reduce, keeping the point `around` (the middle by default) where it is."""
        if not self._pictures:
            return
        self._fitted = False
        before = self._zoom
        wanted = min(LARGEST, max(min(SMALLEST, self._fitting()), before * factor))
        point = (around if around is not None else self._middle()) - self._middle()
        self._offset = point - (point - self._offset) * (wanted / before)
        self._set_zoom(wanted)

    def actual_size(self) -> None:
        """One file pixel on one screen pixel."""
        self.zoom_by(1.0 / self._zoom)

    # -- geometry -----------------------------------------------------------------------------

    def _middle(self) -> QPointF:
        return QPointF(self.width() / 2, self.height() / 2)

    def _all_size(self, zoom: float) -> QSizeF:
        sizes = [picture.source for picture in self._pictures]
        width = sum(size.width() for size in sizes) * zoom + GAP * (len(sizes) - 1)
        return QSizeF(width, max(size.height() for size in sizes) * zoom)

    def _fitting(self) -> float:
        if not self._pictures:
            return 1.0
        whole = self._all_size(1.0)
        gaps = GAP * (len(self._pictures) - 1)
        width = max(1, self.width() - 2 * MARGIN - gaps) / max(1.0, whole.width() - gaps)
        return min(width, max(1, self.height() - 2 * MARGIN) / max(1.0, whole.height()))

    def _set_zoom(self, zoom: float) -> None:
        self._zoom = zoom
        self._keep_in_view()
        self.zoom_changed.emit(zoom, self._fitted)
        self.update()

    def _keep_in_view(self) -> None:
        if not self._pictures:
            return
        whole = self._all_size(self._zoom)
        across = max(0.0, (whole.width() - self.width()) / 2 + MARGIN)
        along = max(0.0, (whole.height() - self.height()) / 2 + MARGIN)
        self._offset = QPointF(
            min(across, max(-across, self._offset.x())), min(along, max(-along, self._offset.y()))
        )

    def _places(self) -> list[QRectF]:
        whole = self._all_size(self._zoom)
        corner = self._middle() + self._offset - QPointF(whole.width() / 2, whole.height() / 2)
        left = corner.x()
        places = []
        for picture in self._pictures:
            size = QSizeF(picture.source) * self._zoom
            top = corner.y() + (whole.height() - size.height()) / 2
            places.append(QRectF(QPointF(left, top), size))
            left += size.width() + GAP
        return places

    # -- events -------------------------------------------------------------------------------

    def sizeHint(self) -> QSize:
        """Takes what is left."""
        return QSize(640, 480)

    def paintEvent(self, event: QPaintEvent) -> None:
        """Draw the visible part of each picture from the level nearest to the size it has on screen."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.SmoothPixmapTransform, self._zoom < 3)
        for picture, place in zip(self._pictures, self._places() if self._pictures else [], strict=True):
            visible = place.intersected(QRectF(event.rect()))
            if visible.isEmpty():
                continue
            ratio = self.devicePixelRatioF()
            level = next(
                (image for image in reversed(picture.levels) if image.width() >= place.width() * ratio),
                picture.levels[0],
            )
            scale_x = level.width() / place.width()
            scale_y = level.height() / place.height()
            part = QRectF(
                (visible.left() - place.left()) * scale_x,
                (visible.top() - place.top()) * scale_y,
                visible.width() * scale_x,
                visible.height() * scale_y,
            )
            painter.drawImage(visible, level, part)
        if self.hasFocus():
            painter.setPen(current_theme().colour("accent"))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))

    def resizeEvent(self, _event: QResizeEvent) -> None:
        """A fitted picture stays fitted."""
        if self._fitted:
            self.fit()
        else:
            self._keep_in_view()

    def wheelEvent(self, event: QWheelEvent) -> None:
        """Zoom around the pointer."""
        turns = event.angleDelta().y() / 120
        if turns:
            self.zoom_by(STEP**turns, event.position())
        event.accept()

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Take hold of the picture."""
        if event.button() == Qt.MouseButton.LeftButton:
            self._grabbed = event.position().toPoint()
            self.setCursor(Qt.CursorShape.ClosedHandCursor)

    def mouseMoveEvent(self, event: QMouseEvent) -> None:
        """Drag it."""
        if self._grabbed is not None:
            here = event.position().toPoint()
            self._pan(QPointF(here - self._grabbed))
            self._grabbed = here

    def mouseReleaseEvent(self, event: QMouseEvent) -> None:
        """Let go."""
        self._grabbed = None
        self.unsetCursor()
        event.accept()

    def mouseDoubleClickEvent(self, event: QMouseEvent) -> None:
        """Between fitted and actual size."""
        if self._fitted:
            self.zoom_by(1.0 / self._zoom, event.position())
        else:
            self.fit()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Plus and minus zoom, 0 fits, 1 is actual size, arrows pan."""
        pans = {
            Qt.Key.Key_Left: QPointF(_PAN_STEP, 0),
            Qt.Key.Key_Right: QPointF(-_PAN_STEP, 0),
            Qt.Key.Key_Up: QPointF(0, _PAN_STEP),
            Qt.Key.Key_Down: QPointF(0, -_PAN_STEP),
        }
        key = Qt.Key(event.key())
        if key in (Qt.Key.Key_Plus, Qt.Key.Key_Equal):
            self.zoom_by(STEP)
        elif key == Qt.Key.Key_Minus:
            self.zoom_by(1 / STEP)
        elif key == Qt.Key.Key_0:
            self.fit()
        elif key == Qt.Key.Key_1:
            self.actual_size()
        elif key in pans and not event.modifiers():
            self._pan(pans[key])
        else:
            super().keyPressEvent(event)

    def _pan(self, by: QPointF) -> None:
        self._offset += by
        self._keep_in_view()
        self.update()
