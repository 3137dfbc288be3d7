"""The transcript: what is drawn, what it costs, where the reader is left, and what a text cannot do."""

from __future__ import annotations

import time

import pytest
from PySide6.QtCore import QPoint, Qt, QUrl
from PySide6.QtGui import QDesktopServices, QTextDocument

from mblt_desktop.chat import transcript as transcript_module
from mblt_desktop.chat.transcript import WINDOW, Transcript
from mblt_desktop.chat.view import SCHEME, Branch
from mblt_desktop.store.records import Message
from mblt_desktop.theme import DARK, apply_theme


@pytest.fixture
def transcript(qtbot) -> Transcript:
    widget = Transcript()
    qtbot.addWidget(widget)
    widget.resize(820, 600)
    widget.show()
    return widget


def start(transcript: Transcript, *before: Message) -> Message:
    """Show an answer that is being written."""
    answer = Message("c", "assistant", state="writing")
    transcript.show_messages([*before, Message("c", "user", "Question"), answer], lambda _: Branch())
    return answer


def stream(transcript: Transcript, answer: Message, text: str) -> None:
    answer.text += text
    transcript.append_text(answer.id, text)


def finish(transcript: Transcript, answer: Message) -> None:
    answer.state = "done"
    transcript.finish(answer.id)


def settled(text: str, *others: Message) -> list[Message]:
    return [Message("c", "user", "Question"), Message("c", "assistant", text), *others]


ANSWER = """Some **bold** text and `code`.

1. one
2. two
   - nested

> quoted

```python
def f():
    return 1
```

| a | b |
|---|---|
| 1 | 2 |

Last paragraph."""


def test_streamed_and_loaded_answers_look_the_same(transcript: Transcript):
    answer = start(transcript)
    for character in ANSWER:
        stream(transcript, answer, character)
    finish(transcript, answer)
    streamed = transcript.toPlainText()
    heights = transcript.document().size().height()
    transcript.show_messages(settled(ANSWER), lambda _: Branch())
    assert transcript.toPlainText() == streamed
    assert transcript.document().size().height() == heights


def test_what_an_answer_waits_for_is_said_until_it_is_written_on(transcript: Transcript):
    answer = start(transcript)
    turns = [Message("c", "user", "Question"), answer]
    transcript.set_status(answer.id, "Waiting: 2 before this one")
    transcript.show_messages(settled("Another chat."), lambda _: Branch())
    transcript.set_status(answer.id, "Waiting: 1 before this one")
    transcript.show_messages(turns, lambda _: Branch())
    assert "Waiting: 1 before this one" in transcript.toPlainText()
    transcript.resize(500, 600)  # written anew for another width
    assert "Waiting: 1 before this one" in transcript.toPlainText()
    transcript.set_status(answer.id, "")
    transcript.show_messages(turns, lambda _: Branch())
    assert "Waiting" not in transcript.toPlainText()


def test_the_first_text_is_drawn_at_once_and_the_rest_at_most_every_gate(transcript, monkeypatch):
    clock = [100.0]
    monkeypatch.setattr(transcript_module.time, "monotonic", lambda: clock[0])
    answer = start(transcript)
    stream(transcript, answer, "first")
    assert "first" in transcript.toPlainText()
    clock[0] += 0.001
    stream(transcript, answer, " second")
    stream(transcript, answer, " third")
    assert "second" not in transcript.toPlainText()
    clock[0] += 1
    stream(transcript, answer, "")
    transcript.flush()
    assert "first second third" in transcript.toPlainText()


