"""One recording: what it is, its timeline, statistics of the selected stretch, and a request step by step."""

from __future__ import annotations

from PySide6.QtCore import QSize, Qt, Signal, Slot
from PySide6.QtGui import QKeyEvent
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMenu, QSplitter, QStackedWidget, QVBoxLayout, QWidget

from mblt_desktop.tracing import words
from mblt_desktop.tracing.analysis import Analyst, Answer
from mblt_desktop.tracing.breakdown_panel import BreakdownPanel
from mblt_desktop.tracing.statistics_panel import StatisticsPanel
from mblt_desktop.tracing.timeline import HELP, Timeline
from mblt_desktop.widgets import (
    Button,
    Chip,
    ElidedLabel,
    EmptyState,
    Facts,
    Label,
    Page,
    PrimaryButton,
    SearchField,
)
from runtime.messages import RecordingInfo
from runtime.tracing.analyse import Hits, requests_with_steps
from runtime.tracing.view import TraceView

EXPORTS = (
    ("Chrome JSON (.json)…", ".json"),
    ("Chrome JSON, packed (.json.gz)…", ".json.gz"),
    ("Copy of the recording (.pftrace)…", ".pftrace"),
)
_LEAST_TITLE = 80
_SIMULATED_TIP = "Computed by this computer's processor: these are not times of the hardware."


