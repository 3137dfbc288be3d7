"""Who waits is told where, and thousands that wait hold nobody up."""

from __future__ import annotations

from runtime.answering.places import Places
from runtime.messages import Event, Queued


class Queue:
    """So many that wait; each one's place changes with every answer, and telling it takes a millisecond."""

    def __init__(self, length: int) -> None:
        self.length = length
        self.now = 0.0
        self.asked = 0
        self.posted: list[Event] = []
        self.places = Places(self._moved, self._post, lambda: self.now)

    def _moved(self) -> list[Queued]:
        self.asked += 1
        return [Queued(f"r{number}", number + self.asked, "turn") for number in range(self.length)]

    def _post(self, event: Event) -> None:
        self.now += 0.001
        self.posted.append(event)

    def work(self, seconds: float) -> None:
        """A step of so many seconds ends an answer."""
        self.now += seconds
        self.places.changed()
        self.places.tell()


def test_few_are_told_with_every_change_and_only_then() -> None:
    queue = Queue(100)
    for _ in range(5):
        queue.work(0.0)
        queue.places.tell()
    assert len(queue.posted) == 500


def test_telling_many_takes_a_twentieth_of_the_time_and_ends_with_the_truth() -> None:
    queue = Queue(2000)
    for _ in range(1000):
        queue.work(0.1)
    assert 0.04 < len(queue.posted) * 0.001 / queue.now < 0.07
    known, asked = len(queue.posted), queue.asked
    queue.now += 100
    queue.places.tell()
    assert len(queue.posted) == known + queue.length
    assert queue.posted[-1] == Queued("r1999", 1999 + asked + 1, "turn")
