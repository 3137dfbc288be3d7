"""Time to the first token of a conversation's tenth turn, with what is kept of it and without."""

from __future__ import annotations

import statistics
import time
from dataclasses import dataclass
from pathlib import Path

from runtime.answering.engine import Engine
from runtime.catalog.entries import DEMO_CHAT
from runtime.config import RuntimeConfig
from runtime.lanes.lane import CancelMarks
from runtime.layout.request import LayoutRequest
from runtime.messages import (
    Event,
    Finished,
    ForgetConversation,
    Generate,
    LoadModel,
    ModelLoaded,
    TextDelta,
    TextPart,
    Turn,
)
from runtime.sampling.params import SamplingRequest
from tests.bench.table import Goal, Row

EXCHANGES = 9
HISTORY = 2000
"""Tokens before the tenth question, about."""
ANSWER = 24
PAIRS = 3
QUESTION = "And which of the ships that passed was the last one?"
LINE = "The lighthouse keeper wrote down every ship that passed, and the weather of the day. "


@dataclass(frozen=True)
class Waits:
    """Seconds from the tenth question to its first token; tokens of its prompt that were reused."""

    without: float
    with_reuse: float
    prompt: int
    cached: int


class Conversation:
    """One conversation on the demo model; a new one each time it is begun."""

    def __init__(self, models: Path) -> None:
        self._events: list[Event] = []
        config = RuntimeConfig(models.parent, "simulated")
        self.engine = Engine(config, self._events.append, CancelMarks())
        self.engine.open()
        self.engine.handle(LoadModel(DEMO_CHAT, str(models / DEMO_CHAT), LayoutRequest()))
        assert any(isinstance(event, ModelLoaded) for event in self._events), self._events
        self._asked = 0

    def ask(self, turns: list[Turn], tokens: int) -> tuple[str, Finished]:
        """The answer, and how it came out."""
        self._asked += 1
        request_id = f"turn-{self._asked}"
        sampling = SamplingRequest(temperature=0.0, min_tokens=tokens, max_tokens=tokens)
        now = time.perf_counter_ns()
        self.engine.handle(Generate(request_id, "bench", DEMO_CHAT, tuple(turns), sampling, now))
        while self.engine.step():
            pass
        mine = [event for event in self._events if getattr(event, "request_id", "") == request_id]
        text = "".join(event.text for event in mine if isinstance(event, TextDelta))
        return text, next(event for event in mine if isinstance(event, Finished))

    def until_the_tenth(self) -> list[Turn]:
        """Nine exchanges and the tenth question; all but that question is read."""
        turns: list[Turn] = []
        for _ in range(EXCHANGES):
            turns.append(_turn("user", LINE * (HISTORY // EXCHANGES // 20)))
            answer, _ = self.ask(turns, ANSWER)
            turns.append(_turn("assistant", answer))
        return [*turns, _turn("user", QUESTION)]


def measure(models: Path) -> list[Waits]:
    """Pairs after one warm-up pair, in turn, so that the machine's drift hits both."""
    conversation = Conversation(models)
    turns = conversation.until_the_tenth()
    pairs = []
    for _ in range(PAIRS + 1):
        conversation.engine.handle(ForgetConversation("bench"))
        _, without = conversation.ask(turns, 1)
        assert without.usage.cached == 0
        conversation.ask(turns[:-2], ANSWER)  # as after the ninth answer: all but the question is held
        _, reused = conversation.ask(turns, 1)
        pairs.append(
            Waits(
                without.timings.first_token,
                reused.timings.first_token,
                reused.usage.prompt,
                reused.usage.cached,
            )
        )
    conversation.engine.close()
    return pairs[1:]


def rows(models: Path) -> list[Row]:
    """The figures as lines of the table."""
    pairs = measure(models)
    ratio = statistics.median(pair.without / pair.with_reuse for pair in pairs)
    last = pairs[-1]
    return [
        Row("first token of turn 10, nothing kept", f"{_median([pair.without for pair in pairs]):.2f} s"),
        Row(
            f"first token of turn 10, {last.cached} of {last.prompt} tokens reused",
            f"{_median([pair.with_reuse for pair in pairs]):.3f} s",
        ),
        Row("without reuse ÷ with reuse", f"{ratio:.1f}", Goal(ratio, at_least=8)),
    ]


def _median(values: list[float]) -> float:
    return statistics.median(values)


def _turn(role: str, text: str) -> Turn:
    return Turn(role, (TextPart(text),))  # type: ignore[arg-type]
