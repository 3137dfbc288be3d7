"""Building a model: one at a time, and a turn that hangs is taken away."""

from __future__ import annotations

import threading
import time

import torch

from runtime.lanes.building import TURN, building


def test_a_turn_that_is_taken_away_leaves_the_process_as_it_was() -> None:
    came_back = threading.Event()
    began: list[int] = []

    def hang() -> None:
        with building(lambda *_: None):
            torch.set_default_dtype(torch.float16)
            began.append(threading.get_ident())
            came_back.wait(10)

    thread = threading.Thread(target=hang)
    thread.start()
    while not began:
        time.sleep(0.01)
    assert not TURN.take(0)
    TURN.take_away(began[0] + 1)
    assert not TURN.take(0)
    TURN.take_away(began[0])
    assert torch.get_default_dtype() is torch.float32
    with building(lambda *_: None):
        came_back.set()
        thread.join()
        assert not TURN.take(0)  # the late one gives back nothing
