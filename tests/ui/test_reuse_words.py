"""The sentence about the prefix cache, and that it comes back with the message."""

from __future__ import annotations

from typing import get_args

import pytest

from mblt_desktop.reuse_words import reuse_words
from mblt_desktop.store.records import Result, result_from_json, result_to_json
from runtime.messages import MissCause, Reuse, Usage


@pytest.mark.parametrize(
    ("cached", "reuse", "words"),
    [
        (540, Reuse(560), "540 of 571 prompt tokens were reused, 31 were computed."),
        (540, None, "540 of 571 prompt tokens were reused, 31 were computed."),
        (0, None, "All 571 prompt tokens were computed."),
        (
            540,
            Reuse(560, from_disk=True),
            "540 of 571 prompt tokens were reused from the disk, 31 were computed.",
        ),
        (570, Reuse(570), "570 of 571 prompt tokens were reused, 1 was computed."),
        (
            0,
            Reuse(0, "new"),
            "All 571 prompt tokens were computed because this is the first turn of the conversation.",
        ),
        (
            12,
            Reuse(560, "system", 12, " kind\n", 0),
            "12 of 571 prompt tokens were reused, 559 were computed because the system prompt changed: "
            "token 13, “kind”, is the first that differs.",
        ),
        (
            12,
            Reuse(560, "edited", 12, "\n", 3),
            "12 of 571 prompt tokens were reused, 559 were computed because an earlier turn was edited or "
            "replaced: token 13 is the first that differs.",
        ),
    ],
)
def test_the_sentence(cached: int, reuse: Reuse | None, words: str) -> None:
    assert reuse_words(Usage(571, cached, 9), reuse) == words


@pytest.mark.parametrize("cause", get_args(MissCause))
def test_every_cause_has_words(cause: MissCause) -> None:
    words = reuse_words(Usage(571, 0, 9), Reuse(9, cause))
    assert words.startswith("All 571 prompt tokens were computed because ")
    assert words.endswith(".")


def test_a_long_token_is_cut() -> None:
    assert f"“{'x' * 24}…”" in reuse_words(Usage(9, 0, 1), Reuse(9, "edited", 0, "x" * 99))


def test_it_is_stored_with_the_message_and_old_rows_stay_readable() -> None:
    result = Result("end", Usage(571, 12, 9), reuse=Reuse(560, "edited", 12, "kind", 3))
    assert result_from_json(result_to_json(result)) == result
    assert result_from_json('{"reason": "end"}') == Result("end")
