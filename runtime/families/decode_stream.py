"""Text as its tokens come: whole characters only, and the same work for every token."""

from __future__ import annotations

from typing import Any, cast

MOST_WAITING = 16
"""A character takes fewer tokens than this; what still is none then will not become one."""
MOST_KEPT = 6
"""Of those, the newest that may yet become one: four bytes at most, a token or two more at their edge."""

_CANNOT_GO_ON = "Invalid prefix"
"""Of the library's message, when the tokens' text is no continuation of what it had given out."""


class DecodeStream:
    """Incremental text through the tokenizers library; it never waits for what cannot become a character."""

    def __init__(self, tokenizer: Any) -> None:
        self._backend = tokenizer.backend_tokenizer
        self._waiting: list[int] = []
        self._last_whole: list[int] = []
        """The tokens of the last piece that was whole characters."""
        self._start()

    def _start(self) -> None:
        """Begin anew behind the last whole characters: some tokenizers drop a space where a text begins."""
        from tokenizers.decoders import DecodeStream as Stream

        self._stream = Stream(skip_special_tokens=True)
        for token_id in self._last_whole:
            self._stream.step(self._backend, token_id)
        self._waiting = []

    def push(self, token_id: int) -> str:
        """The text this token completes; empty while more bytes can come."""
        waiting = [*self._waiting, token_id]
        try:
            text = self._stream.step(self._backend, token_id)
        except Exception as error:  # noqa: BLE001 - the library raises no class of its own
            return self._step_over(waiting, error)
        if text is None:
            self._waiting = waiting
            return "" if len(waiting) < MOST_WAITING else self._give_up()
        self._last_whole, self._waiting = waiting, []
        return text

    def finish(self) -> str:
        """A character the model began and never finished shows as the replacement character."""
        text = self._decode(self._waiting)
        self._waiting.clear()
        return text

    def _step_over(self, waiting: list[int], error: Exception) -> str:
        """Show what waits as it is, and go on behind it.

        A tokenizer with single bytes for rare characters reads neighbouring bytes as one: a stray byte turns
        the character before it, which is shown already, into broken ones, and the library cannot go on there.
        """
        if _CANNOT_GO_ON not in str(error):
            raise error
        text = self._decode(waiting)
        self._last_whole = waiting[-1:]
        self._start()
        return text

    def _give_up(self) -> str:
        """Show the broken bytes as such, and go on waiting with the newest tokens only.

        The library decodes all that waits with each token, so a model that writes nothing but broken bytes
        would make every token dearer than the one before.
        """
        waiting = self._waiting
        whole = self._decode(waiting)
        for kept in range(MOST_KEPT, -1, -1):
            head, tail = waiting[: len(waiting) - kept], waiting[len(waiting) - kept :]
            if self._decode(head) + self._decode(tail) == whole:  # no character is cut in two here
                break
        self._start()
        return self._decode(head) + "".join([self.push(token_id) for token_id in tail])

    def _decode(self, token_ids: list[int]) -> str:
        return cast("str", self._backend.decode(token_ids, skip_special_tokens=True)) if token_ids else ""