def test_a_long_code_block_costs_the_same_at_its_end_as_at_its_start(qtbot, transcript: Transcript):
    """4000 lines: the work per line must not grow with the lines before it."""
    answer = start(transcript)
    stream(transcript, answer, "```python\n")
    costs = []
    for number in range(4000):
        begin = time.perf_counter()
        stream(transcript, answer, f"    value_{number} = function(argument, {number})\n")
        transcript.flush()
        costs.append(time.perf_counter() - begin)
        if number % 50 == 0:
            qtbot.wait(1)
    early, late = sorted(costs[200:1000]), sorted(costs[3200:])
    # Medians, so that other work on the machine does not decide.
    assert late[len(late) // 2] < 4 * early[len(early) // 2]
    stream(transcript, answer, "```\n")
    finish(transcript, answer)
    assert transcript.code_of(answer.id, 0).count("\n") == 3999


def test_closing_a_fence_changes_the_document_once_per_flush(qtbot, transcript: Transcript):
    answer = start(transcript)
    changes = []
    transcript.document().contentsChanged.connect(lambda: changes.append(1))
    flushes = 0
    for part in ("Look:\n``", "`python\nx", " = 1\n``", "`\n", "Done."):
        stream(transcript, answer, part)
        transcript.flush()
        flushes += 1
    assert len(changes) <= flushes
    qtbot.waitUntil(lambda: not transcript._highlighter._jobs)
    finish(transcript, answer)
    assert transcript.code_of(answer.id, 0) == "x = 1"
    assert "Done." in transcript.toPlainText()


def test_code_is_coloured_after_its_fence_closed(qtbot, transcript: Transcript):
    transcript.show_messages(settled("```python\ndef f():\n    return '조석'\n```"), lambda _: Branch())
    qtbot.waitUntil(lambda: not transcript._highlighter._jobs)
    block = transcript.document().find("def f").block()
    first = block.layout().formats()[0]
    assert (first.start, first.length) == (0, 3)
    assert first.format.foreground().color().name() == "#b07be0"


def test_the_view_follows_only_a_reader_at_the_end(qtbot, transcript: Transcript):
    earlier = [message for number in range(10) for message in settled(f"Answer {number} " * 60)]
    answer = start(transcript, *earlier)
    bar = transcript.verticalScrollBar()
    assert bar.value() == bar.maximum() > 0
    stream(transcript, answer, "line\n\n" * 30)
    transcript.flush()
    assert bar.value() == bar.maximum()
    bar.setValue(bar.maximum() - 300)
    pinned = bar.value()
    assert transcript._latest.isVisible()
    for number in range(20):
        stream(transcript, answer, f"```py\nx = {number}\n```\n| a |\n|---|\n| b |\n\n")
        transcript.flush()
        assert bar.value() == pinned
    finish(transcript, answer)
    assert bar.value() == pinned
    qtbot.mouseClick(transcript._latest, Qt.MouseButton.LeftButton)
    assert bar.value() == bar.maximum()
    assert not transcript._latest.isVisible()


def test_a_very_long_chat_is_written_from_its_end_and_grows_upwards_in_place(qtbot, transcript: Transcript):
    messages = [message for number in range(1000) for message in settled(f"Answer number {number}. " * 40)]
    transcript.show_messages(messages, lambda _: Branch())
    assert len(transcript._views) == WINDOW
    assert "Answer number 999." in transcript.toPlainText()
    bar = transcript.verticalScrollBar()
    bar.setValue(0)
    qtbot.waitUntil(lambda: len(transcript._views) == 2 * WINDOW)
    # What was at the top of the window is still there, with the earlier messages above it.
    top = transcript.cursorForPosition(QPoint(20, 20))
    assert bar.value() > 0
    assert abs(transcript._views[WINDOW].position - top.position()) < 200
    texts = [view.message for view in transcript._views]
    assert texts == messages[-2 * WINDOW :]


def test_an_answer_goes_on_after_earlier_messages_were_written_above_it(qtbot, transcript: Transcript):
    earlier = [message for number in range(60) for message in settled(f"Answer {number} " * 60)]
    answer = start(transcript, *earlier)
    stream(transcript, answer, "begin ")
    transcript.verticalScrollBar().setValue(0)
    qtbot.waitUntil(lambda: len(transcript._views) == 2 * WINDOW)
    stream(transcript, answer, "*end*")
    finish(transcript, answer)
    assert "begin end" in transcript.toPlainText()


def test_the_theme_changes_the_colours_and_nothing_else(qapp, transcript: Transcript):
    answer = start(transcript)
    stream(transcript, answer, ANSWER[:60])
    transcript.flush()
    before = transcript.toPlainText()
    apply_theme(qapp, "dark")
    assert transcript.toPlainText() == before
    cursor = transcript.document().find("bold")
    assert cursor.charFormat().foreground().color().name().upper() == DARK.text
    stream(transcript, answer, ANSWER[60:])
    finish(transcript, answer)
    assert "Last paragraph." in transcript.toPlainText()


def test_a_narrow_window_keeps_the_text(qtbot, transcript: Transcript):
    transcript.show_messages(settled(ANSWER), lambda _: Branch())
    before = transcript.toPlainText()
    transcript.resize(420, 500)
    assert transcript.toPlainText() == before
    assert transcript.horizontalScrollBar().maximum() == 0


def test_a_wide_table_scrolls_and_half_of_one_is_text(transcript: Transcript):
    table = "|" + "column|" * 40 + "\n|" + "---|" * 40 + "\n|" + "`a\\|b`|" * 40
    transcript.show_messages(settled(table), lambda _: Branch())
    assert transcript.horizontalScrollBar().maximum() > 0
    transcript.show_messages(settled("| not | yet"), lambda _: Branch())
    assert "| not | yet" in transcript.toPlainText()


def test_thinking_is_folded_and_can_be_read(qtbot, transcript: Transcript):
    answer = start(transcript)
    stream(transcript, answer, "<think>First this")
    transcript.flush()
    assert "First this" not in transcript.toPlainText()
    transcript.anchorClicked.emit(QUrl(f"{SCHEME}:thought/{answer.id}/0"))
    assert "First this" in transcript.toPlainText()
    stream(transcript, answer, ", then that.</think>The answer.")
    finish(transcript, answer)
    assert "First this, then that." in transcript.toPlainText()
    transcript.anchorClicked.emit(QUrl(f"{SCHEME}:thought/{answer.id}/0"))
    assert "then that" not in transcript.toPlainText()
    assert "The answer." in transcript.toPlainText()


def test_an_answer_that_is_nothing_but_thought_is_shown(transcript: Transcript):
    answer = start(transcript)
    stream(transcript, answer, "<think>cut off in the middle")
    finish(transcript, answer)
    assert "cut off in the middle" in transcript.toPlainText()
    transcript.show_messages(settled("<think>cut off in the middle"), lambda _: Branch())
    assert "cut off in the middle" in transcript.toPlainText()


# -- text is data -----------------------------------------------------------------------------------


def test_html_is_shown_as_written_and_pictures_are_not_fetched(transcript: Transcript, tmp_path):
    picture = tmp_path / "secret.png"
    picture.write_bytes(b"")
    asked = []
    transcript.loadResource = lambda kind, name: asked.append(name)  # what Qt calls for anything it wants
    text = f'<b>x</b> <img src="file://{picture}"> ![alt](file://{picture}) ![](http://a/b.png)'
    transcript.show_messages(settled(text), lambda _: Branch())
    transcript.grab()
    assert "<b>x</b>" in transcript.toPlainText()
    assert "[picture “alt”, not fetched]" in transcript.toPlainText()
    assert asked == []
    assert (
        Transcript.loadResource(transcript, QTextDocument.ResourceType.ImageResource.value, QUrl("x")) is None
    )


def test_links_open_only_on_a_click_and_only_on_the_web(transcript: Transcript, monkeypatch):
    opened = []
    monkeypatch.setattr(QDesktopServices, "openUrl", opened.append)
    text = "[a](https://a.example) [b](file:///etc/passwd) [c](javascript:x) <https://d.example>"
    transcript.show_messages(settled(text), lambda _: Branch())
    for url in ("https://a.example", "file:///etc/passwd", "javascript:x", "mblt-copy:copy/x/0"):
        transcript.anchorClicked.emit(QUrl(url))
    assert [url.toString() for url in opened] == ["https://a.example"]


def test_a_text_cannot_press_our_buttons(qtbot, transcript: Transcript):
    pressed = []
    transcript.action_requested.connect(lambda *action: pressed.append(action))
    messages = settled("[press](mblt-0000000000000000:regenerate/x/0)")
    transcript.show_messages(messages, lambda _: Branch())
    transcript.anchorClicked.emit(QUrl("mblt-0000000000000000:regenerate/x/0"))
    assert pressed == []
    assert SCHEME not in transcript_module.__doc__


def test_the_users_words_are_shown_exactly(transcript: Transcript):
    words = "# not a heading\n**not bold** <think>x</think>\n```\n<b>"
    transcript.show_messages([Message("c", "user", words)], lambda _: Branch())
    assert words in transcript.toPlainText()
