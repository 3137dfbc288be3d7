"""What of a conversation is reused, from where, and why no more: the engine on a tiny real model."""

from __future__ import annotations

import itertools
import resource
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from runtime.config import KvOptions
from runtime.kv_store import Record
from runtime.messages import ForgetConversation, MissCause, Reuse
from runtime.simulator.build import build_artifact
from tests.runtime.families.numbers import Lane
from tests.simulator.checkpoints import greedy, make_checkpoint, plain_model

Expected = Callable[[Sequence[int], int], list[int]]
NAMES = map(str, itertools.count())
SYSTEM, QUESTION = ("system", [1, 2, 3]), ("user", list(range(10, 40)))


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return make_checkpoint(tmp_path_factory.mktemp("kv") / "checkpoint", "llama")


@pytest.fixture(scope="module")
def folder(checkpoint: Path) -> Path:
    made = checkpoint.parent / "artifact"
    build_artifact(checkpoint, made, max_batch_size=1, context_length=200, prefill_chunk=16)
    return made


@pytest.fixture(scope="module")
def expected(checkpoint: Path) -> Expected:
    plain = plain_model(checkpoint)
    return lambda prompt, count: greedy(plain, list(prompt), count)


class Talk:
    """One conversation after another, on one slot."""

    def __init__(self, folder: Path, data: Path, expected: Expected, **kv: Any) -> None:
        self.lane = Lane(folder, data, KvOptions(**kv), max_batch_size=1)
        self._expected = expected

    def ask(self, conversation: str, *turns: tuple[str, list[int]], model_id: str = "tiny") -> list[int]:
        """The answer, right whatever was reused."""
        self.last = f"request-{next(NAMES)}"
        self.lane.ask_turns(self.last, conversation, turns, count=4, model_id=model_id)
        self.lane.run()
        answer = self.lane.answer(self.last)
        assert answer == self._expected([token for _, ids in turns for token in ids], 4)
        return answer

    @property
    def reuse(self) -> Reuse:
        found = self.lane.finished(self.last).reuse
        assert found is not None
        return found

    @property
    def cached(self) -> int:
        return self.lane.finished(self.last).usage.cached


@pytest.fixture
def start(folder: Path, tmp_path: Path, expected: Expected) -> Iterator[Callable[..., Talk]]:
    made: list[Talk] = []

    def start(**kv: Any) -> Talk:
        made.append(Talk(folder, tmp_path / "data", expected, **kv))
        return made[-1]

    yield start
    for talk in made:
        talk.lane.engine.close()


@pytest.fixture
def name() -> str:
    return f"kv-{next(NAMES)}"


def test_the_next_turn_reuses_everything(start: Callable[..., Talk], name: str) -> None:
    talk = start()
    answer = talk.ask(name, SYSTEM, QUESTION)
    assert (talk.cached, talk.reuse) == (0, Reuse(0, "new"))
    talk.ask(name, SYSTEM, QUESTION, ("assistant", answer), ("user", [50, 51]))
    assert (talk.cached, talk.reuse) == (36, Reuse(36))  # the last token of the answer was never computed


@pytest.mark.parametrize(
    ("turns", "cause", "turn", "first"),
    [
        ([("system", [1, 9, 3]), QUESTION], "system", 0, 1),
        ([SYSTEM, ("user", [*range(10, 20), 77, 78])], "edited", 1, 13),
        ([SYSTEM, QUESTION, ("assistant", [88, 89]), ("user", [50])], "edited", 2, 33),
    ],
)
def test_a_miss_names_the_token_and_the_cause(
    start: Callable[..., Talk],
    name: str,
    turns: list[tuple[str, list[int]]],
    cause: MissCause,
    turn: int,
    first: int,
) -> None:
    talk = start()
    talk.ask(name, SYSTEM, QUESTION)
    talk.ask(name, *turns)
    token = f"{[token for _, ids in turns for token in ids][first]} "
    assert talk.reuse == Reuse(36, cause, first, token, turn)
    assert talk.cached == first


