"""An answer cut into pieces: the same in sum however it arrives, and each character handled few times."""

from __future__ import annotations

import itertools

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def run(portions: list[str]) -> list[Piece]:
    stream = AnswerStream()
    pieces = [piece for portion in portions for piece in stream.feed(portion)]
    return pieces + stream.finish()


def summed(pieces: list[Piece]) -> list[tuple[str, str]]:
    """What stands on the screen in the end: blocks of Markdown, code and thought, in order."""
    shown: list[tuple[str, str]] = []
    tail = ""
    for piece in pieces:
        if isinstance(piece, Tail):
            tail = piece.markdown
        elif isinstance(piece, Commit):
            shown.append(("text", tail))
        elif isinstance(piece, OpenCode):
            shown.append((f"code {piece.language}", ""))
        elif isinstance(piece, Code):
            shown[-1] = (shown[-1][0], shown[-1][1] + piece.text)
        elif isinstance(piece, Thought):
            if not shown or shown[-1][0] != "thought":
                shown.append(("thought", ""))
            shown[-1] = ("thought", shown[-1][1] + piece.text)
        elif isinstance(piece, CloseThought) and not piece.answered:
            shown.append(("cut off", ""))
    return shown


ANSWER = """Intro *text*

# Head
1. one
   ```python
   def f():

       return "```"
   ```
2. two

    more of two

Last `code` paragraph
~~~
plain
~~~
"""
SHOWN = [
    ("text", "Intro *text*"),
    ("text", "# Head\n1. one"),
    ("code python", 'def f():\n\n    return "```"'),
    ("text", "2. two\n\n    more of two"),
    ("text", "Last `code` paragraph"),
    ("code ", "plain"),
]


def test_blocks_of_an_answer():
    assert summed(run([ANSWER])) == SHOWN


@given(st.lists(st.integers(0, len(ANSWER)), max_size=60))
def test_the_portions_do_not_matter(cuts: list[int]):
    edges = sorted({0, len(ANSWER), *cuts})
    assert summed(run([ANSWER[a:b] for a, b in itertools.pairwise(edges)])) == SHOWN


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("<think>why?\nwell</think>\n\nBecause.", [("thought", "why?\nwell"), ("text", "Because.")]),
        ("  <think>never closed", [("thought", "never closed"), ("cut off", "")]),
        ("Use <think> in text", [("text", "Use <think> in text")]),
        ("```\n<think>\n```", [("code ", "<think>")]),
        ("<th", [("text", "<th")]),
        ("<think></think>A </think> stays", [("text", "A </think> stays")]),
        ("<think>a</thin b</think>c", [("thought", "a</thin b"), ("text", "c")]),
    ],
)
def test_thinking_is_what_stands_first_between_the_tags(text: str, shown: list[tuple[str, str]]):
    assert summed(run([text])) == shown
    assert summed(run(list(text))) == shown


def test_a_half_open_fence_is_code_at_once_and_never_shows_its_backticks():
    stream = AnswerStream()
    pieces = [piece for character in "A\n```py\nx = 1\n``" for piece in stream.feed(character)]
    assert OpenCode("py") in pieces
    assert not any(isinstance(piece, Tail) and "`" in piece.markdown for piece in pieces)
    assert "`" not in "".join(piece.text for piece in pieces if isinstance(piece, Code))
    assert stream.feed("`\nB") == [CloseCode(), Tail("B")]


def test_backticks_that_do_not_close_are_code():
    assert summed(run(list("````\n```\nx\n````\n"))) == [("code ", "```\nx")]
    assert summed(run(["```\na``"])) == [("code ", "a``")]


def test_tables_lists_and_quotes_stay_one_block():
    for text in ("| a |\n|---|\n| 1 |", "- a\n\n- b\n\n  more", "> a\n\n> b"):
        assert summed(run([text])) == [("text", text)]


def test_a_long_code_block_is_never_sent_twice():
    stream = AnswerStream()
    code = "".join(f"    line {number}\n" for number in range(4000))
    sent = sum(
        len(piece.text)
        for at in range(0, len(code), 5)
        for piece in stream.feed(("```python\n" if at == 0 else "") + code[at : at + 5])
        if isinstance(piece, Code)
    )
    assert sent <= len(code)
