"""Conversations survive: restarts, deletes taken back, branches, and a killed program."""

from __future__ import annotations

import json
import os
import signal
import sqlite3
import subprocess
import sys
import textwrap
from collections.abc import Iterator
from pathlib import Path

import pytest

from mblt_desktop.paths import Paths
from mblt_desktop.store.conversations import find_conversations, title_from
from mblt_desktop.store.export import to_json, to_markdown
from mblt_desktop.store.records import Attachment, Conversation, Message, Result
from mblt_desktop.store.store import Store
from runtime.errors import ErrorInfo
from runtime.messages import Timings, Usage


@pytest.fixture
def store(qapp, paths: Paths) -> Iterator[Store]:
    store = Store(paths.database)
    yield store
    store.close()


def reopened(store: Store, paths: Paths) -> Store:
    assert store.close()
    return Store(paths.database)


def ask(store: Store, question: str, answer: str = "", **more) -> tuple[Conversation, Message, Message]:
    conversation = store.conversations.create()
    user = Message(conversation.id, "user", question)
    store.conversations.add(user)
    reply = Message(conversation.id, "assistant", parent_id=user.id, state="writing", **more)
    store.conversations.add(reply)
    store.conversations.append_text(reply, answer)
    return conversation, user, reply


def test_a_conversation_is_the_same_after_a_restart(store: Store, paths: Paths):
    conversation, user, reply = ask(store, "왜 하루에 두 번?", "Because of **two** bulges.", model="SmolLM2")
    result = Result("end", Usage(571, 540, 214), Timings(0.003, 0.001, 0.002, 0.171, 8.1, 0.18, 8.3))
    store.conversations.finish(reply, "done", result, "Simulated ARIES (CPU)")
    store.conversations.update(
        conversation.id, system_prompt="Be brief.", sampling={"sampling.top_k": 5}, draft="and?"
    )
    again = reopened(store, paths)
    loaded = again.conversations.get(conversation.id)
    assert loaded == conversation
    assert again.conversations.tree(conversation.id).path(loaded.leaf_id) == [user, reply]
    assert (loaded.title, loaded.draft, loaded.sampling) == (
        "왜 하루에 두 번?",
        "and?",
        {"sampling.top_k": 5},
    )
    again.close()


def test_a_new_chat_is_not_listed_before_something_happens_in_it(store: Store, paths: Paths):
    conversation = store.conversations.create()
    assert store.conversations.list() == []
    store.conversations.update(conversation.id, draft="half a thought")
    assert store.conversations.list() == [conversation]


def test_branches_and_which_one_is_shown(store: Store, paths: Paths):
    conversation, user, first = ask(store, "Q", "one")
    second = Message(conversation.id, "assistant", "two", user.id)
    store.conversations.add(second)
    edited = Message(conversation.id, "user", "Q, but better")
    store.conversations.add(edited)
    store.conversations.update(conversation.id, leaf_id=first.id)
    again = reopened(store, paths)
    tree = again.conversations.tree(conversation.id)
    assert [m.text for m in tree.path(first.id)] == ["Q", "one"]
    assert [m.text for m in tree.siblings(first.id)] == ["one", "two"]
    assert [m.text for m in tree.siblings(user.id)] == ["Q", "Q, but better"]
    assert tree.newest_leaf(user.id) == second.id
    assert again.conversations.get(conversation.id).leaf_id == first.id
    again.close()


def test_delete_can_be_taken_back_until_the_next_start(store: Store, paths: Paths):
    kept, *_ = ask(store, "kept")
    gone, *_ = ask(store, "gone")
    store.conversations.delete(kept.id)
    store.conversations.delete(gone.id)
    store.conversations.restore(kept.id)
    assert store.conversations.list() == [kept]
    again = reopened(store, paths)
    assert [c.title for c in again.conversations.list()] == ["kept"]
    again.close()
    with sqlite3.connect(paths.database) as db:
        assert db.execute(
            "SELECT count(*) FROM messages WHERE conversation_id = ?", (gone.id,)
        ).fetchone() == (0,)


def test_an_answer_goes_on_being_saved_after_its_chat_was_deleted_and_restored(store: Store, paths: Paths):
    conversation, _, reply = ask(store, "Q", "first ")
    store.conversations.delete(conversation.id)
    store.conversations.append_text(reply, "second")
    store.conversations.finish(reply, "done", Result("end"))
    store.conversations.restore(conversation.id)
    again = reopened(store, paths)
    assert again.conversations.tree(conversation.id).get(reply.id).text == "first second"
    again.close()


def test_pinned_first_then_last_used(store: Store):
    old, *_ = ask(store, "old")
    ask(store, "new")
    assert [c.title for c in store.conversations.list()] == ["new", "old"]
    store.conversations.update(old.id, pinned=True)
    assert [c.title for c in store.conversations.list()] == ["old", "new"]


