"""The map of the cores: chosen with mouse and keyboard, in the grain of the mode, and described in words."""

from __future__ import annotations

import pytest
from PySide6.QtCore import QPoint, Qt
from pytestqt.qtbot import QtBot

from mblt_desktop.settings.core_map import CELL, HEADING, PAD, CoreMap

FIRST_CORE = QPoint(PAD + CELL // 2, 2 * HEADING + CELL // 2)


@pytest.fixture
def board(qtbot: QtBot) -> CoreMap:
    board = CoreMap()
    qtbot.addWidget(board)
    board.show()
    return board


def test_cores_are_chosen_and_released_by_clicks(board: CoreMap, qtbot: QtBot) -> None:
    board.set_grain("core")
    chosen: list[tuple[str, ...]] = []
    board.chosen_changed.connect(chosen.append)
    qtbot.mouseClick(board, Qt.MouseButton.LeftButton, pos=FIRST_CORE)
    qtbot.mouseClick(board, Qt.MouseButton.LeftButton, pos=FIRST_CORE + QPoint(CELL + 8, 0))
    qtbot.mouseClick(board, Qt.MouseButton.LeftButton, pos=FIRST_CORE)
    qtbot.mouseClick(board, Qt.MouseButton.LeftButton, pos=QPoint(1, 1))
    assert chosen == [("0:0:0",), ("0:0:0", "0:0:1"), ("0:0:1",)]


def test_clusters_are_chosen_as_a_whole(board: CoreMap, qtbot: QtBot) -> None:
    board.set_grain("cluster")
    qtbot.mouseClick(board, Qt.MouseButton.LeftButton, pos=FIRST_CORE)
    assert board.chosen == ("0:0",)


def test_nothing_is_chosen_when_the_software_picks(board: CoreMap, qtbot: QtBot) -> None:
    board.set_grain("none")
    qtbot.mouseClick(board, Qt.MouseButton.LeftButton, pos=FIRST_CORE)
    qtbot.keyClick(board, Qt.Key.Key_Space)
    assert board.chosen == ()
    assert board.focusPolicy() == Qt.FocusPolicy.NoFocus


def test_the_arrow_keys_reach_every_core(board: CoreMap, qtbot: QtBot) -> None:
    board.set_board(2, 2, 4)
    board.set_grain("core")
    right, down, left = Qt.Key.Key_Right, Qt.Key.Key_Down, Qt.Key.Key_Left
    for key in [
        None,
        right,
        right,
        right,
        down,
        left,
        left,
        left,
        down,
        right,
        right,
        right,
        down,
        left,
        left,
        left,
    ]:
        if key is not None:
            qtbot.keyClick(board, key)
        qtbot.keyClick(board, Qt.Key.Key_Space)
    every = tuple(f"{d}:{c}:{k}" for d in range(2) for c in range(2) for k in range(4))
    assert board.chosen == every


def test_the_map_is_described_in_words(board: CoreMap, qtbot: QtBot) -> None:
    board.set_grain("core")
    assert board.accessibleDescription() == (
        "Device 0, cluster 0, core 0, not chosen; none chosen: all may be used"
    )
    qtbot.keyClick(board, Qt.Key.Key_Space)
    assert board.accessibleDescription() == "Device 0, cluster 0, core 0, chosen; chosen: 0:0:0"
    board.set_grain("none")
    assert board.accessibleDescription() == "the NPU software picks the cores"


def test_what_the_board_does_not_have_is_left_out(board: CoreMap) -> None:
    board.set_grain("core")
    board.set_chosen(("0:0:3", "5:0:0", "x"))
    assert board.chosen == ("0:0:3",)
    large = board.sizeHint()
    board.set_board(1, 1, 1)
    assert board.chosen == ()
    assert board.sizeHint().width() < large.width()


def test_chosen_and_running_cores_look_different(board: CoreMap) -> None:
    board.set_grain("core")
    plain = board.grab().toImage()
    board.set_chosen(("0:0:0",))
    chosen = board.grab().toImage()
    board.set_running(("0:0:0",))
    assert plain != chosen
    assert chosen != board.grab().toImage()
