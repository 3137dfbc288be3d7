"""KV on the disk: whole or not at all, checked before use, bounded, private."""

from __future__ import annotations

import json
import os
import shutil
import stat
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from runtime.kv.reuse import Said
from runtime.kv.store import KvRejectedError, KvStore, ModelKey, sealed
from runtime.messages import TextPart, Turn

KEY = ModelKey("m", "single", "d" * 64)
OTHER = ModelKey("m", "global4", "e" * 64)
IDENTITY = (1, 2, (7, "digest"), 3)


def said() -> Said:
    made = Said.of([Turn("user", (TextPart("secret words"),))], left_out=2)
    made.answer.append("secret answer")
    return made


def writing(content: bytes) -> Callable[[str], None]:
    def dump(folder: str) -> None:
        (Path(folder) / "cache_a.bin").write_bytes(content)
        (Path(folder) / "layer_1").mkdir()
        (Path(folder) / "layer_1" / "seq_length.txt").write_text("4\n")

    return dump


def keep(store: KvStore, conversation: str = "c", content: bytes = b"kv" * 500, key: ModelKey = KEY) -> None:
    store.save(key, conversation, IDENTITY, said(), writing(content))


@pytest.fixture
def store(tmp_path: Path) -> KvStore:
    return KvStore(tmp_path / "kv")


def test_what_was_kept_comes_back(store: KvStore) -> None:
    keep(store)
    record = store.find(KEY, "c")
    assert record is not None
    assert (record.key, record.identity, record.said.left_out) == (KEY, IDENTITY, 2)
    assert record.said.marks() == said().marks()
    assert record.nbytes == 1002
    data = record.checked()
    assert (data / "cache_a.bin").read_bytes() == b"kv" * 500
    assert store.find(KEY, "another") is None


def test_the_newest_counts(store: KvStore) -> None:
    keep(store)
    keep(store, content=b"newer")
    record = store.find(KEY, "c")
    assert record is not None
    assert (record.checked() / "cache_a.bin").read_bytes() == b"newer"


def test_kv_of_another_layout_is_found_to_say_so(store: KvStore) -> None:
    keep(store, key=OTHER)
    record = store.find(KEY, "c")
    assert record is not None
    assert record.key == OTHER


@pytest.mark.parametrize("harm", ["flip", "cut"])
def test_a_damaged_file_is_rejected_by_name(store: KvStore, harm: str) -> None:
    keep(store)
    record = store.find(KEY, "c")
    assert record is not None
    path = record.checked() / "cache_a.bin"
    if harm == "flip":
        path.write_bytes(b"kw" + path.read_bytes()[2:])
    else:
        path.write_bytes(path.read_bytes()[:-1])
    with pytest.raises(KvRejectedError, match=r"cache_a\.bin is damaged"):
        record.checked()


@pytest.mark.parametrize("harm", ["remove", "add", "all"])
def test_a_folder_with_other_files_than_were_written_is_rejected(store: KvStore, harm: str) -> None:
    keep(store)
    record = store.find(KEY, "c")
    assert record is not None
    data = record.checked()
    if harm == "remove":
        (data / "layer_1" / "seq_length.txt").unlink()
    elif harm == "add":
        (data / "rope_deltas.json").write_text("{}")  # a loader may look for more files than were written
    else:
        shutil.rmtree(data)
    with pytest.raises(KvRejectedError, match="does not hold the files that were written"):
        record.checked()


@pytest.mark.parametrize(
    "change",
    [
        lambda manifest: manifest.pop("files"),
        lambda manifest: manifest.update(format=1),
        lambda manifest: manifest.update(data="../../escape"),
        lambda manifest: manifest.update(data=["data"]),
        lambda manifest: manifest.update(files=[]),
        lambda manifest: manifest.update(identity=[1, "two"]),
        lambda manifest: manifest.update(identity=[True]),
        lambda manifest: manifest.update(turns=[["user"]]),
        lambda manifest: manifest.update(model="m"),
    ],
)
def test_a_manifest_that_is_not_ours_is_rejected(store: KvStore, change: Callable[[dict], object]) -> None:
    keep(store)
    record = store.find(KEY, "c")
    assert record is not None
    path = record.folder / "manifest.json"
    manifest = json.loads(path.read_text().splitlines()[0])
    change(manifest)
    path.write_text(sealed(manifest))
    with pytest.raises(KvRejectedError, match=r"manifest\.json"):
        store.find(KEY, "c")
    path.write_text("[" * 100_000)
    with pytest.raises(KvRejectedError):
        store.find(KEY, "c")


