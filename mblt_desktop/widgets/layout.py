"""The frame of a pane: side panels, header bar, body, empty state."""

from __future__ import annotations

from typing import Literal

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtGui import QResizeEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QLabel, QScrollArea, QVBoxLayout, QWidget

from mblt_desktop.theme import current_theme, pixmap, theme_manager
from mblt_desktop.widgets.basics import Chip, ElidedLabel, Label, PrimaryButton, Tone

HEADER_HEIGHT = 48
EMPTY_WIDTH = 460
_PANEL_TOP = 12
_GAP = 8


class HeaderBar(QFrame):
    """A pane's title on the left, its facts beside it, its actions on the right."""

    def __init__(self, title: str = "") -> None:
        super().__init__()
        self.setProperty("role", "bar")
        self.setFixedHeight(HEADER_HEIGHT)
        row = QHBoxLayout(self)
        row.setContentsMargins(20, 0, 16, 0)
        row.setSpacing(8)
        self._title = ElidedLabel(title, size="title", bold=True)
        self._left = QHBoxLayout()
        self._left.setSpacing(8)
        self._right = QHBoxLayout()
        self._right.setSpacing(8)
        row.addWidget(self._title)
        row.addSpacing(4)
        row.addLayout(self._left)
        row.addStretch(1)
        row.addLayout(self._right)

    @property
    def title(self) -> str:
        """The heading."""
        return self._title.text()

    def set_title(self, title: str, least: int = 96) -> None:
        """Change the heading; in a narrow window it is cut, but not below `least` pixels."""
        self._title.setText(title)
        self._title.setMinimumWidth(min(least, self._title.fontMetrics().horizontalAdvance(title) + 2))

    def add_left(self, widget: QWidget) -> None:
        """Put a widget beside the title."""
        self._left.addWidget(widget)

    def add_chip(self, text: str) -> Chip:
        """Put a short fact beside the title."""
        chip = Chip(text)
        self.add_left(chip)
        return chip

    def add_right(self, widget: QWidget) -> None:
        """Put an action at the right end."""
        self._right.addWidget(widget)


class Facts(QWidget):
    """Chips side by side in a header; those for which a narrow window has no room are left out."""

    def __init__(self, *chips: Chip) -> None:
        super().__init__()
        self._chips = chips
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.setSpacing(_GAP)
        row.setSizeConstraint(QHBoxLayout.SizeConstraint.SetNoConstraint)
        for chip in chips:
            row.addWidget(chip)
        row.addStretch(1)

    def show_texts(self, *texts: str, dot: Tone | None = None) -> None:
        """What each chip says, the first with a dot of this tone; one without words does not show."""
        for place, chip in enumerate(self._chips):
            text = texts[place] if place < len(texts) else ""
            chip.set_text(text, dot if place == 0 else None)
        self.updateGeometry()
        self._choose()

    def sizeHint(self) -> QSize:
        """Qt: room for all chips, also those left out now."""
        return QSize(sum(self._widths()), super().sizeHint().height())

    def minimumSizeHint(self) -> QSize:
        """Qt: may go altogether."""
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """A chip is shown whole or not at all."""
        super().resizeEvent(event)
        self._choose()

    def _widths(self) -> list[int]:
        return [chip.sizeHint().width() + _GAP if chip.text else 0 for chip in self._chips]

    def _choose(self) -> None:
        right = 0
        for chip, width in zip(self._chips, self._widths(), strict=True):
            right += width
            chip.setVisible(width > 0 and right <= self.width())


class Page(QWidget):
    """A header bar above a body. Side panels stand beside a Page, not in it."""

    def __init__(self, title: str = "") -> None:
        super().__init__()
        self.setProperty("role", "page")
        self.setAttribute(Qt.WidgetAttribute.WA_StyledBackground)
        self._column = QVBoxLayout(self)
        self._column.setContentsMargins(0, 0, 0, 0)
        self._column.setSpacing(0)
        self.header = HeaderBar()
        self.header.set_title(title)
        self._column.addWidget(self.header)
        self._body: QWidget | None = None

    def set_body(self, body: QWidget) -> None:
        """The widget under the header; replaces a former one."""
        if self._body is not None:
            self._column.removeWidget(self._body)
            self._body.hide()
            self._body.setParent(None)
        self._body = body
        self._column.insertWidget(1, body, 1)
        body.show()

    def add_footer(self, footer: QWidget) -> None:
        """A widget under the body."""
        self._column.addWidget(footer)


