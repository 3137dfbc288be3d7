"""The cores of the board as a picture to choose from, with mouse or keyboard."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Literal

from PySide6.QtCore import QPoint, QRect, QRectF, QSize, Qt, Signal
from PySide6.QtGui import (
    QAccessible,
    QAccessibleEvent,
    QFocusEvent,
    QKeyEvent,
    QMouseEvent,
    QPainter,
    QPaintEvent,
    QPen,
)
from PySide6.QtWidgets import QSizePolicy, QWidget

from mblt_desktop.theme import current_theme, font, theme_manager

Grain = Literal["core", "cluster", "none"]

GRAINS: dict[str, Grain] = {
    "auto": "none",
    "single": "core",
    "multi": "cluster",
    "global4": "cluster",
    "global8": "cluster",
}
"""What can be chosen in each core mode."""

CELL = 44
GAP = 8
PAD = 12
HEADING = 24
_COLUMNS = 2


class CoreMap(QWidget):
    """Devices, clusters and cores. Choosing nothing means that all may be used."""

    chosen_changed = Signal(object)
    """The chosen items as a tuple of `d:c:k` or `d:c`, by the grain."""

    def __init__(self) -> None:
        super().__init__()
        self._devices, self._clusters, self._cores = 1, 2, 4
        self._grain: Grain = "none"
        self._chosen: frozenset[str] = frozenset()
        self._running: frozenset[str] = frozenset()
        self._current = 0
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setSizePolicy(QSizePolicy.Policy.Fixed, QSizePolicy.Policy.Fixed)
        self.setAccessibleName("Map of the cores")
        theme_manager().changed.connect(self.update)
        self._describe()

    def set_board(self, devices: int, clusters: int, cores: int) -> None:
        """What there is: devices, clusters of each, cores of each cluster."""
        self._devices, self._clusters, self._cores = devices, clusters, cores
        self._current = min(self._current, len(self._items()) - 1)
        self.updateGeometry()
        self._describe()
        self.update()

    def set_grain(self, grain: Grain) -> None:
        """Whether single cores, whole clusters or nothing can be chosen."""
        self._grain = grain
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus if grain == "none" else Qt.FocusPolicy.StrongFocus)
        self._describe()
        self.update()

    def set_chosen(self, items: Iterable[str]) -> None:
        """The chosen cores or clusters; what names none of this board is left out."""
        self._chosen = frozenset(items)
        self._describe()
        self.update()

    def set_running(self, cores: Iterable[str]) -> None:
        """Cores that the loaded model runs on, as `d:c:k`."""
        self._running = frozenset(cores)
        self.update()

    @property
    def grain(self) -> Grain:
        """What can be chosen now."""
        return self._grain

    @property
    def chosen(self) -> tuple[str, ...]:
        """The chosen items that this board has, in its order."""
        names = dict.fromkeys(self._name(item) for item in self._items())
        return tuple(name for name in names if name in self._chosen)

    # -- geometry --------------------------------------------------------------------------------

    def _items(self) -> list[tuple[int, int, int]]:
        return [
            (device, cluster, core)
            for device in range(self._devices)
            for cluster in range(self._clusters)
            for core in range(self._cores)
        ]

    def _name(self, item: tuple[int, int, int]) -> str:
        """The item's name in the current grain."""
        parts = item if self._grain == "core" else item[:2]
        return ":".join(str(part) for part in parts)

    def _cluster_size(self) -> QSize:
        columns = min(_COLUMNS, self._cores)
        lines = -(-self._cores // _COLUMNS)
        return QSize(
            2 * PAD + columns * CELL + (columns - 1) * GAP,
            HEADING + PAD + lines * CELL + (lines - 1) * GAP,
        )

    def _cluster_rect(self, device: int, cluster: int) -> QRect:
        size = self._cluster_size()
        return QRect(
            QPoint(cluster * (size.width() + PAD), HEADING + device * (size.height() + HEADING + GAP)), size
        )

    def _core_rect(self, item: tuple[int, int, int]) -> QRect:
        device, cluster, core = item
        corner = self._cluster_rect(device, cluster).topLeft() + QPoint(PAD, HEADING)
        line, column = divmod(core, _COLUMNS)
        return QRect(corner + QPoint(column * (CELL + GAP), line * (CELL + GAP)), QSize(CELL, CELL))

    def sizeHint(self) -> QSize:
        """Just large enough for everything."""
        last = self._cluster_rect(self._devices - 1, self._clusters - 1)
        return QSize(last.right() + 2, last.bottom() + 2)

    # -- choosing --------------------------------------------------------------------------------

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Choose or release what was pressed."""
        if self._grain == "none" or event.button() != Qt.MouseButton.LeftButton:
            return
        place = event.position().toPoint()
        for index, item in enumerate(self._items()):
            inside = self._core_rect(item) if self._grain == "core" else self._cluster_rect(*item[:2])
            if inside.contains(place):
                self._current = index
                self._toggle()
                return

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Arrows move, Space and Enter choose or release."""
        moves = {
            Qt.Key.Key_Left: (-1, 0),
            Qt.Key.Key_Right: (1, 0),
            Qt.Key.Key_Up: (0, -1),
            Qt.Key.Key_Down: (0, 1),
        }
        key = Qt.Key(event.key())
        if self._grain == "none":
            super().keyPressEvent(event)
        elif key in (Qt.Key.Key_Space, Qt.Key.Key_Return, Qt.Key.Key_Enter):
            self._toggle()
        elif key in moves:
            self._move(*moves[key])
        else:
            super().keyPressEvent(event)

    def focusInEvent(self, event: QFocusEvent) -> None:
        """Show where the keyboard is."""
        super().focusInEvent(event)
        self.update()

    def focusOutEvent(self, event: QFocusEvent) -> None:
        """No longer show it."""
        super().focusOutEvent(event)
        self.update()

    def _move(self, right: int, down: int) -> None:
        """Go to the nearest item in that direction, if there is one."""
        items = self._items()
        here = self._place(items[self._current])
        best: tuple[int, int] | None = None
        for index, item in enumerate(items):
            delta = self._place(item) - here
            along = delta.x() * right + delta.y() * down
            across = abs(delta.x() * down) + abs(delta.y() * right)
            if along > 0 and (best is None or along + 2 * across < best[0]):
                best = (along + 2 * across, index)
        if best is not None:
            self._current = best[1]
            self._describe()
            self.update()

    def _place(self, item: tuple[int, int, int]) -> QPoint:
        if self._grain == "cluster":
            return self._cluster_rect(*item[:2]).center()
        return self._core_rect(item).center()

    def _toggle(self) -> None:
        name = self._name(self._items()[self._current])
        self._chosen ^= {name}
        self._describe()
        self.update()
        self.chosen_changed.emit(self.chosen)

    def _describe(self) -> None:
        """Say in words what the picture shows."""
        device, cluster, core = self._items()[self._current]
        where = f"Device {device}, cluster {cluster}"
        if self._grain == "core":
            where += f", core {core}"
        state = "chosen" if self._name((device, cluster, core)) in self._chosen else "not chosen"
        nothing = (
            "the NPU software picks the cores" if self._grain == "none" else "none chosen: all may be used"
        )
        together = f"chosen: {', '.join(self.chosen)}" if self.chosen and self._grain != "none" else nothing
        words = together if self._grain == "none" else f"{where}, {state}; {together}"
        if words != self.accessibleDescription():
            self.setAccessibleDescription(words)
            QAccessible.updateAccessibility(QAccessibleEvent(self, QAccessible.Event.DescriptionChanged))

    # -- painting --------------------------------------------------------------------------------

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the board."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setFont(font("small"))
        for device in range(self._devices):
            for cluster in range(self._clusters):
                self._draw_cluster(painter, device, cluster)
        for index, item in enumerate(self._items()):
            self._draw_core(painter, item, index)

    def _draw_cluster(self, painter: QPainter, device: int, cluster: int) -> None:
        theme = current_theme()
        rect = QRectF(self._cluster_rect(device, cluster)).adjusted(0.5, 0.5, -0.5, -0.5)
        if cluster == 0:
            painter.setPen(theme.colour("muted"))
            heading = QRectF(rect.left(), rect.top() - HEADING, 200, HEADING - 4)
            painter.drawText(heading, int(Qt.AlignmentFlag.AlignBottom), f"Device {device}")
        chosen = self._grain == "cluster" and f"{device}:{cluster}" in self._chosen
        current = self._items()[self._current][:2] == (device, cluster)
        focused = self.hasFocus() and self._grain == "cluster" and current
        painter.setBrush(theme.colour("accent_soft" if chosen else "bg"))
        painter.setPen(QPen(theme.colour("accent" if chosen or focused else "border"), 2 if focused else 1))
        painter.drawRoundedRect(rect, 8, 8)
        painter.setPen(theme.colour("accent" if chosen else "muted"))
        title = QRectF(rect.left() + PAD, rect.top(), rect.width() - PAD, HEADING)
        painter.drawText(title, int(Qt.AlignmentFlag.AlignVCenter), f"Cluster {cluster}")

    def _draw_core(self, painter: QPainter, item: tuple[int, int, int], index: int) -> None:
        theme = current_theme()
        rect = QRectF(self._core_rect(item)).adjusted(0.5, 0.5, -0.5, -0.5)
        chosen = self._grain != "none" and self._name(item) in self._chosen
        focused = self.hasFocus() and self._grain == "core" and index == self._current
        painter.setBrush(theme.colour("accent" if chosen else "raised"))
        painter.setPen(
            QPen(theme.colour("text" if focused else "accent" if chosen else "border"), 2 if focused else 1)
        )
        painter.drawRoundedRect(rect, 6, 6)
        faded = self._grain == "none"
        painter.setPen(theme.colour("on_accent" if chosen else "faint" if faded else "text"))
        painter.drawText(rect, int(Qt.AlignmentFlag.AlignCenter), str(item[2]))
        if ":".join(str(part) for part in item) in self._running:
            painter.setPen(QPen(theme.colour("surface"), 1.5))
            painter.setBrush(theme.colour("ok"))
            painter.drawEllipse(QRectF(rect.right() - 13, rect.top() + 4, 9, 9))