def test_what_was_dropped_and_what_was_reloaded_is_said(start: Callable[..., Talk], name: str) -> None:
    talk = start(conversations=1)
    talk.ask(name, QUESTION)
    talk.ask(f"{name}-other", QUESTION)
    talk.ask(name, QUESTION)
    assert (talk.cached, talk.reuse) == (0, Reuse(33, "evicted"))
    talk.lane.unload()
    talk.lane.load()
    talk.ask(name, QUESTION)
    assert (talk.cached, talk.reuse) == (0, Reuse(33, "layout"))  # four conversations in parallel now
    talk.lane.load()
    talk.ask(name, QUESTION)
    assert talk.reuse == Reuse(33, "reloaded")
    talk.lane.load("renamed")
    talk.ask(name, QUESTION, model_id="renamed")
    assert talk.reuse == Reuse(33, "model")


def test_kv_in_memory_is_loaded_if_that_beats_computing(start: Callable[..., Talk], name: str) -> None:
    talk = start(load_margin=1000.0)
    for conversation in (name, f"{name}-other", name):
        talk.ask(conversation, QUESTION)
    assert (talk.cached, talk.reuse) == (29, Reuse(33))
    talk.lane.set_kv(load_margin=1e-9)
    talk.ask(f"{name}-other", QUESTION)
    assert (talk.cached, talk.reuse) == (0, Reuse(33, "cheaper"))


def test_a_short_hit_is_computed_again(start: Callable[..., Talk], name: str) -> None:
    talk = start(minimum_hit=30)
    for conversation in (name, f"{name}-other", name):
        talk.ask(conversation, QUESTION)
    assert (talk.cached, talk.reuse.cause) == (0, "cheaper")
    talk.ask(name, QUESTION)
    assert talk.cached == 29  # what is on the device costs nothing


def test_kv_lost_in_memory_is_computed_again(start: Callable[..., Talk], name: str) -> None:
    talk = start()
    talk.ask(name, QUESTION)
    layer = talk.lane.engine._caches._caches.entries()[0][1].cache.layers[0]
    talk.ask(f"{name}-other", QUESTION)
    layer._host_valid_len = 3  # as after a board that was taken away
    talk.ask(name, QUESTION)
    assert (talk.cached, talk.reuse.cause) == (0, "rejected")


@pytest.mark.parametrize("steps", [2, 8])
def test_an_answer_whose_kv_is_lost_while_it_gives_way_comes_out_right(
    start: Callable[..., Talk], name: str, expected: Expected, steps: int
) -> None:
    lane = start().lane
    lane.ask(f"behind-{name}", name, QUESTION[1], priority="background")
    lane.run(steps)  # in the prompt, or in the answer
    layer = lane.engine._caches._caches.entries()[0][1].cache.layers[0]
    lane.ask(f"quick-{name}", f"{name}-other", [5, 6, 7])
    lane.run(4)
    layer._host_valid_len = 3
    lane.run()
    assert lane.answer(f"behind-{name}") == expected(QUESTION[1], 10)
    assert lane.answer(f"quick-{name}") == expected([5, 6, 7], 10)


def test_the_measurement_after_a_load_knows_both_times_and_leaves_nothing(
    start: Callable[..., Talk], name: str
) -> None:
    talk = start(calibrate=True)
    talk.lane.run()
    keeper = talk.lane.engine._caches
    assert keeper._costs.prefill_seconds(128) > 0
    assert keeper._costs.load_seconds(100_000) > 0
    assert keeper._caches.entries() == []
    talk.ask(name, QUESTION)
    assert talk.reuse == Reuse(0, "new")


# -- the disk ------------------------------------------------------------------------------------------


def kept(data: Path) -> list[Path]:
    return sorted((data / "kv").glob("*/*/data-*/*.bin"))


def test_a_conversation_goes_on_after_a_restart(
    start: Callable[..., Talk], name: str, tmp_path: Path
) -> None:
    talk = start(keep_on_disk=True)
    answer = talk.ask(name, SYSTEM, QUESTION)
    talk.lane.engine.close()
    assert kept(tmp_path / "data")
    again = start(keep_on_disk=True)
    again.ask(name, SYSTEM, QUESTION, ("assistant", answer), ("user", [50, 51]))
    assert (again.cached, again.reuse) == (36, Reuse(36, from_disk=True))
    again.ask(name, SYSTEM, ("user", [60, 61]))
    assert (again.cached, again.reuse.cause, again.reuse.turn) == (3, "edited", 1)