class SidePanel(QFrame):
    """A panel of fixed width at the left or right edge of a pane; add widgets to `column`."""

    def __init__(self, width: int = 248, side: Literal["left", "right"] = "left", title: str = "") -> None:
        super().__init__()
        self.setProperty("role", "panel" if side == "left" else "panel-right")
        self.setFixedWidth(width)
        self.column = QVBoxLayout(self)
        self.column.setContentsMargins(16, _PANEL_TOP, 16, 12)
        self.column.setSpacing(8)
        if title:
            heading = Label(title, size="title", bold=True)
            # In line with the title of the page beside it.
            heading.setFixedHeight(HEADER_HEIGHT - 2 * _PANEL_TOP)
            self.column.addWidget(heading)


class Section(Label):
    """The small heading of a group inside a panel."""

    def __init__(self, text: str) -> None:
        super().__init__(text, "muted", "small", bold=True)


class Scrolled(QScrollArea):
    """Shows a widget with a vertical scroll bar when it is taller than the place there is."""

    def __init__(self, content: QWidget) -> None:
        super().__init__()
        self.setWidgetResizable(True)
        self.setFrameShape(QFrame.Shape.NoFrame)
        self.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        self.setFocusPolicy(Qt.FocusPolicy.NoFocus)
        self.setWidget(content)


class EmptyState(QWidget):
    """What a pane shows before there is anything: what to do here, and one sample to try."""

    action_clicked = Signal()

    def __init__(self, icon_name: str, title: str, text: str, action: str = "") -> None:
        super().__init__()
        self._icon_name = icon_name
        # Fixed measure: a wrapped label only knows its height when its width does not depend on it.
        self._middle = QWidget()
        self._middle.setFixedWidth(EMPTY_WIDTH)
        column = QVBoxLayout(self._middle)
        column.setContentsMargins(0, 24, 0, 24)
        column.setSpacing(12)
        self._picture = QLabel()
        self.title = Label(title, size="title", bold=True, wrap=True)
        self.text = Label(text, "muted", wrap=True)
        self.button = PrimaryButton(action)
        self.button.setVisible(bool(action))
        self.button.clicked.connect(self.action_clicked)
        self.extra = QVBoxLayout()
        """Room for a pane's own widgets under the button."""
        column.addStretch(1)
        for label in (self._picture, self.title, self.text):
            label.setAlignment(Qt.AlignmentFlag.AlignHCenter)
            column.addWidget(label)
        column.addWidget(self.button, 0, Qt.AlignmentFlag.AlignHCenter)
        column.addLayout(self.extra)
        column.addStretch(2)
        row = QHBoxLayout(self)
        row.setContentsMargins(0, 0, 0, 0)
        row.addWidget(self._middle, 1)
        self._draw()
        theme_manager().changed.connect(self._draw)

    def minimumSizeHint(self) -> QSize:
        """Qt: the words fit themselves into what there is."""
        return QSize(0, super().minimumSizeHint().height())

    def resizeEvent(self, event: QResizeEvent) -> None:
        """In a narrow window the words are set narrower, with room at both sides."""
        super().resizeEvent(event)
        self._middle.setFixedWidth(min(EMPTY_WIDTH, max(120, self.width() - 32)))

    def set_action(self, text: str) -> None:
        """Name the button, or hide it with an empty text."""
        self.button.setText(text)
        self.button.setVisible(bool(text))

    @Slot()
    def _draw(self) -> None:
        self._picture.setPixmap(pixmap(self._icon_name, current_theme().faint, 40))
