"""The answers of a round as a file: CSV for tables, Markdown for people.

Questions, names and answers are somebody else's text: in CSV none of them begins a formula, in Markdown none
is a table, a picture or a link.
"""

from __future__ import annotations

import csv
import io
import re
import unicodedata
from collections.abc import Sequence
from datetime import datetime

from mblt_desktop.image.rounds import Item
from mblt_desktop.store.records import ImageRound

COLUMNS = ("Picture", "Answer", "State", "Model", "Device", "Answered")
STATES = {
    "left": "not answered",
    "waiting": "waiting",
    "writing": "being answered",
    "stopping": "being stopped",
    "answered": "answered",
    "failed": "failed",
}
_CONTROL = dict.fromkeys({*range(0x20), *range(0x7F, 0xA0)} - {ord("\n"), ord("\t")})
"""Control characters, to be left out."""
_MARKS = re.compile(r"([\\`*_{}\[\]<>()#!|~$&])")


def to_csv(asked: ImageRound, items: Sequence[Item]) -> str:
    """One line a picture, every field in quotes, with a mark that makes spreadsheets read it as UTF-8.

    A field that a spreadsheet would take for a formula has an apostrophe in front.
    """
    stream = io.StringIO()
    writer = csv.writer(stream, quoting=csv.QUOTE_ALL, lineterminator="\r\n")
    writer.writerow(("Picture", "Question", *COLUMNS[1:]))
    for item in items:
        name, *rest = _fields(item)
        writer.writerow([_as_text(field) for field in (name, asked.question, *rest)])
    return "\ufeff" + stream.getvalue()


def to_markdown(asked: ImageRound, items: Sequence[Item]) -> str:
    """The question over a table; marks of the texts are shown, not followed."""
    lines = ["# Answers about pictures", "", f"**Question:** {_inert(' '.join(asked.question.split()))}", ""]
    lines += ["| " + " | ".join(COLUMNS) + " |", "|" + " --- |" * len(COLUMNS)]
    lines += ["| " + " | ".join(_inert(field) for field in _fields(item)) + " |" for item in items]
    return "\n".join(lines) + "\n"


def answer_words(item: Item) -> str:
    """The answer, or why there is none."""
    answer = item.answer if item.state in ("answered", "failed") else None
    if answer is None:
        return item.text
    return answer.result.error.sentence() if answer.result.error is not None else answer.text


def _fields(item: Item) -> tuple[str, ...]:
    answer = item.answer if item.state in ("answered", "failed") else None
    text = answer_words(item) if answer is not None else ""
    if answer is None:
        return (item.record.name, text, STATES[item.state], "", "", "")
    when = datetime.fromtimestamp(answer.created_at).strftime("%Y-%m-%d %H:%M")
    return (item.record.name, text, STATES[item.state], answer.model, answer.device, when)


def _as_text(field: str) -> str:
    plain = field.translate(_CONTROL)
    return f"'{plain}" if _is_formula(plain) else plain


def _is_formula(text: str) -> bool:
    """Whether a spreadsheet may take it for one: also behind what is not seen, and with full-width signs."""
    if text.startswith("\t"):
        return True
    first = next((one for one in text if not one.isspace() and unicodedata.category(one) != "Cf"), "")
    return unicodedata.normalize("NFKC", first)[:1] in ("=", "+", "-", "@")


def _inert(field: str) -> str:
    """On one line of a table, with every mark shown."""
    lines = field.translate(_CONTROL).replace("\t", " ").strip().split("\n")
    return "<br>".join(_MARKS.sub(r"\\\1", line) for line in lines)
