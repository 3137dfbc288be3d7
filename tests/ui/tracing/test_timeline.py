"""The timeline under the mouse and the keyboard."""

from __future__ import annotations

import numpy as np
import pytest
from PySide6.QtCore import QEvent, QPoint, QPointF, Qt
from PySide6.QtGui import QHelpEvent, QImage, QWheelEvent
from PySide6.QtWidgets import QApplication, QToolTip
from pytestqt.qtbot import QtBot

from mblt_desktop.theme import current_theme
from mblt_desktop.tracing.geometry import LABEL_WIDTH, LINE_HEIGHT, ROW_PADDING, RULER_HEIGHT, make_rows
from mblt_desktop.tracing.timeline import Timeline
from runtime.tracing.view import TraceView, make_view
from tests.runtime.tracing.recordings import ENGINE, GUI, make_trace, span

MS = 1_000_000


@pytest.fixture
def timeline(qtbot: QtBot, view: TraceView) -> Timeline:
    made = Timeline()
    qtbot.addWidget(made)
    made.resize(LABEL_WIDTH + 800, 420)
    made.show()
    qtbot.waitExposed(made)
    made.set_view(view)
    return made


def place(timeline: Timeline, title: str, name: str) -> tuple[QPoint, tuple[int, int]]:
    """Where the first span of that name is drawn, and which it is."""
    view = timeline.view
    assert view is not None
    row = next(row for row in make_rows(view) if row.title == title)
    assert row.track is not None
    track = view.tracks[row.track]
    index = int(np.flatnonzero(track.name == view.names.index(name))[0])
    x = LABEL_WIDTH + timeline.scale.x((int(track.start[index]) + int(track.end[index])) / 2)
    y = RULER_HEIGHT + row.top + ROW_PADDING + int(track.depth[index]) * LINE_HEIGHT + LINE_HEIGHT // 2
    return QPoint(round(x), y), (row.track, index)


def wheel(
    timeline: Timeline, x: int, turn: int, modifiers: Qt.KeyboardModifier = Qt.KeyboardModifier.NoModifier
) -> None:
    event = QWheelEvent(
        QPointF(x, 100),
        timeline.viewport().mapToGlobal(QPointF(x, 100)),
        QPoint(),
        QPoint(0, turn),
        Qt.MouseButton.NoButton,
        modifiers,
        Qt.ScrollPhase.NoScrollPhase,
        False,
    )
    QApplication.sendEvent(timeline.viewport(), event)


def colours(timeline: Timeline) -> set[str]:
    image = timeline.viewport().grab().toImage().convertToFormat(QImage.Format.Format_RGB32)
    return {
        image.pixelColor(x, y).name()
        for x in range(LABEL_WIDTH, image.width(), 2)
        for y in range(0, image.height(), 3)
    }


def test_every_kind_of_span_is_drawn_in_its_colour(timeline: Timeline) -> None:
    theme = current_theme()
    drawn = colours(timeline)
    for colour in (theme.tracks[0], theme.tracks[1], theme.tracks[2], theme.tracks[3]):
        assert colour.lower() in drawn


def test_a_click_selects_the_span_under_it(qtbot: QtBot, timeline: Timeline) -> None:
    point, wanted = place(timeline, "Chat engine", "prefill chunk")
    with qtbot.waitSignal(timeline.span_selected) as told:
        qtbot.mouseClick(timeline.viewport(), Qt.MouseButton.LeftButton, pos=point)
    assert tuple(told.args) == wanted
    assert "prefill chunk" in timeline.accessibleDescription()
    assert "tokens: 31" in timeline.accessibleDescription()


def test_a_drag_selects_a_stretch_and_escape_clears_it(qtbot: QtBot, timeline: Timeline) -> None:
    area = timeline.viewport()
    left, right = QPoint(LABEL_WIDTH + 100, 200), QPoint(LABEL_WIDTH + 300, 210)
    qtbot.mousePress(area, Qt.MouseButton.LeftButton, pos=left)
    with qtbot.waitSignal(timeline.range_changed) as told:
        qtbot.mouseMove(area, right)
    qtbot.mouseRelease(area, Qt.MouseButton.LeftButton, pos=right)
    whole = timeline.scale.whole
    assert told.args == pytest.approx([whole / 8, whole * 3 / 8], rel=0.02)
    with qtbot.waitSignal(timeline.range_changed) as told:
        qtbot.keyClick(timeline, Qt.Key.Key_Escape)
    assert told.args == [0.0, whole]
    assert timeline.selection is None


def test_the_wheel_zooms_at_the_pointer_and_moves_with_shift(timeline: Timeline) -> None:
    before = timeline.scale.time(400)
    wheel(timeline, LABEL_WIDTH + 400, 480)
    assert timeline.scale.high - timeline.scale.low < timeline.scale.whole / 2
    assert timeline.scale.time(400) == pytest.approx(before, rel=1e-6)
    low = timeline.scale.low
    wheel(timeline, LABEL_WIDTH + 400, -120, Qt.KeyboardModifier.ShiftModifier)
    assert timeline.scale.low > low


