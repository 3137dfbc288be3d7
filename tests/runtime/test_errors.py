"""Every failure has its words: what happened, what is unharmed, and what to do; none of them is forgotten."""

from __future__ import annotations

import ast
import errno
from collections.abc import Iterator
from pathlib import Path

import pytest

from mblt_desktop.display import DisplayError
from mblt_desktop.session import ReportedError
from runtime import errors
from runtime.catalog.download import AccessRefusedError
from runtime.errors import (
    DiskFullError,
    ErrorInfo,
    MbltError,
    ReadOnlyError,
    StorageError,
    storage_error,
    to_info,
)
from tests.test_boundaries import modules


def error_types() -> dict[str, type[MbltError]]:
    """The whole tree by name, with what other modules add to it."""
    found: dict[str, type[MbltError]] = {}
    rest: list[type[MbltError]] = [MbltError]
    while rest:
        kind = rest.pop()
        found[kind.__name__] = kind
        rest += kind.__subclasses__()
    return found


def raised() -> Iterator[tuple[str, ast.Call]]:
    """Every place in both packages that makes an error, and how."""
    names = error_types()
    for module, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.Call) and ast.unparse(node.func).rpartition(".")[2] in names:
                yield f"{module}:{node.lineno}", node


def test_there_is_something_to_check() -> None:
    assert len(list(raised())) > 100
    assert {DisplayError, AccessRefusedError} <= set(error_types().values())  # added by other modules
    classes = {name for name, value in vars(errors).items() if isinstance(value, type)} - {"ErrorInfo"}
    assert classes & set(error_types()) == {name for name in classes if name.endswith("Error")}


def test_every_error_says_what_to_do() -> None:
    forgotten = [
        place
        for place, call in raised()
        if not {"remedy", None} & {keyword.arg for keyword in call.keywords}  # None: **words of the caller
        and ast.unparse(call.func) != ReportedError.__name__  # has the words it was reported with
    ]
    assert forgotten == []


def test_no_error_is_given_empty_words() -> None:
    empty = [
        place
        for place, call in raised()
        for part in (*call.args, *(keyword.value for keyword in call.keywords))
        if isinstance(part, ast.Constant) and part.value == ""
    ]
    assert empty == []


@pytest.mark.parametrize("kind", error_types().values(), ids=lambda kind: kind.__name__)
def test_every_branch_says_what_is_unharmed(kind: type[MbltError]) -> None:
    assert kind.usually_unharmed.endswith(".")


def test_the_sentence_is_in_order_and_the_closer_words_win() -> None:
    usual = StorageError("The file is gone.", remedy="Look for it.")
    assert usual.info.sentence() == "The file is gone. What was saved before is unharmed. Look for it."
    closer = StorageError("The file is gone.", remedy="Look for it.", unharmed="The copy is there.")
    assert closer.info.sentence() == "The file is gone. The copy is there. Look for it."


def test_a_reported_failure_is_told_in_the_words_it_came_with() -> None:
    told = ErrorInfo("device.lost", "The board is gone.", "Plug it in.", "Chats are saved.", "details")
    assert ReportedError(told).info == told


@pytest.mark.parametrize(
    ("number", "kind"),
    [
        (errno.ENOSPC, DiskFullError),
        (errno.EDQUOT, DiskFullError),
        (errno.EROFS, ReadOnlyError),
        (errno.EACCES, ReadOnlyError),
        (errno.EIO, StorageError),
    ],
)
def test_what_the_disk_refuses_is_told_apart_and_named(number: int, kind: type[StorageError]) -> None:
    error = storage_error(OSError(number, "no"), str(Path("/somewhere/chats.db")))
    assert type(error) is kind
    assert "/somewhere/chats.db" in error.summary
    assert error.remedy


def test_a_fault_of_ours_keeps_its_traceback_for_the_details() -> None:
    def fail() -> None:
        raise ZeroDivisionError("by nothing")

    with pytest.raises(ZeroDivisionError) as caught:
        fail()
    info = to_info(caught.value)
    assert info.code == "internal"
    assert "Traceback" not in info.sentence()
    assert "in fail" in info.detail
    assert info.unharmed
    assert info.remedy
