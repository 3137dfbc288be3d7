"""One message in the transcript's document: writes it, grows it while it streams, and its line of facts.

A message is a run of whole blocks: its content, then its foot. Everything stays in the document's root frame,
because only there does Qt lay out just what changed; backgrounds are painted behind (`backgrounds.py`).
"""

from __future__ import annotations

import itertools
import secrets
from collections.abc import Iterator
from dataclasses import dataclass, field

from PySide6.QtGui import QFontMetricsF, QTextBlockFormat, QTextCharFormat, QTextCursor, QTextDocument

from mblt_desktop.chat.formats import Formats
from mblt_desktop.chat.highlight import CodeHighlighter
from mblt_desktop.chat.markdown import write_markdown
from mblt_desktop.chat.stream import (
    AnswerStream,
    CloseCode,
    CloseThought,
    Code,
    Commit,
    OpenCode,
    Piece,
    Tail,
    Thought,
)
from mblt_desktop.result_words import left_out_words, result_facts
from mblt_desktop.store.records import Message
from mblt_desktop.theme import font

SCHEME = f"mblt-{secrets.token_hex(8)}"
"""Of links that are our own buttons. It differs in every run, so no text of a model can press one."""
_MEASURED_LINES = 200


@dataclass(slots=True)
class Canvas:
    """What the messages of one transcript share."""

    document: QTextDocument
    formats: Formats
    highlighter: CodeHighlighter
    groups: Iterator[int] = field(default_factory=lambda: itertools.count(1))


@dataclass(frozen=True, slots=True)
class Branch:
    """Which of several alternatives a message is; `index` counts from 0."""

    index: int = 0
    count: int = 1