@given(at=st.integers(0), flip=st.integers(1, 127))
@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_a_manifest_with_one_wrong_byte_is_rejected(store: KvStore, at: int, flip: int) -> None:
    keep(store)
    record = store.find(KEY, "c")
    assert record is not None
    path = record.folder / "manifest.json"
    content = bytearray(path.read_bytes())
    content[at % len(content)] ^= flip
    path.write_bytes(content)
    with pytest.raises(KvRejectedError, match=r"manifest\.json"):
        store.find(KEY, "c")


def test_a_write_that_fails_leaves_what_was_there(store: KvStore, tmp_path: Path) -> None:
    keep(store)

    def full(folder: str) -> None:
        (Path(folder) / "cache_a.bin").write_bytes(b"half")
        raise OSError(28, "No space left on device")

    with pytest.raises(OSError, match="No space"):
        store.save(KEY, "c", IDENTITY, said(), full)
    record = store.find(KEY, "c")
    assert record is not None
    assert (record.checked() / "cache_a.bin").read_bytes() == b"kv" * 500
    (kept,) = (tmp_path / "kv" / KEY.digest).iterdir()
    assert len(list(kept.iterdir())) == 2
    store.forget("c")
    with pytest.raises(OSError, match="No space"):
        store.save(KEY, "c", IDENTITY, said(), full)
    assert store.find(KEY, "c") is None
    assert list((tmp_path / "kv" / KEY.digest).iterdir()) == []


def test_two_programs_at_one_conversation_leave_one_whole_state(tmp_path: Path) -> None:
    one, other = KvStore(tmp_path / "kv"), KvStore(tmp_path / "kv")
    keep(one, content=b"before")
    held = one.find(KEY, "c")
    assert held is not None

    def meanwhile(folder: str) -> None:
        writing(b"mine")(folder)
        keep(other, content=b"theirs")
        record = other.find(KEY, "c")
        assert record is not None
        assert (record.checked() / "cache_a.bin").read_bytes() == b"theirs"
        with pytest.raises(KvRejectedError):  # found before the other one wrote, and never mixed with it
            held.checked()

    one.save(KEY, "c", (8, 9), said(), meanwhile)
    record = other.find(KEY, "c")
    assert record is not None
    assert record.identity == (8, 9)
    assert (record.checked() / "cache_a.bin").read_bytes() == b"mine"
    assert len(list(record.folder.iterdir())) == 2


def test_programs_that_write_at_once_are_never_mixed(store: KvStore) -> None:
    """What is found was written by one of them, whole: each writes its own number everywhere."""
    writers = set()
    for number in (1, 2):
        writers.add(os.fork())
        if 0 in writers:
            try:
                for _ in range(60):
                    store.save(KEY, "c", (number,), said(), writing(b"%d" % number))
                os._exit(0)
            finally:
                os._exit(1)
    found: set[int] = set()
    while writers:
        for writer in list(writers):
            ended, status = os.waitpid(writer, os.WNOHANG)
            if ended:
                assert status == 0, "the disk refused nobody"
                writers.discard(writer)
        with suppress(KvRejectedError, OSError):
            record = store.find(KEY, "c")
            if record is not None:
                content = (record.checked() / "cache_a.bin").read_bytes()
                assert record.identity == (int(content),)
                found.add(int(content))
    assert found <= {1, 2}
    assert found
    last = store.find(KEY, "c")
    assert last is not None
    last.checked()


