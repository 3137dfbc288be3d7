"""The answers as a file: nothing in them is a formula, a table, a picture or a link any more."""

from __future__ import annotations

import csv
import io
from dataclasses import replace
from html.parser import HTMLParser

import pytest
from PySide6.QtGui import QTextDocument, QTextTable

from mblt_desktop.image.round_export import COLUMNS, to_csv, to_markdown
from mblt_desktop.image.rounds import Item
from mblt_desktop.store.records import ImageAnswer, ImageRecord, ImageRound, Result
from runtime.errors import ImageError

ASKED = ImageRound("What is it?", ("a", "b", "c"))
DONE = ImageAnswer("a", "What is it?", "", "Qwen", "ARIES", Result("end"), created_at=0.0)
HOSTILE = "a | b\n![x](http://evil.example/x.png) <img src=x onerror=alert(1)> `code` \\| [go](http://e)"


def item(text: str, name: str = "a.png") -> Item:
    return Item(ImageRecord("/m/a.png", name, 1, 1), "answered", answer=replace(DONE, text=text))


def rows_of(text: str) -> list[list[str]]:
    assert text.startswith("\ufeff")
    return list(csv.reader(io.StringIO(text.removeprefix("\ufeff"), newline="")))


def test_a_line_for_each_picture_also_without_an_answer() -> None:
    failed = Result(error=ImageError("It is damaged.", remedy="Choose another.").info)
    items = [
        item("A cat,\n“black”"),
        Item(ImageRecord("/m/b", "b.png", 1, 1), "failed", answer=replace(DONE, result=failed)),
        Item(ImageRecord("/m/c", "c.png", 1, 1), "waiting", text="half an ans"),
    ]
    head, first, second, third = rows_of(to_csv(ASKED, items))
    assert head == ["Picture", "Question", *COLUMNS[1:]]
    assert first[:4] == ["a.png", "What is it?", "A cat,\n“black”", "answered"]
    assert second[2].startswith("It is damaged.")
    assert third[2:] == ["", "waiting", "", "", ""]


@pytest.mark.parametrize(
    "text",
    [
        "=HYPERLINK(1)",
        "+1",
        "-2+3",
        "@SUM(A1)",
        "\t=1",
        "\r=1",
        " \n=1",
        "\x00=1",
        "\u200b=1",
        "\ufeff=1",
        "\uff1d1",
        "\uff0b1",
    ],
)
def test_no_field_is_a_formula(text: str) -> None:
    ((_, question, answer, *_),) = rows_of(to_csv(replace(ASKED, question=text), [item(text, text)]))[1:]
    assert answer.startswith("'")
    assert question.startswith("'")
    assert rows_of(to_csv(ASKED, [item("x", text)]))[1][0].startswith("'")


def test_other_text_stays_as_it_is() -> None:
    for text in ("40 = 40", "한국어 답", "e\u200dmoji 👩‍👩‍👧", "", "2026-11-30"):
        assert rows_of(to_csv(ASKED, [item(text)]))[1][2] == text


class Tags(HTMLParser):
    """Every tag in a page."""

    def __init__(self) -> None:
        super().__init__()
        self.seen: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list) -> None:
        self.seen.add(tag)


def test_in_markdown_marks_are_shown_and_not_followed(qapp: object) -> None:
    text = to_markdown(replace(ASKED, question="# Q | ?\n| x |"), [item(HOSTILE, "a|b.png"), item("plain")])
    document = QTextDocument()
    # Qt takes the rest of a document for HTML once it has seen a line break in a table's cell.
    features = QTextDocument.MarkdownFeature
    document.setMarkdown(text, features.MarkdownDialectGitHub | features.MarkdownNoHTML)
    tables = [frame for frame in document.rootFrame().childFrames() if isinstance(frame, QTextTable)]
    assert [(table.rows(), table.columns()) for table in tables] == [(3, len(COLUMNS))]
    shown = tables[0].cellAt(1, 0).firstCursorPosition().block().text()
    assert shown == "a|b.png"
    tags = Tags()
    tags.feed(document.toHtml())
    assert not tags.seen & {"img", "a", "code"}
    assert document.toPlainText().startswith("Answers about pictures\nQuestion: # Q | ? | x |")
    assert "![x](http://evil.example/x.png)" in document.toPlainText()