class MessageView:
    """Made at an empty block, which becomes its first."""

    def __init__(
        self,
        canvas: Canvas,
        message: Message,
        branch: Branch,
        at: QTextCursor,
        next_start: QTextCursor | None = None,
    ) -> None:
        self._canvas = canvas
        self.message = message
        self.branch = branch
        self.codes: list[str] = []
        """The code blocks so far, for Copy."""
        self.next_start = next_start
        """Where the next message begins; kept up to date by the transcript."""
        self.unfolded = False
        """Whether what the model thought is shown."""
        self._stream: AnswerStream | None = None
        self._status = ""
        self._language = ""
        self._group = 0
        self.start = _mark(at)
        self._tail = _mark(at)
        at.insertBlock(QTextBlockFormat(), QTextCharFormat())
        self._foot = _mark(at)
        self.write()

    @property
    def position(self) -> int:
        """Where the message begins in the document."""
        return self.start.position()

    def write(self) -> None:
        """Write the whole message anew."""
        cursor = self._select(self.start.position(), self._foot.position() - 1)
        cursor.removeSelectedText()
        cursor.setBlockFormat(self._canvas.formats.hairline())
        self._tail.setPosition(self.start.position())
        self.codes.clear()
        if self.message.role == "user":
            self._write_user(cursor)
        else:
            self._write_answer()
        self.write_foot()

    def append(self, text: str) -> None:
        """More text of the answer; already part of `message.text`."""
        if self._stream is not None:
            self._apply(self._stream.feed(text))

    def set_status(self, text: str) -> None:
        """What the answer is waiting for, or nothing."""
        if text != self._status:
            self._status = text
            self.write_foot()

    def finish(self) -> None:
        """The answer is over: draw what was held back, its facts and its actions."""
        stream, self._stream = self._stream, None
        self._status = ""
        if stream is not None and self._unfold(stream.finish()):
            self.write()
            return
        self._write_error()
        self.write_foot()

    # -- content ---------------------------------------------------------------------------------

    def _write_user(self, cursor: QTextCursor) -> None:
        formats = self._canvas.formats
        text = self.message.text
        metrics = QFontMetricsF(font())
        lines = text.split("\n")[:_MEASURED_LINES]
        natural = max((metrics.horizontalAdvance(line[:400]) for line in lines), default=0.0)
        look = formats.user(next(self._canvas.groups), natural)
        look.setTopMargin(0)
        cursor.setBlockFormat(look)
        cursor.insertText(text, formats.text)
        self._select(self.position, self.position).mergeBlockFormat(_margins(top=28))
        cursor.mergeBlockFormat(_margins(bottom=8))

    def _write_answer(self) -> None:
        # Room above the answer; the block itself shows nothing.
        cursor = self._content_end()
        cursor.mergeBlockFormat(_margins(top=12))
        cursor.insertBlock(self._canvas.formats.hairline())
        self._tail.setPosition(cursor.position())
        stream = AnswerStream()
        self._apply(stream.feed(self.message.text))
        if self.message.state == "writing":
            self._stream = stream
        elif self._unfold(stream.finish()):
            self.write()
        else:
            self._write_error()

    def _unfold(self, last: list[Piece]) -> bool:
        """Draw the last pieces; True when thinking is all there is and must be shown unfolded."""
        self._apply(last)
        if self.unfolded or CloseThought(answered=False) not in last:
            return False
        self.unfolded = True
        return True

    def _apply(self, pieces: list[Piece]) -> None:
        for piece in pieces:
            if isinstance(piece, Tail):
                self._write_tail(piece.markdown)
            elif isinstance(piece, Code):
                self.codes[-1] += piece.text
                self._content_end().insertText(piece.text, self._canvas.formats.code)
            elif isinstance(piece, OpenCode):
                self._open_code(piece.language)
            elif isinstance(piece, CloseCode):
                self._close_code()
            elif isinstance(piece, Thought | CloseThought):
                self._think(piece)
            elif isinstance(piece, Commit):
                self._new_tail()

    def _write_tail(self, markdown: str) -> None:
        cursor = self._select(self._tail.position(), self._foot.position() - 1)
        cursor.removeSelectedText()
        cursor.setBlockFormat(self._canvas.formats.hairline())
        write_markdown(cursor, markdown, self._canvas.formats, self._canvas.groups)

    def _new_tail(self) -> None:
        cursor = self._content_end()
        cursor.insertBlock(self._canvas.formats.hairline(), QTextCharFormat())
        self._tail.setPosition(cursor.position())

    def _open_code(self, language: str) -> None:
        formats, group = self._canvas.formats, next(self._canvas.groups)
        cursor = self._content_end()
        cursor.setBlockFormat(formats.code_head(group))
        cursor.insertText(f"{language or 'code'}\t", formats.muted)
        cursor.insertText("Copy", formats.link(self._href("copy-code", len(self.codes)), quiet=True))
        cursor.insertBlock(formats.code_line(group), formats.code)
        self._tail.setPosition(cursor.position())
        self.codes.append("")
        self._language = language

    def _close_code(self) -> None:
        cursor = self._content_end()
        cursor.mergeBlockFormat(_margins(bottom=20))
        self._canvas.highlighter.add(QTextCursor(self._tail), self._language, self.codes[-1])
        self._new_tail()

    def _think(self, piece: Thought | CloseThought) -> None:
        formats = self._canvas.formats
        cursor = self._content_end()
        if cursor.block().position() == self._tail.position() and not cursor.block().text():
            self._group = next(self._canvas.groups)
            cursor.setBlockFormat(formats.inset("thought", self._group, top=8))
            sign = "▾" if self.unfolded else "▸"
            cursor.insertText(
                f"{sign} What the model thought", formats.link(self._href("thought"), quiet=True)
            )
            if self.unfolded:
                cursor.insertBlock(formats.inset("thought", self._group, top=4))
        if isinstance(piece, Thought) and self.unfolded:
            cursor.insertText(piece.text, formats.muted)
        if isinstance(piece, CloseThought):
            cursor.mergeBlockFormat(_margins(bottom=20))
            self._new_tail()

    @property
    def _went_wrong(self) -> bool:
        """Whether a box with Retry stands at the end of the answer."""
        return self.message.result.error is not None or self.message.state == "interrupted"

    def _write_error(self) -> None:
        """What went wrong stands where the answer would have gone on."""
        if not self._went_wrong:
            return
        error = self.message.result.error
        formats, group = self._canvas.formats, next(self._canvas.groups)
        if self._content_end().block().text():
            self._new_tail()
        cursor = self._content_end()
        cursor.setBlockFormat(formats.inset("error", group, top=16))
        if error is None:
            cursor.insertText("The program ended while this was being written.", formats.bad)
            cursor.insertText(" What is here is kept." if self.message.text else "", formats.text)
        else:
            cursor.insertText(error.summary, formats.bad)
            cursor.insertText(f" {error.unharmed} {error.remedy}".rstrip(), formats.text)
        cursor.insertBlock(formats.inset("error", group, top=4))
        cursor.insertText("Retry", formats.link(self._href("retry")))
        if error is not None and error.detail:
            cursor.insertText("   ", formats.muted)
            cursor.insertText("Details", formats.link(self._href("details")))
        cursor.mergeBlockFormat(_margins(bottom=16))

    # -- foot ------------------------------------------------------------------------------------

    def write_foot(self) -> None:
        """The facts and actions under the message, or what it is waiting for."""
        formats, message = self._canvas.formats, self.message
        user = message.role == "user"
        cursor = self._select(self._foot.position(), self._foot_end())
        cursor.removeSelectedText()
        cursor.setBlockFormat(formats.small(top=8, bottom=4, right=user))
        if message.attachments:
            names = ", ".join(attachment.name for attachment in message.attachments)
            cursor.insertText(f"Attached: {names}", formats.muted)
            cursor.insertBlock(formats.small(bottom=4, right=user))
        if self._status or message.state == "writing":
            cursor.insertText(self._status or "Answering…", formats.muted)
            return
        left_out = left_out_words(message.result)
        if left_out:
            cursor.insertText(left_out, formats.muted)
            cursor.insertBlock(formats.small(top=4, bottom=4))
        facts = [] if user else result_facts(message.result, message.device)
        if facts:
            # A line may break between facts, not inside one.
            cursor.insertText("  ·  ".join(fact.replace(" ", "\u00a0") for fact in facts), formats.muted)
            cursor.insertBlock(formats.small(top=4, bottom=4))
        actions = ["Copy"] if message.text else []
        if user:
            actions.append("Edit")
        elif not self._went_wrong:
            actions.append("Regenerate")
        for action in actions:
            cursor.insertText(action, formats.link(self._href(action.lower()), quiet=True))
            cursor.insertText("    ", formats.muted)
        self._write_branch(cursor)

    def _write_branch(self, cursor: QTextCursor) -> None:
        formats, branch = self._canvas.formats, self.branch
        if branch.count < 2:
            return
        earlier, later = branch.index > 0, branch.index < branch.count - 1
        cursor.insertText("‹", formats.link(self._href("previous")) if earlier else formats.muted)  # noqa: RUF001
        cursor.insertText(f" {branch.index + 1}/{branch.count} ", formats.muted)
        cursor.insertText("›", formats.link(self._href("next")) if later else formats.muted)  # noqa: RUF001

    # -- positions -------------------------------------------------------------------------------

    def _content_end(self) -> QTextCursor:
        cursor = QTextCursor(self._canvas.document)
        cursor.setPosition(self._foot.position() - 1)
        return cursor

    def _foot_end(self) -> int:
        """The foot reaches to where the next message begins, or to the end."""
        if self.next_start is not None:
            return self.next_start.position() - 1
        return self._canvas.document.characterCount() - 1

    def _select(self, start: int, end: int) -> QTextCursor:
        cursor = QTextCursor(self._canvas.document)
        cursor.setPosition(start)
        cursor.setPosition(end, QTextCursor.MoveMode.KeepAnchor)
        return cursor

    def _href(self, action: str, argument: int = 0) -> str:
        return f"{SCHEME}:{action}/{self.message.id}/{argument}"


def _mark(at: QTextCursor) -> QTextCursor:
    """A position that stays before what is inserted at it."""
    mark = QTextCursor(at)
    mark.setKeepPositionOnInsert(True)
    return mark


def _margins(*, top: int | None = None, bottom: int | None = None) -> QTextBlockFormat:
    result = QTextBlockFormat()
    if top is not None:
        result.setTopMargin(top)
    if bottom is not None:
        result.setBottomMargin(bottom)
    return result
