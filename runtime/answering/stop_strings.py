"""Stop strings over streamed text: hold back what may become one, never show it."""

from __future__ import annotations

from collections.abc import Sequence


class StopStrings:
    """Watches text as it streams. Constant work a piece, whatever the answer's length."""

    def __init__(self, stops: Sequence[str]) -> None:
        self._stops = tuple(stop for stop in stops if stop)
        self._held = ""
        self.hit: str | None = None
        """The stop string that was met."""

    def push(self, text: str, *, counts: bool = True) -> str:
        """Add streamed text; returns what can be shown now. After a hit nothing more is.

        A stop string is met by its last character: where that does not count, because the answer is too short
        yet, the string is text like any other; its beginning may lie there.
        """
        if self.hit is not None or not self._stops:
            return "" if self.hit is not None else text
        pending, known = self._held + text, len(self._held)
        found = [
            (at, stop)
            for stop in self._stops
            if counts and (at := pending.find(stop, max(0, known + 1 - len(stop)))) >= 0
        ]
        if found:
            at, self.hit = min(found, key=lambda item: item[0])
            self._held = ""
            return pending[:at]
        keep = max(_overlap(pending, stop) for stop in self._stops)
        self._held = pending[len(pending) - keep :]
        return pending[: len(pending) - keep]

    def finish(self) -> str:
        """What was held back when no more text comes."""
        held, self._held = self._held, ""
        return held


def _overlap(text: str, stop: str) -> int:
    """Length of the longest end of `text` that begins `stop`."""
    for length in range(min(len(text), len(stop) - 1), 0, -1):
        if text.endswith(stop[:length]):
            return length
    return 0