def test_titles_come_from_the_first_line_and_stop_between_words():
    assert title_from("\n  Sea and tides \nmore") == "Sea and tides"
    assert title_from("word " * 20) == "word word word word word word word word word…"
    assert title_from(" \n ") == ""


def test_a_title_of_the_users_own_stays(store: Store):
    conversation = store.conversations.create()
    store.conversations.update(conversation.id, title="Mine", titled=True)
    store.conversations.add(Message(conversation.id, "user", "Something else"))
    assert conversation.title == "Mine"


@pytest.mark.parametrize(
    ("words", "found"),
    [
        ("tide", ["Sea"]),
        ("MOON pulls", ["Sea"]),
        ("조석", ["Sea"]),
        ("100%", ["Odd"]),
        ("_", ["Odd"]),
        ("nothing", []),
    ],
)
def test_search_reads_titles_and_messages(qtbot, store: Store, words: str, found: list[str]):
    ask(store, "Sea", "The Moon pulls; 조석 is the word for tide.")
    ask(store, "Odd", "100% of snake_case")
    answers = []
    store.ask(lambda db: find_conversations(db, words), answers.append)
    qtbot.waitUntil(lambda: len(answers) == 1)
    titles = [store.conversations.get(conversation_id).title for conversation_id, _ in answers[0]]
    assert titles == found


def test_one_damaged_row_does_not_hide_the_rest(store: Store, paths: Paths):
    conversation, _, reply = ask(store, "Q", "A")
    store.close()
    with sqlite3.connect(paths.database) as db:
        db.execute(
            "UPDATE messages SET result = '{\"usage\": 3', attachments = 'x' WHERE id = ?", (reply.id,)
        )
        db.execute("UPDATE conversations SET sampling = '[1'")
    again = Store(paths.database)
    assert [m.text for m in again.conversations.tree(conversation.id).all()] == ["Q", "A"]
    again.close()


def test_exports_hold_the_branch_for_people_and_the_tree_for_programs(store: Store):
    conversation, user, first = ask(store, "Q", "one", model="SmolLM2")
    error = ErrorInfo("x", "It broke.")
    store.conversations.finish(first, "failed", Result(error=error), "Simulated ARIES (CPU)")
    user.attachments = (Attachment("/media/cat.png", "cat.png"),)
    store.conversations.add(Message(conversation.id, "assistant", "two", user.id))
    tree = store.conversations.tree(conversation.id)
    markdown = to_markdown(conversation, tree)
    assert "two" in markdown
    assert "one" not in markdown
    assert "cat.png" in markdown
    data = json.loads(to_json(conversation, tree))
    assert [m["text"] for m in data["messages"]] == ["Q", "one", "two"]
    assert data["messages"][0]["children"] == [m["id"] for m in data["messages"][1:]]
    assert data["messages"][1]["result"]["error"]["summary"] == "It broke."


KILLED = textwrap.dedent("""
    import os, sys, time
    from pathlib import Path
    from PySide6.QtCore import QCoreApplication, QTimer
    from mblt_desktop.store.records import Message
    from mblt_desktop.store.store import Store

    app = QCoreApplication([])
    store = Store(Path(sys.argv[1]))
    chat = store.conversations.create()
    question = Message(chat.id, "user", "Q")
    store.conversations.add(question)
    reply = Message(chat.id, "assistant", parent_id=question.id, state="writing")
    store.conversations.add(reply)
    number = 0

    def token():
        global number
        store.conversations.append_text(reply, f"{number} ")
        # What the window has shown, and when, goes to the parent through the pipe.
        os.write(1, f"{number} {time.monotonic()}\\n".encode())
        number += 1

    timer = QTimer(interval=5)
    timer.timeout.connect(token)
    timer.start()
    app.exec()
""")


def test_a_killed_program_loses_less_than_a_second_of_an_answer(qapp, paths: Paths, tmp_path: Path):
    process = subprocess.Popen(
        [sys.executable, "-c", KILLED, str(paths.database)], stdout=subprocess.PIPE, env=os.environ
    )
    lines = []
    for line in process.stdout:
        lines.append(line)
        if len(lines) == 300:
            break
    process.send_signal(signal.SIGKILL)
    lines += process.stdout.readlines()
    process.wait()
    process.stdout.close()
    shown = {
        int(number): float(when) for number, when in (line.split() for line in lines if line.endswith(b"\n"))
    }
    store = Store(paths.database)
    (chat,) = store.conversations.list()
    question, reply = store.conversations.tree(chat.id).path(chat.leaf_id)
    store.close()
    saved = [int(number) for number in reply.text.split()]
    assert saved == list(range(len(saved)))
    assert (question.text, reply.state) == ("Q", "interrupted")
    assert shown[max(shown)] - shown[saved[-1]] <= 1.0
