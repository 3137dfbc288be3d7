"""The library file: opening it whatever state it is in, and the one thread that writes to it.

The window never waits for the disk: it changes its own copy and hands the change to the writer, which puts
everything that waits into one transaction. A change that cannot be written stays at the head of the queue
and is tried again, in order, so a full disk loses nothing while the program runs.
"""

from __future__ import annotations

import contextlib
import fcntl
import queue
import re
import shutil
import sqlite3
import tempfile
import threading
import time
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import IO, Any

from mblt_desktop.store.schema import TABLES, VERSION, migrate, require_whole, version_of
from runtime.errors import (
    CorruptStoreError,
    DiskFullError,
    ErrorInfo,
    ReadOnlyError,
    StorageError,
    storage_error,
    to_info,
)

Write = Callable[[sqlite3.Connection], Any]
RETRY_SECONDS = 3.0
_BY_ITSELF = "; saving is tried again by itself."
_RESTART = {
    ReadOnlyError: "Make the folder writable and restart.",
    DiskFullError: "Free some space and restart.",
}
"""What to do when nothing can be saved until the program is started again."""
_NOT_OURS = ("no such table", "no such column", "already exists")
"""What SQLite says of a file whose tables are not those that its version number stands for."""
_KEPT = "What is already saved is unharmed, and what you see in the window stays there."


class _Connection(sqlite3.Connection):
    """Takes any text: half characters, as some file names have them, become replacement characters."""

    def execute(self, sql: str, parameters: Any = (), /) -> sqlite3.Cursor:
        """As the base does."""
        try:
            return super().execute(sql, parameters)
        except UnicodeEncodeError:
            return super().execute(sql, _whole(parameters))

    def executemany(self, sql: str, parameters: Any, /) -> sqlite3.Cursor:
        """As the base does."""
        rows = list(parameters)
        try:
            return super().executemany(sql, rows)
        except UnicodeEncodeError:
            return super().executemany(sql, map(_whole, rows))


def _whole(values: Iterable[Any]) -> tuple[Any, ...]:
    return tuple(
        re.sub("[\ud800-\udfff]", "\N{REPLACEMENT CHARACTER}", value) if isinstance(value, str) else value
        for value in values
    )


def _as_text(data: bytes) -> str:
    return data.decode("utf-8", "replace")


def connect(path: Path) -> sqlite3.Connection:
    """Open the file with this program's settings; transactions are begun by hand."""
    connection = sqlite3.connect(
        path, isolation_level=None, timeout=5.0, check_same_thread=False, factory=_Connection
    )
    connection.row_factory = sqlite3.Row
    connection.text_factory = _as_text
    try:
        connection.execute("PRAGMA journal_mode = WAL")
        connection.execute("PRAGMA synchronous = FULL")
        connection.execute("PRAGMA foreign_keys = ON")
    except sqlite3.Error:
        connection.close()
        raise
    return connection


def to_storage_error(error: sqlite3.Error, path: Path) -> StorageError:
    """SQLite's own words (they are part of its interface) as our errors."""
    words, detail = str(error), f"{type(error).__name__}: {error}"
    if "disk is full" in words:
        return DiskFullError(
            f"The disk holding {path} is full: the last changes are not saved yet.",
            remedy=f"Free some space{_BY_ITSELF}",
            unharmed=_KEPT,
            detail=detail,
        )
    if "readonly" in words or "unable to open" in words:
        return ReadOnlyError(
            f"{path} cannot be written to: the last changes are not saved yet.",
            remedy=f"Make the file and its folder writable{_BY_ITSELF}",
            unharmed=_KEPT,
            detail=detail,
        )
    if "locked" in words:
        return StorageError(
            f"{path} is in use by another program: the last changes are not saved yet.",
            remedy=f"Close the other program{_BY_ITSELF}",
            unharmed=_KEPT,
            detail=detail,
        )
    return CorruptStoreError(
        f"{path} is damaged and could not be used.",
        remedy="Restart the program: a damaged file is kept aside and a new one is made.",
        unharmed="What you see in the window stays there; copy or export what you need.",
        detail=detail,
    )


