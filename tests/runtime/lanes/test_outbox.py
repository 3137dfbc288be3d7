"""The outbox: one wake-up a batch, and nothing lost between threads."""

from __future__ import annotations

import threading

from runtime.lanes.outbox import Outbox
from runtime.messages import (
    Event,
    TextDelta,
)


def test_only_the_post_into_an_empty_box_wakes() -> None:
    wakes = []
    box = Outbox(lambda: wakes.append(1))
    for text in "abc":
        box.post(TextDelta("r", text))
    assert len(wakes) == 1
    assert [event.text for event in box.take() if isinstance(event, TextDelta)] == ["a", "b", "c"]
    assert box.take() == []
    box.post(TextDelta("r", "d"))
    assert len(wakes) == 2


def test_nothing_is_lost_between_threads() -> None:
    box = Outbox(lambda: None)
    threads = [
        threading.Thread(target=lambda name=name: [box.post(TextDelta(name, str(i))) for i in range(500)])
        for name in "abcd"
    ]
    for thread in threads:
        thread.start()
    got: list[Event] = []
    while any(thread.is_alive() for thread in threads):
        got += box.take()
    got += box.take()
    for name in "abcd":
        assert [e.text for e in got if isinstance(e, TextDelta) and e.request_id == name] == [
            str(i) for i in range(500)
        ]