class RecordingPage(Page):
    """Shows a `TraceView`; what to do with the file is the pane's business."""

    export_chosen = Signal(str)
    """The suffix of the wanted format."""
    perfetto_clicked = Signal()

    def __init__(self) -> None:
        super().__init__()
        self.analyst = Analyst(self)
        self.timeline = Timeline()
        self.statistics = StatisticsPanel()
        self.breakdown = BreakdownPanel()
        self._hits: Hits | None = None
        self._place = -1
        self._go_at_once = False
        self._build_header()
        self._build_body()
        self.timeline.range_changed.connect(self.analyst.count)
        self.timeline.span_selected.connect(self._on_span_selected)
        self.analyst.counted.connect(self._on_counted)
        self.analyst.broken_down.connect(self.breakdown.show_breakdown)
        self.analyst.found.connect(self._on_found)
        self.breakdown.request_chosen.connect(self.analyst.break_down)
        self.breakdown.step_activated.connect(self._on_step_activated)
        self.statistics.table.name_activated.connect(self._on_name_activated)
        self.show_nothing("Choose a recording in the list.")

    def _build_header(self) -> None:
        self.device, self.clock, self.private = Chip(), Chip(), Chip()
        self.facts = Facts(self.device, self.clock, self.private)
        self.header.add_left(self.facts)
        self.private.setToolTip("The text of prompts, answers and transcripts is never recorded.")
        self.search = SpanSearch("Find a span")
        self.search.setMinimumWidth(100)
        self.search.setMaximumWidth(180)
        self.search.textChanged.connect(self._on_search_changed)
        self.search.next_wanted.connect(self._on_search_next)
        self.search.previous_wanted.connect(self._on_search_previous)
        self.hits = Label("", "muted", "small", tabular=True)
        self.export_button = Button("Export")
        self.export_button.setProperty("menu", True)
        menu = QMenu(self.export_button)
        for title, suffix in EXPORTS:
            menu.addAction(title).setData(suffix)
        menu.triggered.connect(lambda action: self.export_chosen.emit(action.data()))
        self.export_button.setMenu(menu)
        self.perfetto = PrimaryButton("Open in Perfetto")
        self.perfetto.clicked.connect(self.perfetto_clicked)
        for widget in (self.hits, self.search, self.export_button, self.perfetto):
            self.header.add_right(widget)

    def _build_body(self) -> None:
        self._build_notes()
        self._build_split()
        shown = QWidget()
        column = QVBoxLayout(shown)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._notes_holder)
        column.addWidget(self._split, 1)
        foot = QFrame()
        foot.setProperty("role", "footer")
        foot_row = QHBoxLayout(foot)
        foot_row.setContentsMargins(20, 4, 20, 4)
        foot_row.addWidget(ElidedLabel(HELP, "muted", "small"))
        column.addWidget(foot)
        self.nothing = EmptyState("tracing", "", "")
        self._stack = QStackedWidget()
        self._stack.addWidget(self.nothing)
        self._stack.addWidget(shown)
        self.set_body(self._stack)

    def _build_notes(self) -> None:
        self.notes = QFrame()
        self.notes.setProperty("role", "banner-info")
        notes_row = QVBoxLayout(self.notes)
        notes_row.setContentsMargins(12, 6, 12, 6)
        self._notes_text = Label("", "muted", "small", wrap=True)
        notes_row.addWidget(self._notes_text)
        self._notes_holder = QWidget()
        holder_row = QHBoxLayout(self._notes_holder)
        holder_row.setContentsMargins(16, 8, 16, 8)
        holder_row.addWidget(self.notes)

    def _build_split(self) -> None:
        lower = QSplitter(Qt.Orientation.Horizontal)
        lower.addWidget(self.statistics)
        lower.addWidget(self.breakdown)
        lower.setStretchFactor(0, 2)
        lower.setStretchFactor(1, 1)
        lower.setSizes([740, 380])
        lower.setChildrenCollapsible(False)
        self._split = QSplitter(Qt.Orientation.Vertical)
        self._split.addWidget(self.timeline)
        self._split.addWidget(lower)
        self._split.setChildrenCollapsible(False)
        self._split.setStretchFactor(1, 1)
        self.timeline.setMinimumHeight(120)
        lower.setMinimumHeight(180)

    # -- showing ---------------------------------------------------------------------------------

    def show_nothing(self, text: str) -> None:
        """Show words instead of a recording."""
        self._show_view(None)
        self.header.set_title("Tracing")
        self.nothing.title.setText(text)
        self._stack.setCurrentIndex(0)

    def show_info(self, info: RecordingInfo) -> None:
        """Name the recording while it is being read."""
        self.show_nothing("Reading the recording…")
        self.header.set_title(info.title, _LEAST_TITLE)

    def show_view(self, info: RecordingInfo, view: TraceView) -> None:
        """Show a recording."""
        self.header.set_title(info.title, _LEAST_TITLE)
        self._stack.setCurrentIndex(1)
        self._show_view(view)
        self._fit_timeline()
        self.analyst.count(0.0, float(view.duration_ns))
        for request in requests_with_steps(view)[:1]:
            self.analyst.break_down(request)

    def sizeHint(self) -> QSize:
        """Qt: takes what there is."""
        return QSize(900, 640)

    def _show_view(self, view: TraceView | None) -> None:
        self.analyst.set_view(view)
        self.timeline.set_view(view)
        self.breakdown.set_view(view)
        self.search.clear()
        self._hits = None
        shown = view is not None
        for widget in (self.search, self.hits, self.export_button, self.perfetto):
            widget.setVisible(shown)
        if view is None:
            self.facts.show_texts("", "", "")
        else:
            self.facts.show_texts(view.metadata.device, words.clock_chip(view.metadata), "no text inside")
            self.device.setToolTip(_SIMULATED_TIP if view.metadata.simulated else "")
        notes = view.notes if view is not None else ()
        self._notes_text.setText("\n".join(notes))
        self._notes_holder.setVisible(bool(notes))

    def _fit_timeline(self) -> None:
        """All rows when they fit into the upper part, else two thirds of the height."""
        whole = max(self._split.height(), 400)
        wanted = min(self.timeline.content_height() + 12, whole * 6 // 10)
        self._split.setSizes([wanted, whole - wanted])

    # -- slots -----------------------------------------------------------------------------------

    @Slot(object)
    def _on_counted(self, answer: Answer) -> None:
        self.statistics.show_answer(answer, whole=self.timeline.selection is None)

    @Slot(int, int)
    def _on_span_selected(self, track: int, span: int) -> None:
        view = self.timeline.view
        if view is None or track < 0:
            return
        request = int(view.tracks[track].request[span])
        if request >= 0:
            self.analyst.break_down(request)

    @Slot(int, int)
    def _on_step_activated(self, low: int, high: int) -> None:
        self.timeline.select_range(low, high)
        margin = (high - low) * 2
        if high - low < 20 * self.timeline.scale.ns_per_pixel:
            self.timeline.show_time(low - margin, high + margin)

    @Slot(str)
    def _on_name_activated(self, name: str) -> None:
        self._go_at_once = True
        self.search.setText(name)

    @Slot(str)
    def _on_search_changed(self, text: str) -> None:
        self._hits = None
        self.hits.setText("")
        if text.strip():
            self.analyst.search(text)

    @Slot(object)
    def _on_found(self, hits: Hits) -> None:
        self._hits = hits
        self._place = -1
        self.hits.setText(f"{len(hits.span):,} found")
        if self._go_at_once:
            self._go(1)
        self._go_at_once = False

    @Slot()
    def _on_search_next(self) -> None:
        self._go(1)

    @Slot()
    def _on_search_previous(self) -> None:
        self._go(-1)

    def _go(self, by: int) -> None:
        if self._hits is None or not len(self._hits.span):
            return
        count = len(self._hits.span)
        self._place = (self._place + by) % count if self._place >= 0 else (0 if by > 0 else count - 1)
        self.hits.setText(f"{self._place + 1:,} of {count:,}")
        self.timeline.reveal(int(self._hits.track[self._place]), int(self._hits.span[self._place]))


class SpanSearch(SearchField):
    """Enter goes to the next hit, Shift+Enter to the previous one."""

    next_wanted = Signal()
    previous_wanted = Signal()

    def keyPressEvent(self, event: QKeyEvent) -> None:
        """Qt: everything else edits the text."""
        if event.key() not in (Qt.Key.Key_Return, Qt.Key.Key_Enter):
            super().keyPressEvent(event)
        elif event.modifiers() & Qt.KeyboardModifier.ShiftModifier:
            self.previous_wanted.emit()
        else:
            self.next_wanted.emit()