class Database:
    """An open library file. `problem` says in words what had to be done to open it, or is None."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self.problem: ErrorInfo | None = None
        self._session: tempfile.TemporaryDirectory[str] | None = None
        self._lock: IO[bytes] | None = None
        try:
            self.reader = self._open()
        except BaseException:
            self._let_go()
            raise

    def close(self) -> None:
        """Close the reading side; the writer closes its own."""
        self.reader.close()
        self._let_go()

    def _let_go(self) -> None:
        """Of what is ours beside the connection: the lock, and the folder of a session."""
        if self._lock is not None:
            self._lock.close()
        if self._session is not None:
            self._session.cleanup()

    def _open(self) -> sqlite3.Connection:
        try:
            return self._ready()
        except OSError as error:
            return self._for_this_session(storage_error(error, str(self.path.parent)))
        except sqlite3.OperationalError as error:
            if any(words in str(error) for words in _NOT_OURS):
                return self._keep_aside(error)
            return self._for_this_session(to_storage_error(error, self.path))
        except _NewerFileError:
            return self._for_this_session(
                StorageError(
                    f"{self.path} was made by a newer version of this program.",
                    unharmed="The file is unharmed.",
                    remedy="Update this program to see and save chats again; until then they last as long as "
                    "the window is open.",
                )
            )
        except sqlite3.DatabaseError as error:
            return self._keep_aside(error)

    def _ready(self) -> sqlite3.Connection:
        self.path.parent.mkdir(parents=True, exist_ok=True)
        connection = connect(self.path)
        try:
            if version_of(connection) > VERSION:
                raise _NewerFileError
            migrate(connection)
            require_whole(connection)
            # Reads every table's first pages and proves that the file can be written.
            for table in TABLES:
                connection.execute(f"SELECT * FROM {table} LIMIT 1").fetchone()
            connection.executescript("BEGIN IMMEDIATE; ROLLBACK;")
            if self._is_alone():
                _settle(connection)
        except (sqlite3.Error, _NewerFileError):
            connection.close()
            raise
        return connection

    def _is_alone(self) -> bool:
        """Whether no other window has the file: it may be writing answers, and offer Undo for deletes."""
        if self._lock is not None:
            return True
        try:
            lock = self.path.with_name(f".{self.path.name}.lock").open("wb")
        except OSError:
            return True
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            lock.close()
            return False
        except OSError:  # a file system without locks
            lock.close()
            return True
        self._lock = lock
        return True

    def _keep_aside(self, error: sqlite3.DatabaseError) -> sqlite3.Connection:
        kept = self.path.with_name(f"{self.path.stem}-damaged-{time.strftime('%Y%m%d-%H%M%S')}.db")
        try:
            self.path.rename(kept)
            for suffix in ("-wal", "-shm"):
                side = self.path.with_name(self.path.name + suffix)
                if side.exists():
                    side.rename(kept.with_name(kept.name + suffix))
            connection = self._ready()
        except OSError as failure:
            return self._for_this_session(storage_error(failure, str(self.path)))
        except sqlite3.Error as failure:
            return self._for_this_session(to_storage_error(failure, self.path))
        self.problem = CorruptStoreError(
            f"{self.path.name} with your chats and transcripts is damaged. It was kept as {kept.name} "
            "and a new, empty one was made.",
            unharmed="Models, recordings, media files and settings are unharmed.",
            remedy=f"Parts of the old file can often be recovered: sqlite3 {kept.name} .recover",
            detail=f"{kept}\n{type(error).__name__}: {error}",
        ).info
        return connection

    def _for_this_session(self, cause: StorageError) -> sqlite3.Connection:
        """Work on a copy that ends with the program, rather than not at all."""
        self._session = tempfile.TemporaryDirectory(prefix="mblt-desktop-")
        original, self.path = self.path, Path(self._session.name) / self.path.name
        with contextlib.suppress(OSError):
            for suffix in ("", "-wal"):
                if original.with_name(original.name + suffix).exists():
                    shutil.copy(original.with_name(original.name + suffix), f"{self.path}{suffix}")
        info = cause.info
        self.problem = ErrorInfo(
            info.code,
            f"{info.summary.removesuffix(': the last changes are not saved yet.').rstrip('.')}. "
            "Chats and transcripts of this session will not be kept.",
            f"{_RESTART.get(type(cause)) or info.remedy.replace(_BY_ITSELF, ' and restart.')} "
            "Export what you need before you quit.",
            "What was saved before is unharmed.",
            info.detail,
        )
        try:
            return self._ready()
        except (sqlite3.Error, _NewerFileError):
            for suffix in ("", "-wal", "-shm"):
                Path(f"{self.path}{suffix}").unlink(missing_ok=True)
            return self._ready()


class _NewerFileError(Exception):
    """The file's version is above ours."""


