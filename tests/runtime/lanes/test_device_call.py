"""What a lane's thread is in a call for: it ends with the call, and an unwanted load ends at a stage."""

from __future__ import annotations

import threading
from dataclasses import replace

import pytest

from runtime.lanes import device_call
from runtime.lanes.device_call import DeviceCall, NotWantedError, Waiting
from runtime.messages import Event, ModelLoading


def test_a_call_that_fails_is_over_too() -> None:
    call, seen = DeviceCall(), list[Waiting | None]()

    def fail() -> None:
        with call.made_for("a", "b"):
            seen.append(call.current)
            raise OSError("gone")

    with pytest.raises(OSError, match="gone"):
        fail()
    assert [one and one.request_ids for one in seen] == [("a", "b")]
    assert call.current is None


def test_a_load_that_nobody_wants_ends_at_its_next_stage_and_says_no_more() -> None:
    call, posted = DeviceCall(), list[Event]()

    def load() -> None:
        with call.loading("m", posted.append) as progress:
            progress("Reading", 0.5)
            call.wanted = False
            progress("Starting", 0.6)

    with pytest.raises(NotWantedError):
        load()
    assert posted == [ModelLoading("m", "Reading", 0.5)]
    assert call.current is None


def test_a_stage_that_comes_after_the_load_is_over_is_not_told() -> None:
    call, posted = DeviceCall(), list[Event]()
    with call.loading("m", posted.append) as progress:
        pass
    progress("Loading weights: 3 networks", 0.6)  # by a thread of the vendor's
    assert posted == []
    assert call.current is None


def test_a_stage_of_another_thread_does_not_bring_back_a_load_that_ends_meanwhile(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    call = DeviceCall()
    telling, over = threading.Event(), threading.Event()

    def slowly(waiting: Waiting, **changes: int) -> Waiting:
        telling.set()
        over.wait(0.2)  # as long as it takes, unless the end has to wait for this
        return replace(waiting, **changes)

    monkeypatch.setattr(device_call, "replace", slowly)
    with call.loading("m", lambda _: None) as progress:
        vendors = threading.Thread(target=progress, args=("Loading weights: 3 networks", 0.6))
        vendors.start()
        assert telling.wait(5)
    over.set()
    vendors.join()
    assert call.current is None
