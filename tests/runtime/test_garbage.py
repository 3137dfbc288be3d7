"""Which thread collects garbage, and what nothing looks through."""

from __future__ import annotations

import gc
import threading
import weakref
from collections.abc import Iterator

import pytest

from runtime.garbage import Garbage


class Circle:
    """Garbage that only the collector finds, and that notes the thread which destroyed it."""

    def __init__(self, destroyed_in: list[int]) -> None:
        self.itself = self
        self._destroyed_in = destroyed_in

    def __del__(self) -> None:
        self._destroyed_in.append(threading.get_ident())


def elsewhere(work: object) -> None:
    thread = threading.Thread(target=work)  # type: ignore[arg-type]
    thread.start()
    thread.join()


@pytest.fixture
def garbage() -> Iterator[Garbage]:
    gc.collect()
    made = Garbage()
    made.collect_here()
    yield made
    made.collect_anywhere()


def test_what_another_thread_drops_and_wants_collected_is_destroyed_by_this_one(garbage: Garbage) -> None:
    destroyed_in: list[int] = []

    def drop() -> None:
        Circle(destroyed_in)
        gc.collect()

    elsewhere(drop)
    assert destroyed_in == []
    garbage.look()
    assert destroyed_in == [threading.get_ident()]


def test_it_looks_again_when_many_objects_were_made(garbage: Garbage) -> None:
    destroyed_in: list[int] = []
    Circle(destroyed_in)
    garbage.look()
    assert destroyed_in == []
    many = [[] for _ in range(2000)]
    garbage.look()
    assert destroyed_in
    assert len(many) == 2000


def test_older_objects_are_looked_through_as_well_but_seldom(garbage: Garbage) -> None:
    destroyed_in: list[int] = []
    circle: Circle | None = Circle(destroyed_in)
    gc.collect()  # it is old now
    circle = None
    looks = 0
    while not destroyed_in:
        many = [[] for _ in range(2000)]
        garbage.look()
        del many
        looks += 1
    assert 50 < looks < 500
    assert circle is None


def test_what_was_imported_is_never_looked_through(garbage: Garbage) -> None:
    destroyed_in: list[int] = []
    with garbage.imported_for_good():
        kept = Circle(destroyed_in)
        many = [[] for _ in range(2000)]
        garbage.look()
    counted = gc.get_freeze_count()
    assert counted > len(many)
    assert not gc.isenabled()
    reference = weakref.ref(kept)
    del kept
    gc.collect()
    assert reference() is not None
    gc.unfreeze()
    gc.collect()
    assert destroyed_in


@pytest.mark.parametrize("window_ends_first", [False, True])
def test_a_window_that_opens_during_an_import_is_the_only_one_to_collect_afterwards_too(
    window_ends_first: bool,
) -> None:
    made = Garbage()
    gc.enable()
    importing = made.imported_for_good()
    importing.__enter__()
    made.collect_here()
    if window_ends_first:
        made.collect_anywhere()
    else:
        importing.__exit__(None, None, None)
    assert not gc.isenabled()
    if window_ends_first:
        importing.__exit__(None, None, None)
    else:
        made.collect_anywhere()
    assert gc.isenabled()
    gc.unfreeze()


def test_without_a_window_it_is_pythons_own_way_again() -> None:
    collect, enabled = gc.collect, gc.isenabled()
    made = Garbage()
    gc.enable()
    made.collect_here()
    assert not gc.isenabled()
    made.collect_anywhere()
    assert gc.isenabled()
    assert gc.collect is collect
    if not enabled:
        gc.disable()
