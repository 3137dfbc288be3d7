"""How an answer came out, in the line under it."""

from __future__ import annotations

from mblt_desktop.result_words import result_facts
from mblt_desktop.store.records import Result
from runtime.messages import Timings, Usage

TIMINGS = Timings(0.5, 0.0, 0.0, 0.2, 0.1, 0.7, 0.8)


def test_an_answer_stopped_while_it_waited_has_no_counts_of_nothing() -> None:
    waiting = Result(reason="cancelled", usage=Usage(0, 0, 0), timings=TIMINGS)
    assert result_facts(waiting, "Model", "Device") == ["stopped: by you, before it began"]


def test_one_stopped_while_its_prompt_was_read_says_what_was_read() -> None:
    reading = Result(reason="cancelled", usage=Usage(571, 540, 0), timings=TIMINGS)
    assert result_facts(reading, "Model", "Device") == [
        "0 tokens",
        "prompt 571: 540 reused, 31 new",
        "stopped: by you",
        "Model",
        "Device",
    ]
