"""A host of real lanes on the simulated device, and everything it has posted."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from runtime.config import RuntimeConfig
from runtime.lanes.host import Host
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    Event,
    Finished,
    Generate,
    LoadModel,
    ModelLoaded,
    TextDelta,
    TextPart,
    Turn,
)
from runtime.sampling.params import SamplingRequest

PATIENCE = 90.0
PROMPT = [3, 1, 4, 1, 5, 9]
EventT = TypeVar("EventT")


class Runtime:
    """A host and what it has posted; models are those of one folder, each by an id of its own."""

    def __init__(
        self, folder: Path, stall_seconds: float = 60.0, load_stall_seconds: float = 600.0, word: str = ""
    ) -> None:
        """`word` is what the model's words have before their number."""
        config = RuntimeConfig(
            folder, "simulated", stall_seconds=stall_seconds, load_stall_seconds=load_stall_seconds
        )
        self.host = Host(config, lambda: None)
        self.events: list[Event] = []
        self._folder = folder
        self._word = word

    def load(self, model_id: str, *cores: str) -> None:
        self.host.submit(LoadModel(model_id, str(self._folder), LayoutRequest("single", cores)))

    def loaded(self, model_id: str, *cores: str) -> None:
        self.load(model_id, *cores)
        self.wait(ModelLoaded, lambda event: event.info.model_id == model_id)

    def ask(self, model_id: str, request_id: str, count: int = 12, conversation: str = "") -> None:
        words = " ".join(f"{self._word}{number}" for number in PROMPT)
        sampling = SamplingRequest(temperature=0.0, max_tokens=count)
        turns = (Turn("user", (TextPart(words),)),)
        self.host.submit(Generate(request_id, conversation or request_id, model_id, turns, sampling, 1))

    def take(self) -> list[Event]:
        """Everything posted so far."""
        self.events += self.host.take_events()
        return self.events

    def of(self, kind: type[EventT]) -> list[EventT]:
        return [event for event in self.take() if isinstance(event, kind)]

    def wait(self, kind: type[EventT], which: Callable[[EventT], bool] = lambda _: True) -> EventT:
        """The first event of that kind, waiting for it."""
        until = time.monotonic() + PATIENCE
        while not (found := [event for event in self.of(kind) if which(event)]):
            assert time.monotonic() < until, self.events
            time.sleep(0.005)
        return found[0]

    def answer(self, request_id: str) -> list[int]:
        self.wait(Finished, lambda event: event.request_id == request_id)
        return [
            int(word.removeprefix(self._word))
            for event in self.events
            if isinstance(event, TextDelta) and event.request_id == request_id
            for word in event.text.split()
        ]
