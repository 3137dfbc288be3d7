"""Cuts a streaming answer into pieces that can be drawn as they arrive.

Markdown changes its meaning with what follows, so only the last block (the tail) is drawn anew; what stands
before it never changes. Code between fences and thinking between tags only ever grow. Qt-free.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from typing import TypeAlias

_FENCE = re.compile(r"^([ \t]*)(`{3,}|~{3,})[ \t]*([^`\s]*)[^`]*$")
_MAYBE_FENCE = re.compile(r"^[ \t]*(`*|~*)[ \t]*$")
_CONTINUES = re.compile(r"^(\s|[-*+][ \t]|\d{1,9}[.)][ \t]|>|\|)")
_OPEN, _CLOSE = "<think>", "</think>"


@dataclass(frozen=True, slots=True)
class Tail:
    """The last Markdown block as it stands; replaces the former tail."""

    markdown: str


@dataclass(frozen=True, slots=True)
class Commit:
    """The tail is final; a new one begins after it."""


@dataclass(frozen=True, slots=True)
class OpenCode:
    """A code block begins; `language` may be empty."""

    language: str


@dataclass(frozen=True, slots=True)
class Code:
    """More text of the code block."""

    text: str


@dataclass(frozen=True, slots=True)
class CloseCode:
    """The code block is complete."""


@dataclass(frozen=True, slots=True)
class Thought:
    """More of what the model thinks before it answers."""

    text: str


@dataclass(frozen=True, slots=True)
class CloseThought:
    """The thinking is over; `answered` is False when it was cut off and is all there is."""

    answered: bool


Piece: TypeAlias = Tail | Commit | OpenCode | Code | CloseCode | Thought | CloseThought


class AnswerStream:
    """Feed it the answer's text in any portions; the pieces are the same in sum."""

    def __init__(self) -> None:
        self._pieces: list[Piece] = []
        self._state = self._start
        self._rest = ""
        self._lines: list[str] = []
        self._fence = ""
        self._indent = 0
        self._shown = 0
        self._code_empty = True
        self._drawn: str | None = None

    def feed(self, text: str) -> list[Piece]:
        """Take more text; returns what is to be drawn now."""
        self._rest += text
        self._run()
        self._draw_tail(self._rest if self._state == self._text else "")
        return self._take()

    def finish(self) -> list[Piece]:
        """The answer is over: close what is open, and hold nothing back any longer."""
        if self._state == self._start:
            self._state = self._text
        if self._state == self._think:
            if self._rest:
                self._pieces.append(Thought(self._rest))
            self._pieces.append(CloseThought(answered=False))
        elif self._state == self._code:
            if not self._is_end(self._rest):
                self._code_text(self._rest)
            self._pieces.append(CloseCode())
        else:
            if _is_fence(self._rest) is None:
                self._lines.append(self._rest)
            self._commit()
        self._rest = ""
        self._state = self._text
        return self._take()

    # -- states: each takes what it can from `_rest`; True when it took something ----------------

    def _run(self) -> None:
        while self._state():
            pass

    def _start(self) -> bool:
        """Only an answer that begins with the tag is taken as thinking; elsewhere the tag is text."""
        text = self._rest.lstrip()
        if text.startswith(_OPEN):
            self._rest = text[len(_OPEN) :].lstrip("\n")
            self._state = self._think
            return True
        if _OPEN.startswith(text):
            return False
        self._state = self._text
        return True

    def _think(self) -> bool:
        before, found, after = self._rest.partition(_CLOSE)
        if found:
            if before:
                self._pieces.append(Thought(before))
            self._pieces.append(CloseThought(answered=True))
            self._rest = after.lstrip("\n")
            self._state = self._text
            return True
        held = _overlap(before, _CLOSE)
        if len(before) > held:
            self._pieces.append(Thought(before[: len(before) - held]))
            self._rest = before[len(before) - held :]
        return False

    def _text(self) -> bool:
        line, found, rest = self._rest.partition("\n")
        if not found:
            return False
        self._rest = rest
        fence = _is_fence(line)
        if fence is not None:
            self._commit()
            indent, self._fence, language = fence
            self._indent = len(indent)
            self._shown, self._code_empty = 0, True
            self._pieces.append(OpenCode(language))
            self._state = self._code
        else:
            if self._begins_block(line):
                self._commit()
            self._lines.append(line)
        return True

    def _code(self) -> bool:
        line, found, rest = self._rest.partition("\n")
        if found:
            self._rest = rest
            if self._is_end(line):
                self._pieces.append(CloseCode())
                self._state = self._text
            else:
                self._code_text(line)
                self._shown, self._code_empty = 0, False
            return True
        # A line that may still become the closing fence is held back.
        if line and not _MAYBE_FENCE.match(line):
            self._code_text(line)
        return False

    # -- parts ------------------------------------------------------------------------------------

    def _code_text(self, line: str) -> None:
        """Append the part of the current code line that is not drawn yet, without the fence's indent."""
        body = line[min(self._indent, len(line) - len(line.lstrip(" \t"))) :]
        if self._shown == 0 and not self._code_empty:
            self._pieces.append(Code("\n"))
        if len(body) > self._shown:
            self._pieces.append(Code(body[self._shown :]))
            self._shown = len(body)

    def _is_end(self, line: str) -> bool:
        text = line.strip()
        return len(text) >= len(self._fence) and text == self._fence[0] * len(text)

    def _begins_block(self, line: str) -> bool:
        """After a blank line, a line at the margin that no list, quote or table can go on with."""
        if not self._lines or self._lines[-1].strip() or not line.strip():
            return False
        return _CONTINUES.match(line) is None

    def _draw_tail(self, unfinished: str) -> None:
        # The beginning of a fence would be drawn as text for a moment.
        fence = _MAYBE_FENCE.match(unfinished) or _is_fence(unfinished)
        visible = [*self._lines, "" if fence else unfinished]
        markdown = "\n".join(visible).strip("\n")
        if markdown != (self._drawn or ""):
            self._drawn = markdown
            self._pieces.append(Tail(markdown))

    def _commit(self) -> None:
        self._draw_tail("")
        if self._drawn:
            self._pieces.append(Commit())
        self._lines.clear()
        self._drawn = None

    def _take(self) -> list[Piece]:
        """The pieces so far, with neighbours joined and tails that were replaced at once left out."""
        taken: list[Piece] = []
        for piece in self._pieces:
            last = taken[-1] if taken else None
            if isinstance(piece, Code) and isinstance(last, Code):
                taken[-1] = Code(last.text + piece.text)
            elif isinstance(piece, Thought) and isinstance(last, Thought):
                taken[-1] = Thought(last.text + piece.text)
            elif isinstance(piece, Tail) and isinstance(last, Tail):
                taken[-1] = piece
            else:
                taken.append(piece)
        self._pieces.clear()
        return taken


def _is_fence(line: str) -> tuple[str, str, str] | None:
    found = _FENCE.match(line)
    return (found[1], found[2], found[3]) if found else None


def _overlap(text: str, tag: str) -> int:
    """How many characters at the end of `text` may be the beginning of `tag`."""
    return next(
        (size for size in range(min(len(text), len(tag) - 1), 0, -1) if tag.startswith(text[-size:])), 0
    )