def test_the_cause_is_found_over_a_restart(start: Callable[..., Talk], name: str) -> None:
    talk = start(keep_on_disk=True)
    talk.ask(name, SYSTEM, QUESTION)
    talk.lane.unload()
    again = start(keep_on_disk=True)
    again.ask(name, ("system", [1, 2, 4]), QUESTION)
    assert (again.cached, again.reuse) == (2, Reuse(36, "system", 2, "4 ", 0, from_disk=True))


def test_nothing_is_written_unless_asked_for(start: Callable[..., Talk], name: str, tmp_path: Path) -> None:
    talk = start(conversations=1)
    talk.ask(name, QUESTION)
    talk.ask(f"{name}-other", QUESTION)
    talk.lane.engine.close()
    assert not (tmp_path / "data" / "kv").exists()


def test_what_is_dropped_from_memory_comes_back_from_the_disk(start: Callable[..., Talk], name: str) -> None:
    talk = start(conversations=1, keep_on_disk=True)
    for conversation in (name, f"{name}-other", name):
        talk.ask(conversation, QUESTION)
    assert (talk.cached, talk.reuse) == (29, Reuse(33, from_disk=True))


@pytest.mark.parametrize("harm", ["flip", "cut", "remove", "manifest", "artifact"])
def test_kv_that_does_not_pass_its_check_is_computed_again(
    start: Callable[..., Talk], name: str, tmp_path: Path, folder: Path, harm: str
) -> None:
    talk = start(keep_on_disk=True)
    talk.ask(name, QUESTION)
    talk.lane.engine.close()
    file = kept(tmp_path / "data")[0]
    content = file.read_bytes()
    if harm == "flip":
        file.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    elif harm == "cut":
        file.write_bytes(content[:-1])
    elif harm == "remove":
        file.unlink()
    elif harm == "manifest":
        (file.parent.parent / "manifest.json").write_text("{}")
    else:
        (folder / "config.json").touch()
    again = start(keep_on_disk=True)
    again.ask(name, QUESTION)
    assert (again.cached, again.reuse.cause) == (0, "rejected")
    again.ask(name, QUESTION)
    assert again.cached == 29


def test_a_file_that_vanishes_while_it_is_loaded_costs_no_answer(
    start: Callable[..., Talk], name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    talk = start(keep_on_disk=True)
    talk.ask(name, QUESTION)
    checked = Record.checked

    def vanishing(record: Record) -> Path:
        data = checked(record)
        sorted(data.glob("*.bin"))[-1].unlink()
        return data

    monkeypatch.setattr(Record, "checked", vanishing)
    again = start(keep_on_disk=True)
    again.ask(name, QUESTION)
    assert (again.cached, again.reuse.cause) == (0, "rejected")


def test_kv_of_another_layout_is_not_used(start: Callable[..., Talk], name: str) -> None:
    talk = start(keep_on_disk=True)
    talk.ask(name, QUESTION)
    talk.lane.engine.close()
    again = start(keep_on_disk=True)
    again.lane.load()
    again.ask(name, QUESTION)
    assert (again.cached, again.reuse) == (0, Reuse(33, "layout"))


def test_a_deleted_conversation_leaves_nothing(start: Callable[..., Talk], name: str, tmp_path: Path) -> None:
    talk = start(keep_on_disk=True)
    talk.ask(name, QUESTION)
    talk.lane.unload()
    assert kept(tmp_path / "data")
    talk.lane.load()
    talk.lane.engine.handle(ForgetConversation(name))
    talk.lane.engine.close()
    assert not kept(tmp_path / "data")


@contextmanager
def full_disk() -> Iterator[None]:
    """No file may become longer than this: the system refuses, as it does when the disk is full."""
    former = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (100, former[1]))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, former)


def test_a_full_disk_costs_no_answer_and_is_said(
    start: Callable[..., Talk], name: str, tmp_path: Path
) -> None:
    talk = start(conversations=1, keep_on_disk=True)
    with full_disk():
        for conversation in (name, f"{name}-other", name):
            talk.ask(conversation, QUESTION)
    assert (talk.cached, talk.reuse) == (0, Reuse(33, "unsaved"))
    assert not list((tmp_path / "data" / "kv").glob("*/*"))
    talk.ask(f"{name}-other", QUESTION)  # there is room again: what is dropped now is kept
    talk.ask(name, QUESTION)
    assert (talk.cached, talk.reuse) == (29, Reuse(33, from_disk=True))