def test_the_keyboard_can_do_it_all(qtbot: QtBot, timeline: Timeline) -> None:
    whole = timeline.scale.whole
    qtbot.keyClick(timeline, Qt.Key.Key_W)
    qtbot.keyClick(timeline, Qt.Key.Key_W)
    assert timeline.scale.high - timeline.scale.low == pytest.approx(whole / 1.25**2)
    low = timeline.scale.low
    qtbot.keyClick(timeline, Qt.Key.Key_D)
    assert timeline.scale.low > low
    qtbot.keyClick(timeline, Qt.Key.Key_A)
    assert timeline.scale.low == pytest.approx(low)
    qtbot.keyClick(timeline, Qt.Key.Key_F)
    assert (timeline.scale.low, timeline.scale.high) == (0.0, whole)
    timeline.select_range(whole / 4, whole / 2)
    qtbot.keyClick(timeline, Qt.Key.Key_F)
    assert (timeline.scale.low, timeline.scale.high) == (whole / 4, whole / 2)


def test_next_and_previous_go_along_the_same_name(qtbot: QtBot, timeline: Timeline) -> None:
    view = timeline.view
    assert view is not None
    _point, (track, first) = place(timeline, "Chat engine", "decode step")
    timeline.reveal(track, first)
    steps = np.flatnonzero(view.tracks[track].name == view.names.index("decode step"))
    qtbot.keyClick(timeline, Qt.Key.Key_N)
    assert timeline.selected == (track, int(steps[1]))
    qtbot.keyClick(timeline, Qt.Key.Key_P)
    qtbot.keyClick(timeline, Qt.Key.Key_P)
    assert timeline.selected == (track, first)


def test_what_is_revealed_is_in_sight(timeline: Timeline) -> None:
    view = timeline.view
    assert view is not None
    timeline.show_time(0, MS)
    _point, (track, index) = place(timeline, "Chat engine", "detokenise")
    timeline.reveal(track, index)
    start, end = int(view.tracks[track].start[index]), int(view.tracks[track].end[index])
    assert timeline.scale.low <= start < end <= timeline.scale.high
    assert (end - start) / timeline.scale.ns_per_pixel >= 3


def test_a_double_click_zooms_to_the_span_and_out_again(qtbot: QtBot, timeline: Timeline) -> None:
    point, (track, index) = place(timeline, "Chat engine", "decode step")
    qtbot.mouseDClick(timeline.viewport(), Qt.MouseButton.LeftButton, pos=point)
    assert timeline.view is not None
    length = int(timeline.view.tracks[track].end[index] - timeline.view.tracks[track].start[index])
    assert timeline.scale.high - timeline.scale.low == pytest.approx(1.2 * length)
    qtbot.mouseDClick(timeline.viewport(), Qt.MouseButton.LeftButton, pos=QPoint(LABEL_WIDTH + 5, 415))
    assert timeline.scale.low == 0.0


def test_the_tooltip_shows_text_as_text(qtbot: QtBot, monkeypatch: pytest.MonkeyPatch) -> None:
    timeline = Timeline()
    qtbot.addWidget(timeline)
    timeline.resize(LABEL_WIDTH + 800, 200)
    timeline.show()
    timeline.set_view(
        make_view(make_trace([span("<b>bold</b> & co", 0, MS, file="<img src=x>")], stop_ns=None))
    )
    shown: list[str] = []
    monkeypatch.setattr(QToolTip, "showText", lambda _place, text, _widget: shown.append(text))
    point = QPoint(LABEL_WIDTH + 400, RULER_HEIGHT + 10)
    QApplication.sendEvent(
        timeline.viewport(), QHelpEvent(QEvent.Type.ToolTip, point, timeline.mapToGlobal(point))
    )
    assert "&lt;b&gt;bold&lt;/b&gt; &amp; co" in shown[0]
    assert "&lt;img" in shown[0]


def test_many_rows_scroll(qtbot: QtBot) -> None:
    timeline = Timeline()
    qtbot.addWidget(timeline)
    timeline.resize(LABEL_WIDTH + 400, 200)
    timeline.show()
    timeline.set_view(
        make_view(make_trace([span("a", 0, 10, thread) for thread in range(1, 41)], stop_ns=None))
    )
    assert timeline.verticalScrollBar().maximum() == timeline.content_height() - timeline.viewport().height()
    timeline.reveal(39, 0)
    assert timeline.verticalScrollBar().value() > 0


def test_a_hundred_thousand_spans_cost_a_screenful(qtbot: QtBot) -> None:
    events = [
        span(f"step {number % 5}", number * 1000, 800, (ENGINE, GUI)[number % 2]) for number in range(100_000)
    ]
    view = make_view(make_trace(events, stop_ns=None))
    timeline = Timeline()
    qtbot.addWidget(timeline)
    timeline.resize(LABEL_WIDTH + 800, 200)
    timeline.show()
    timeline.set_view(view)
    theme = current_theme()
    for zoom in (1, 10, 1000):
        timeline.show_time(0, view.duration_ns / zoom)
        assert colours(timeline) & {colour.lower() for colour in theme.tracks}
    # Whatever the zoom, what is looked at per line is bounded by the pixels, not by the spans.
    for track in view.tracks:
        for zoom in (1, 2, 5, 20, 100):
            length = view.duration_ns / zoom
            level = next(
                (level for level in reversed(track.lines[0]) if level.resolution <= length / 800),
                track.lines[0][0],
            )
            shown = level.between(0, int(length))
            assert shown.stop - shown.start <= 800 * 8 + 1


def test_no_recording_draws_nothing(timeline: Timeline) -> None:
    timeline.set_view(None)
    assert colours(timeline) <= {current_theme().bg.lower(), current_theme().accent.lower()}
