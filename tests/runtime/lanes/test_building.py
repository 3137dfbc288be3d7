"""Building a model: one at a time, and a turn that hangs is taken away."""

from __future__ import annotations

import sys
import threading
import time
from importlib.machinery import ModuleSpec
from types import ModuleType

import pytest
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


def test_a_model_is_built_while_another_thread_imports_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    """As when a model is installed meanwhile: torch is there, and has nothing in it yet."""
    half = ModuleType("torch")
    half.__spec__ = ModuleSpec("torch", None)
    half.__spec__._initializing = True  # type: ignore[attr-defined]  # as the import itself has it
    monkeypatch.setitem(sys.modules, "torch", half)
    with building(lambda *_: None):
        TURN.take_away(threading.get_ident())
    assert TURN.take(0)
    TURN.give_back()


def test_the_first_load_that_hangs_leaves_the_process_as_it_was_too(monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as before_torch:
        before_torch.delitem(sys.modules, "torch")
        assert TURN.take(0)
    torch.set_default_dtype(torch.float16)
    TURN.take_away(threading.get_ident())
    try:
        assert torch.get_default_dtype() is torch.float32
    finally:
        torch.set_default_dtype(torch.float32)