def test_a_write_that_was_killed_leaves_what_was_there(store: KvStore, tmp_path: Path) -> None:
    keep(store)
    killed = os.fork()
    if killed == 0:
        store.save(KEY, "c", IDENTITY, said(), lambda _: os._exit(0))
    os.waitpid(killed, 0)
    folder = next((tmp_path / "kv" / KEY.digest).iterdir())
    assert len(list(folder.iterdir())) == 3
    record = store.find(KEY, "c")
    assert record is not None
    record.checked()
    for path in folder.iterdir():
        os.utime(path, (100, 100))
    keep(store)
    assert len(list(folder.iterdir())) == 2


def test_what_was_killed_before_it_was_whole_was_never_there(store: KvStore) -> None:
    killed = os.fork()
    if killed == 0:
        store.save(KEY, "c", IDENTITY, said(), lambda _: os._exit(0))
    os.waitpid(killed, 0)
    assert store.find(KEY, "c") is None
    assert store.find(OTHER, "c") is None


def test_a_manifest_that_cannot_be_put_in_place_leaves_nothing_of_itself(
    store: KvStore, monkeypatch: pytest.MonkeyPatch
) -> None:
    keep(store)
    record = store.find(KEY, "c")
    assert record is not None

    def refuse(*_: object) -> None:
        raise OSError(5, "Input/output error")

    with monkeypatch.context() as broken:
        broken.setattr(Path, "replace", refuse)
        with pytest.raises(OSError, match="Input/output"):
            keep(store, content=b"newer")
    assert store.find(KEY, "c") == record
    assert sorted(path.name for path in record.folder.iterdir()) == sorted([record.data, "manifest.json"])


def test_a_clock_that_runs_wrong_costs_nothing(store: KvStore) -> None:
    def dump(folder: str) -> None:
        writing(b"kv")(folder)
        os.utime(folder, (100, 100))

    store.save(KEY, "c", IDENTITY, said(), dump)
    record = store.find(KEY, "c")
    assert record is not None
    record.checked()


def test_a_manifest_longer_than_any_is_not_read(store: KvStore, monkeypatch: pytest.MonkeyPatch) -> None:
    keep(store)
    monkeypatch.setattr("runtime.kv.store._LONGEST_MANIFEST", 100)
    with pytest.raises(KvRejectedError, match=r"manifest\.json"):
        store.find(KEY, "c")


def test_deleting_a_conversation_deletes_every_trace(store: KvStore, tmp_path: Path) -> None:
    keep(store)
    keep(store, key=OTHER)
    keep(store, "d")
    store.forget("c")
    assert store.find(KEY, "c") is None
    assert store.find(KEY, "d") is not None
    assert len(list((tmp_path / "kv").rglob("manifest.json"))) == 1


def test_what_was_used_longest_ago_goes_first_and_leftovers_too(store: KvStore, tmp_path: Path) -> None:
    for age, name in enumerate("abc"):
        keep(store, name)
        record = store.find(KEY, name)
        assert record is not None
        os.utime(record.folder / "manifest.json", (100 + age, 100 + age))
    oldest = store.find(KEY, "a")
    assert oldest is not None
    oldest.checked()  # used now
    left = tmp_path / "kv" / KEY.digest / "left by a crash"
    fresh = left.with_name("just being written")
    for folder in (left, fresh):
        (folder / "data-1").mkdir(parents=True)
    os.utime(left, (100, 100))
    size = sum(path.stat().st_size for path in oldest.folder.rglob("*") if path.is_file())
    store.trim(2 * size)
    assert [name for name in "abc" if store.find(KEY, name) is not None] == ["a", "c"]
    store.trim(2 * size - 1)
    assert [name for name in "abc" if store.find(KEY, name) is not None] == ["a"]
    assert not left.exists()
    assert fresh.exists()


def test_nobody_else_may_look_and_no_name_or_word_is_written(store: KvStore, tmp_path: Path) -> None:
    root = tmp_path / "kv"
    root.mkdir(mode=0o755)
    keep(store, "../../conversation about secrets")
    assert stat.S_IMODE(root.stat().st_mode) == 0o700
    assert [path.name for path in tmp_path.iterdir()] == ["kv"]
    written = list(root.rglob("*"))
    assert not any("secret" in str(path.relative_to(root)) for path in written)
    assert not any(b"secret" in path.read_bytes() for path in written if path.is_file())
