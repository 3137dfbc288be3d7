"""The main side of the pane: header, waveform with playback, the text, and what can be done with it."""

from __future__ import annotations

from pathlib import Path

from PySide6.QtCore import Qt, Signal, Slot
from PySide6.QtGui import QAction, QKeySequence, QShortcut
from PySide6.QtWidgets import QFrame, QHBoxLayout, QMenu, QStackedWidget, QVBoxLayout, QWidget

from mblt_desktop.microphone.export import TITLES
from mblt_desktop.microphone.player import Player
from mblt_desktop.microphone.transcript_lines import stamp
from mblt_desktop.microphone.transcript_text import TranscriptText
from mblt_desktop.microphone.waveform_view import WaveformView
from mblt_desktop.store.records import TranscriptRecord
from mblt_desktop.widgets import Button, Chip, EmptyState, Facts, IconButton, Label, Page, SearchField
from mblt_desktop.widgets.basics import Tone
from runtime.messages import Segment

_HINT = "Click a time to play from there."
_WORDS_HINT = "Dotted words were hard to hear."
_LEVELS_KEPT = 1200


class TranscriptPage(Page):
    """Shows one transcript: saved, growing, or the take that is being recorded."""

    export_requested = Signal(str)
    """A TranscriptFormat."""
    copy_requested = Signal()
    sample_requested = Signal()

    def __init__(self, player: Player) -> None:
        super().__init__("Speech to text")
        self._player = player
        self._levels: list[float] = []
        self._duration = 0.0
        self._build_header()
        self._build_body()
        self._build_footer()
        self._connect()
        self.show_nothing()

    # -- what is shown ---------------------------------------------------------------------------

    def show_nothing(self) -> None:
        """No transcript yet: say how to get one."""
        self.header.set_title("Speech to text")
        self._show_chips()
        self._stack.setCurrentWidget(self.empty)
        self._footer.hide()
        for tool in self._tools:
            tool.hide()

    def show_record(self, record: TranscriptRecord) -> None:
        """A finished transcript."""
        self._begin(record.title, record.segments, done=True)
        self._show_chips(record.engine, record.language.upper())
        words = list(record.warnings)
        timed = any(segment.words for segment in record.segments)
        self._hint.setText(f"{_HINT} {_WORDS_HINT}" if timed else _HINT)
        self._notes.setText(" ".join(words))
        self._notes.setVisible(bool(words))
        self._load_sound(Path(record.source))

    def show_growing(self, title: str, source: Path, segments: list[Segment], *, waiting: bool) -> None:
        """A file whose lines still come in; `waiting` while it is not its turn."""
        self._begin(title, segments, done=False)
        self.text.setPlaceholderText("The text appears here as it is heard.")
        self.show_waiting(waiting=waiting)
        self._load_sound(source)

    def show_waiting(self, *, waiting: bool) -> None:
        """Whether the file that is shown waits, or is being heard."""
        self._show_chips("waiting" if waiting else "transcribing", dot=None if waiting else "accent")

    def add_segment(self, segment: Segment) -> None:
        """One more line of the file that is shown."""
        self.text.add_segment(segment)

    def show_recording(self) -> None:
        """The take that begins now; `add_level` draws it."""
        self._player.stop()
        self._begin("Recording", [], done=False)
        self.text.setPlaceholderText("The text comes when you press Stop.")
        self._hint.setText("The sound is saved while you speak.")
        self._show_chips("live", dot="bad")
        self._levels = []
        self._strip.show()
        self._play.setEnabled(False)
        self._time.setText("")
        self.waveform.set_outline((), 0.0)

    def add_level(self, seconds: float, peak: float) -> None:
        """The take's loudness a moment ago."""
        self._levels = [*self._levels[-_LEVELS_KEPT:], peak]
        self.waveform.set_outline(self._levels, seconds, seekable=False)

    def _begin(self, title: str, segments: tuple[Segment, ...] | list[Segment], *, done: bool) -> None:
        self.header.set_title(title)
        self.search.clear()
        self.text.show_segments(segments)
        self.text.setPlaceholderText("No speech was heard.")
        self._hint.setText(_HINT)
        self._notes.hide()
        self._stack.setCurrentWidget(self._content)
        self._footer.show()
        for tool in self._tools:
            tool.show()
        self._matches.setText("")
        self.export_button.setEnabled(done)
        self.copy_button.setEnabled(done)

    def _show_chips(self, *texts: str, dot: Tone | None = None) -> None:
        self._facts.show_texts(*texts, dot=dot)

    def _load_sound(self, source: Path) -> None:
        self._strip.show()
        self._duration = 0.0
        self.waveform.set_outline((), 0.0)
        self._play.setEnabled(False)
        self._time.setText("Looking at the sound…")
        self._player.load(source)

    # -- building --------------------------------------------------------------------------------

    def _build_header(self) -> None:
        self._facts = Facts(Chip(), Chip())
        self.header.add_left(self._facts)
        self._matches = Label("", "muted", "small", tabular=True)
        self.search = SearchField("Find in text")
        self.search.setMinimumWidth(96)
        self.search.setMaximumWidth(180)
        self.copy_button = Button("Copy", "copy")
        self.export_button = Button("Export")
        self.export_button.setProperty("menu", "true")
        menu = QMenu(self.export_button)
        for form, title in TITLES.items():
            action = QAction(title, menu)
            action.setData(form)
            menu.addAction(action)
        menu.triggered.connect(self._on_export_triggered)
        self.export_button.setMenu(menu)
        self._tools: tuple[QWidget, ...] = (self._matches, self.search, self.copy_button, self.export_button)
        for tool in self._tools:
            self.header.add_right(tool)

    def _build_body(self) -> None:
        self.empty = EmptyState(
            "mic",
            "Turn speech into text",
            "Drop audio or video files here, or press Record and speak. Everything stays on this computer.",
            "Try the sample",
        )
        self.text = TranscriptText()
        self.waveform = WaveformView()
        self._strip = self._build_strip()
        self._notes = Label("", "warn", "small", wrap=True)
        self._notes.setContentsMargins(20, 8, 20, 0)
        self._content = QWidget()
        column = QVBoxLayout(self._content)
        column.setContentsMargins(0, 0, 0, 0)
        column.setSpacing(0)
        column.addWidget(self._strip)
        column.addWidget(self._notes)
        column.addWidget(self.text, 1)
        self._stack = QStackedWidget()
        self._stack.addWidget(self.empty)
        self._stack.addWidget(self._content)
        self.set_body(self._stack)

    def _build_strip(self) -> QFrame:
        strip = QFrame()
        strip.setProperty("role", "bar")
        column = QVBoxLayout(strip)
        column.setContentsMargins(20, 12, 20, 8)
        column.setSpacing(8)
        column.addWidget(self.waveform)
        row = QHBoxLayout()
        row.setSpacing(8)
        self._play = IconButton("play", "Play (Ctrl+Space)", "text")
        self._time = Label("", "muted", "small", tabular=True)
        row.addWidget(self._play)
        row.addWidget(self._time)
        row.addStretch(1)
        column.addLayout(row)
        return strip

    def _build_footer(self) -> None:
        self._footer = QFrame()
        self._footer.setProperty("role", "footer")
        row = QHBoxLayout(self._footer)
        row.setContentsMargins(20, 8, 20, 8)
        self._hint = Label(_HINT, "muted", "small")
        row.addWidget(self._hint)
        self.add_footer(self._footer)

    def _connect(self) -> None:
        self.empty.action_clicked.connect(self.sample_requested)
        self.copy_button.clicked.connect(self.copy_requested)
        self.search.textChanged.connect(self.text.find_all)
        self.search.returnPressed.connect(self._on_next_match)
        self.text.matches_changed.connect(self._on_matches_changed)
        self.text.time_clicked.connect(self._on_seek)
        self.waveform.seek_requested.connect(self._player.seek)
        self._play.clicked.connect(self._player.toggle)
        self._player.outlined.connect(self._on_outlined)
        self._player.moved.connect(self._on_moved)
        self._player.playing_changed.connect(self._on_playing_changed)
        scope = Qt.ShortcutContext.WidgetWithChildrenShortcut
        playing = QShortcut(QKeySequence("Ctrl+Space"), self, context=scope)
        playing.activated.connect(self._play.click)

    # -- reacting --------------------------------------------------------------------------------

    @Slot(QAction)
    def _on_export_triggered(self, action: QAction) -> None:
        self.export_requested.emit(action.data())

    @Slot()
    def _on_next_match(self) -> None:
        self.text.show_match(1)

    @Slot(int, int)
    def _on_matches_changed(self, shown: int, count: int) -> None:
        searching = bool(self.search.text())
        self._matches.setText(f"{shown} of {count}" if count else "not found" if searching else "")

    @Slot(float)
    def _on_seek(self, seconds: float) -> None:
        if self._duration > 0:
            self._player.play_from(seconds)

    @Slot(object, float)
    def _on_outlined(self, outline: tuple[float, ...], duration: float) -> None:
        self._duration = duration
        self.waveform.set_outline(outline, duration)
        self._play.setEnabled(bool(outline))
        if outline:
            self._on_moved(self._player.position)
        else:
            self._time.setText("The sound is not there any more; the text is unharmed.")

    @Slot(float)
    def _on_moved(self, seconds: float) -> None:
        if self._duration > 0:
            self._time.setText(f"{stamp(seconds)} / {stamp(self._duration)}")
            self.waveform.set_position(seconds)
            self.text.follow(seconds)

    @Slot(bool)
    def _on_playing_changed(self, playing: bool) -> None:
        self._play.set_icon("pause" if playing else "play")
        self._play.set_name("Pause (Ctrl+Space)" if playing else "Play (Ctrl+Space)")