def _settle(connection: sqlite3.Connection) -> None:
    """After a crash: answers that were being written are over. What was deleted last time goes for good."""
    if connection.execute("SELECT 1 FROM messages WHERE state = 'writing' LIMIT 1").fetchone():
        connection.execute("UPDATE messages SET state = 'interrupted' WHERE state = 'writing'")
    for table in ("conversations", "transcripts", "images"):
        if connection.execute(f"SELECT 1 FROM {table} WHERE deleted_at IS NOT NULL LIMIT 1").fetchone():
            connection.execute(f"DELETE FROM {table} WHERE deleted_at IS NOT NULL")


class Writer:
    """The one thread that writes. Callbacks are called on it."""

    def __init__(
        self,
        path: Path,
        on_failed: Callable[[ErrorInfo], None],
        on_recovered: Callable[[], None],
    ) -> None:
        self._path = path
        self._on_failed = on_failed
        self._on_recovered = on_recovered
        self._inbox: queue.SimpleQueue[Write | None] = queue.SimpleQueue()
        self._failing = False
        self._thread = threading.Thread(target=self._run, name="mblt-store", daemon=True)
        self._thread.start()

    def put(self, write: Write) -> None:
        """Queue a change; returns at once."""
        self._inbox.put(write)

    def close(self, seconds: float = 5.0) -> bool:
        """Write what waits, then end; False when that did not work in time."""
        self._inbox.put(None)
        self._thread.join(seconds)
        return not self._thread.is_alive() and not self._failing

    def _run(self) -> None:
        connection: sqlite3.Connection | None = None
        waiting: list[Write] = []
        closing = False
        while not closing:
            closing = self._collect(waiting)
            try:
                connection = connection or connect(self._path)
                self._write(connection, waiting)
            except sqlite3.Error as error:
                self._fail(to_storage_error(error, self._path).info)
        if connection is not None:
            connection.close()

    def _collect(self, waiting: list[Write]) -> bool:
        """Move what is queued to `waiting`; True when the writer is to end."""
        try:
            item = self._inbox.get(timeout=RETRY_SECONDS if waiting else None)
            while item is not None:
                waiting.append(item)
                item = self._inbox.get_nowait()
        except queue.Empty:
            return False
        return True

    def _write(self, connection: sqlite3.Connection, waiting: list[Write]) -> None:
        if not waiting:
            return
        connection.execute("BEGIN IMMEDIATE")
        try:
            self._run_all(connection, waiting)
            connection.execute("COMMIT")
        except sqlite3.Error:
            if connection.in_transaction:
                connection.execute("ROLLBACK")
            raise
        waiting.clear()
        if self._failing:
            self._failing = False
            self._on_recovered()

    def _run_all(self, connection: sqlite3.Connection, waiting: list[Write]) -> None:
        for write in list(waiting):
            try:
                write(connection)
            except (sqlite3.IntegrityError, sqlite3.ProgrammingError, sqlite3.InterfaceError) as error:
                self._drop(waiting, write, error)
            except sqlite3.Error:
                raise
            except Exception as error:  # noqa: BLE001 - a fault of ours must not stop all later saving
                self._drop(waiting, write, error)

    def _drop(self, waiting: list[Write], write: Write, error: Exception) -> None:
        waiting.remove(write)
        self._on_failed(to_info(error))

    def _fail(self, error: ErrorInfo) -> None:
        if not self._failing:
            self._failing = True
            self._on_failed(error)
