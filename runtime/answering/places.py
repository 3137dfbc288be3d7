"""Telling requests that wait where they are, without holding up those that do not."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable

from runtime.lanes.lane import Post
from runtime.messages import Queued

_FEW = 100
"""So many are told at once."""
_SHARE = 20
"""Telling more takes one in so many seconds at most: each answer changes the place of each one that waits."""


class Places:
    """Who waits is told at once as long as they are few, else after a while."""

    def __init__(
        self,
        moved: Callable[[], Iterable[Queued]],
        post: Post,
        clock: Callable[[], float] = time.perf_counter,
    ) -> None:
        """`moved` gives the news since it was asked last."""
        self._moved = moved
        self._post = post
        self._clock = clock
        self._stale = False
        self._not_before = 0.0

    def changed(self) -> None:
        """Somebody has come, gone on or left."""
        self._stale = True

    def tell(self) -> None:
        """Post what is new; to be called again and again."""
        began = self._clock()
        if not self._stale or began < self._not_before:
            return
        self._stale = False
        news = list(self._moved())
        for place in news:
            self._post(place)
        ended = self._clock()
        if len(news) > _FEW:
            self._not_before = ended + (ended - began) * _SHARE