def test_a_folder_that_cannot_be_written_costs_no_answer(
    start: Callable[..., Talk], name: str, tmp_path: Path
) -> None:
    (tmp_path / "data").mkdir()
    (tmp_path / "data" / "kv").touch()
    talk = start(conversations=1, keep_on_disk=True)
    for conversation in (name, f"{name}-other", name):
        talk.ask(conversation, QUESTION)
    assert talk.reuse == Reuse(33, "unsaved")


def test_what_was_refused_is_tried_again_when_the_settings_change(
    start: Callable[..., Talk], name: str, tmp_path: Path
) -> None:
    talk = start(keep_on_disk=True)
    with full_disk():
        talk.ask(name, QUESTION)
    assert not kept(tmp_path / "data")
    talk.lane.run()
    assert not kept(tmp_path / "data"), "not again and again"
    talk.lane.set_kv(keep_on_disk=True)
    talk.lane.run()
    assert kept(tmp_path / "data")


def test_it_is_kept_as_soon_as_nobody_waits(start: Callable[..., Talk], name: str, tmp_path: Path) -> None:
    """The program may be killed at any moment: here the engine never closes before the next one begins."""
    talk = start(keep_on_disk=True)
    answer = talk.ask(name, QUESTION)
    talk.ask(f"{name}-other", SYSTEM)
    again = start(keep_on_disk=True)
    again.ask(name, QUESTION, ("assistant", answer), ("user", [50, 51]))
    assert (again.cached, again.reuse) == (33, Reuse(33, from_disk=True))
    again.ask(f"{name}-other", SYSTEM)
    assert (again.cached, again.reuse) == (2, Reuse(6, from_disk=True))


def test_the_conversation_used_last_keeps_its_slot(
    start: Callable[..., Talk], name: str, tmp_path: Path
) -> None:
    """Writing one that is not on the device takes the slot for a moment."""
    lane = start(keep_on_disk=True).lane
    for conversation in (name, f"{name}-other"):
        lane.ask(f"to-{conversation}", conversation, QUESTION[1], count=4)
    lane.run()
    assert len({path.parent for path in kept(tmp_path / "data")}) == 2
    entries = lane.engine._caches._caches.entries()
    assert [(one, entry.cache.is_resident) for one, entry in entries] == [
        (f"{name}-other", True),
        (name, False),
    ]


def test_only_what_changed_is_written(start: Callable[..., Talk], name: str, tmp_path: Path) -> None:
    talk = start(keep_on_disk=True)
    talk.ask(name, QUESTION)
    talk.ask(f"{name}-other", QUESTION)
    before = {path: path.stat().st_mtime_ns for path in kept(tmp_path / "data")}
    talk.ask(name, QUESTION)
    talk.lane.engine.close()
    after = {path: path.stat().st_mtime_ns for path in kept(tmp_path / "data")}
    assert len(after) == len(before)
    assert len(after.items() & before.items()) == len(before) / 2


def test_a_switch_turned_on_keeps_what_is_in_memory_and_off_keeps_no_more(
    start: Callable[..., Talk], name: str, tmp_path: Path
) -> None:
    talk = start()
    talk.ask(name, QUESTION)
    talk.lane.set_kv(keep_on_disk=True)
    talk.lane.run()
    assert kept(tmp_path / "data")
    talk.lane.set_kv(keep_on_disk=True, disk_mib=0)
    assert not kept(tmp_path / "data")
    talk.lane.set_kv()
    talk.ask(f"{name}-other", QUESTION)
    talk.lane.engine.close()
    assert not kept(tmp_path / "data")


def test_the_disk_is_bounded(start: Callable[..., Talk], name: str, tmp_path: Path) -> None:
    talk = start(conversations=1, keep_on_disk=True, disk_mib=0)
    for conversation in (name, f"{name}-other"):
        talk.ask(conversation, QUESTION)
    talk.lane.engine.close()
    assert not kept(tmp_path / "data")
