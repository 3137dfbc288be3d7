"""Where each token's time went: one bar per step of a request, and what the phases add up to."""

from __future__ import annotations

from PySide6.QtCore import QEvent, QRectF, QSize, Qt, Signal, Slot
from PySide6.QtGui import QColor, QHelpEvent, QKeyEvent, QMouseEvent, QPainter, QPaintEvent, QPen
from PySide6.QtWidgets import QComboBox, QFrame, QGridLayout, QSizePolicy, QToolTip, QVBoxLayout, QWidget

from mblt_desktop.theme import current_theme, theme_manager
from mblt_desktop.tracing import words
from mblt_desktop.widgets import Dot, Label, Scrolled
from runtime.tracing.analyse import PHASES, Phase, RequestBreakdown, Step
from runtime.tracing.view import TraceView

PHASE_TITLES: dict[Phase, str] = {
    "run": "NPU run",
    "move": "Copies and waits",
    "sample": "Sampling",
    "host": "Host gap",
}
PHASE_TRACKS: dict[Phase, int] = {"run": 0, "move": 2, "sample": 3, "host": 4}
_HEIGHT = 104
_WIDEST_BAR = 10.0


class StepBars(QWidget):
    """Stacked bars, one per step; a click, or Enter, goes to the step."""

    step_activated = Signal(int)

    def __init__(self) -> None:
        super().__init__()
        self.setFixedHeight(_HEIGHT)
        self.setSizePolicy(QSizePolicy.Policy.Expanding, QSizePolicy.Policy.Fixed)
        self.setFocusPolicy(Qt.FocusPolicy.StrongFocus)
        self.setAccessibleName("Time of each step by phase")
        self._steps: tuple[Step, ...] = ()
        self.current = -1
        theme_manager().changed.connect(self._on_theme_changed)

    def set_steps(self, steps: tuple[Step, ...]) -> None:
        """Show other steps."""
        self._steps = steps
        self.current = -1
        self.update()

    def sizeHint(self) -> QSize:
        """As wide as there is room."""
        return QSize(320, _HEIGHT)

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw the bars; with more steps than pixels, the longest of each pixel."""
        painter = QPainter(self)
        theme = current_theme()
        highest = max((step.total for step in self._steps), default=0)
        if highest == 0:
            return
        pitch = self._pitch()
        last_column = -1
        for number, step in enumerate(self._steps):
            left = number * pitch
            if pitch < 1 and int(left) == last_column:
                continue
            last_column = int(left)
            bottom = float(self.height())
            width = max(1.0, pitch - 1) if pitch > 2 else max(1.0, pitch)
            for phase in PHASES:
                height = (self.height() - 4) * step.phases[phase] / highest
                bar = QRectF(left, bottom - height, width, height)
                painter.fillRect(bar, QColor(theme.tracks[PHASE_TRACKS[phase]]))
                bottom -= height
            if number == self.current:
                painter.setPen(QPen(theme.colour("text"), 1))
                painter.drawRect(QRectF(left - 0.5, bottom - 1, width, self.height() - bottom))
        if self.hasFocus():
            painter.setPen(theme.colour("accent"))
            painter.drawRect(self.rect().adjusted(0, 0, -1, -1))

    def event(self, event: QEvent) -> bool:
        """Say what a bar is."""
        if event.type() == QEvent.Type.ToolTip and isinstance(event, QHelpEvent):
            number = self._step_at(event.pos().x())
            QToolTip.showText(event.globalPos(), self.step_words(number) if number is not None else "", self)
            return True
        return super().event(event)

    def mousePressEvent(self, event: QMouseEvent) -> None:
        """Go to the step that was clicked."""
        number = self._step_at(event.position().x())
        if number is not None:
            self._go(number)

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Left and right go from step to step."""
        move = {Qt.Key.Key_Left: -1, Qt.Key.Key_Right: 1}.get(Qt.Key(event.key()))
        if move is None or not self._steps:
            super().keyPressEvent(event)
            return
        self._go(min(max(0, self.current + move), len(self._steps) - 1))

    def step_words(self, number: int) -> str:
        """A step in words, one phase per line."""
        step = self._steps[number]
        lines = [f"Step {number + 1}: {words.duration(step.total)}"]
        lines.extend(f"{PHASE_TITLES[phase]}: {words.duration(step.phases[phase])}" for phase in PHASES)
        return "\n".join(lines)

    def _go(self, number: int) -> None:
        self.current = number
        self.setAccessibleDescription(self.step_words(number))
        self.update()
        self.step_activated.emit(number)

    def _pitch(self) -> float:
        return min(_WIDEST_BAR, self.width() / max(1, len(self._steps)))

    def _step_at(self, x: float) -> int | None:
        number = int(x // self._pitch())
        return number if 0 <= number < len(self._steps) else None

    @Slot()
    def _on_theme_changed(self) -> None:
        self.update()


class BreakdownPanel(QFrame):
    """Pick a request; see its steps, the middle step by phase, and what stands out in words."""

    request_chosen = Signal(int)
    """Index into the view's requests."""
    step_activated = Signal(int, int)
    """From and to in ns."""

    def __init__(self) -> None:
        super().__init__()
        self.setProperty("role", "panel-right")
        content = QWidget()
        column = QVBoxLayout(content)
        column.setContentsMargins(16, 12, 16, 12)
        column.setSpacing(10)
        self.requests = QComboBox()
        self.requests.setAccessibleName("Request")
        self.requests.setSizeAdjustPolicy(QComboBox.SizeAdjustPolicy.AdjustToMinimumContentsLengthWithIcon)
        self.heading = Label("Where the time went", size="title", bold=True)
        self.bars = StepBars()
        self.values: dict[Phase, Label] = {}
        legend = QGridLayout()
        legend.setHorizontalSpacing(8)
        legend.setVerticalSpacing(6)
        legend.setColumnStretch(1, 1)
        self._dots: dict[Phase, _TrackDot] = {}
        for row, phase in enumerate(PHASES):
            self._dots[phase] = _TrackDot(PHASE_TRACKS[phase])
            self.values[phase] = Label("", tabular=True)
            legend.addWidget(self._dots[phase], row, 0)
            legend.addWidget(Label(PHASE_TITLES[phase]), row, 1)
            legend.addWidget(self.values[phase], row, 2, Qt.AlignmentFlag.AlignRight)
        self.legend = QWidget()
        self.legend.setLayout(legend)
        legend.setContentsMargins(0, 0, 0, 0)
        self.comment = Label("", "muted", wrap=True)
        for widget in (self.heading, self.requests, self.bars, self.legend, self.comment):
            column.addWidget(widget)
        column.addStretch(1)
        outer = QVBoxLayout(self)
        outer.setContentsMargins(0, 0, 0, 0)
        outer.addWidget(Scrolled(content))
        self.setMinimumWidth(220)
        self._found: RequestBreakdown | None = None
        self._simulated = False
        self.requests.activated.connect(self.request_chosen)
        self.bars.step_activated.connect(self._on_step_activated)

    def set_view(self, view: TraceView | None) -> None:
        """Offer the requests of another recording."""
        self.requests.clear()
        for request in view.requests if view is not None else ():
            self.requests.addItem(request.title)
        self.requests.setVisible(self.requests.count() > 1)
        self._simulated = view is not None and view.metadata.simulated
        self.show_breakdown(None)

    def show_breakdown(self, found: RequestBreakdown | None) -> None:
        """Show a request's steps, or say that there are none."""
        self._found = found
        for widget in (self.bars, self.legend):
            widget.setVisible(found is not None)
        if found is None:
            self.heading.setText("Where the time went")
            self.comment.setText(
                "Select a request with decode steps or transcription windows to see them one by one."
            )
            self.bars.set_steps(())
            return
        title = self.requests.itemText(found.request)
        unit = "token" if found.step_name == "decode step" else "window"
        self.requests.setCurrentIndex(found.request)
        self.heading.setText(f"{title}, per {unit}" if self.requests.count() == 1 else f"Per {unit}")
        self.bars.set_steps(found.steps)
        for phase, label in self.values.items():
            label.setText(words.duration(found.median(phase)))
        self.legend.setToolTip(f"The middle one of {len(found.steps)} {unit}s")
        told = " The NPU is simulated: its times are this computer's." if self._simulated else ""
        self.comment.setText(words.unbroken(comment(found, unit) + told))

    @Slot(int)
    def _on_step_activated(self, number: int) -> None:
        if self._found is not None:
            step = self._found.steps[number]
            self.step_activated.emit(step.start, step.start + step.total)


class _TrackDot(Dot):
    """A dot in one of the theme's track colours."""

    def __init__(self, track: int) -> None:
        super().__init__()
        self._track = track

    def paintEvent(self, _event: QPaintEvent) -> None:
        """Draw it."""
        painter = QPainter(self)
        painter.setRenderHint(QPainter.RenderHint.Antialiasing)
        painter.setPen(Qt.PenStyle.NoPen)
        painter.setBrush(QColor(current_theme().tracks[self._track]))
        painter.drawRoundedRect(self.rect(), 2, 2)


def comment(found: RequestBreakdown, unit: str) -> str:
    """What stands out: the slowest step, and who had the time."""
    number, slowest = max(enumerate(found.steps), key=lambda item: item[1].total)
    phase = max(PHASES, key=lambda name: slowest.phases[name] - found.median(name))
    extra = slowest.phases[phase] - found.median(phase)
    npu, host = found.share("run"), found.share("host")
    lines = [f"NPU time is {words.share(npu)} of these {unit}s; the host adds {words.share(host)}."]
    if extra > 0 and len(found.steps) > 2:
        lines.insert(
            0,
            f"The slowest, {unit} {number + 1}, took {words.duration(slowest.total)}: "
            f"{PHASE_TITLES[phase]} had {words.duration(extra)} more than usual.",
        )
    return " ".join(lines)
