"""How many pictures share the room for pictures."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from runtime.answering.prompting import MOST_SHARING, sharing_of
from runtime.messages import ImagePart, TextPart, Turn


@pytest.mark.parametrize(
    ("pictures", "sharing"),
    [
        ((), 1),
        ((0, 0), 1),
        ((1,), 1),
        ((1, 0, 1), 2),
        ((1, 1, 1), 3),
        ((1,) * 9, MOST_SHARING),  # more have turns left out instead
        ((2, 1, 6, 1), 6),  # but those of one turn are looked at together
    ],
)
def test_pictures_share_the_room(pictures: Sequence[int], sharing: int) -> None:
    turns = [Turn("user", (*[ImagePart("a.png")] * count, TextPart("What?"))) for count in pictures]
    assert sharing_of(turns) == sharing
