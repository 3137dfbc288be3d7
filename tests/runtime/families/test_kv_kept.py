"""KV on the disk: what comes back after a restart, what is not trusted, and what a refusing disk costs."""

from __future__ import annotations

import json
import os
import resource
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from runtime.catalog.job import Job
from runtime.catalog.manifest import Description, write_manifest
from runtime.kv.store import Record, sealed
from runtime.messages import ForgetConversation, Reuse
from runtime.simulator.build import build_artifact
from tests.runtime.families.kv_talk import QUESTION, SYSTEM, Expected, Talk


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


def replace_unseen(folder: Path, other: Path) -> None:
    """Put another artifact in place of that one; names, sizes and times of the files stay."""
    for path in sorted(folder.iterdir()):
        facts, content = path.stat(), (other / path.name).read_bytes()
        assert len(content) == facts.st_size, path.name
        path.write_bytes(content)
        os.utime(path, ns=(facts.st_atime_ns, facts.st_mtime_ns))


def rejected_after(
    change: Callable[[], None], model: Path, data: Path, expected: Expected, name: str
) -> bool:
    """Whether the KV that a talk has left on the disk is of no use to the next one, after the change."""
    for meanwhile in (change, lambda: None):
        talk = Talk(model, data, expected, keep_on_disk=True)
        talk.ask(name, QUESTION)
        talk.lane.engine.close()
        meanwhile()
    return (talk.cached, talk.reuse.cause) == (0, "rejected")


def test_kv_of_other_shapes_is_not_used_though_the_files_look_the_same(
    checkpoint: Path, folder: Path, expected: Expected, name: str, tmp_path: Path
) -> None:
    model, other = Path(shutil.copytree(folder, tmp_path / "model")), tmp_path / "other"
    build_artifact(checkpoint, other, max_batch_size=1, context_length=216, prefill_chunk=16)
    assert rejected_after(lambda: replace_unseen(model, other), model, tmp_path / "data", expected, name)


def test_kv_of_another_installed_model_is_not_used_though_its_files_look_the_same(
    folder: Path, expected: Expected, name: str, tmp_path: Path
) -> None:
    """Only the hashes in the manifest tell them apart, as when a folder is copied with its times."""
    model, other = tmp_path / "model", tmp_path / "other"
    for made in (model, other):
        shutil.copytree(folder, made)
    config = (other / "config.json").read_text()
    assert '"initializer_range": 0.25' in config  # counts for training only, so the answers are the same
    (other / "config.json").write_text(
        config.replace('"initializer_range": 0.25', '"initializer_range": 0.26')
    )
    about = Description("tiny", "Tiny", "chat", "llama", "simulated", "MIT")
    for made in (model, other):
        write_manifest(made, about, Job(lambda _: None))
    assert rejected_after(lambda: replace_unseen(model, other), model, tmp_path / "data", expected, name)


def test_what_the_disk_keeps_is_loaded_if_that_beats_computing(start: Callable[..., Talk], name: str) -> None:
    talk = start(conversations=1, keep_on_disk=True, load_margin=1e-9)
    for conversation in (name, f"{name}-other", name):  # the first load tells how long one takes
        talk.ask(conversation, QUESTION)
    assert talk.reuse == Reuse(33, from_disk=True)
    talk.ask(f"{name}-other", QUESTION)
    assert (talk.cached, talk.reuse) == (0, Reuse(33, "cheaper"))


@pytest.mark.parametrize("seconds", [5.0, -1.0])
def test_what_was_refused_is_tried_at_the_end_while_there_is_time(
    start: Callable[..., Talk], name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seconds: float
) -> None:
    monkeypatch.setattr("runtime.kv.keeper.SAVE_SECONDS", seconds)
    talk = start(keep_on_disk=True)
    with full_disk():
        talk.ask(name, QUESTION)
    talk.lane.engine.close()
    assert bool(kept(tmp_path / "data")) == (seconds > 0)


def test_kv_of_another_length_than_its_manifest_says_is_computed_again(
    start: Callable[..., Talk], name: str, tmp_path: Path
) -> None:
    start(keep_on_disk=True).ask(name, QUESTION)
    (path,) = (tmp_path / "data" / "kv").glob("*/*/manifest.json")
    manifest = json.loads(path.read_text().splitlines()[0])
    manifest["identity"].append(7)
    path.write_text(sealed(manifest))
    again = start(keep_on_disk=True)
    again.ask(name, QUESTION)
    assert (again.cached, again.reuse.cause) == (0, "rejected")


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
    assert len({path.parent for path in kept(tmp_path / "data")}) == 1
    with full_disk():
        talk.ask(f"{name}-other", QUESTION)
    talk.ask(f"{name}-other", QUESTION)  # and after the conversation's next answer
    assert len({path.parent for path in kept(tmp_path / "data")}) == 2


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
    entries = lane.engine._loaded.caches._caches.entries()
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
